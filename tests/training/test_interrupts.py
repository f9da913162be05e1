"""SIGINT and SIGTERM: save, say how to go on, leave with 130."""

import multiprocessing
import os
import re
import signal
import time

import pytest
import torch

from magnet.cli import main
from magnet.data import open_data
from magnet.training.folder import checkpoints
from magnet.training.inputs import batches
from magnet.training.loop import Trainer
from training.short_runs import differences, flags, run, settings, start


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])  # to the process, and to its group too
def test_a_signal_saves_a_checkpoint_and_says_how_to_go_on(number, times, vectors, tmp_path, monkeypatch, capsys):
    step = Trainer._step

    def signalled(trainer):
        step(trainer)
        if trainer.step == 4:
            for _ in range(times):
                os.kill(os.getpid(), number)

    monkeypatch.setattr(Trainer, "_step", signalled)
    before = signal.getsignal(number)
    config = settings(tmp_path / "run", vectors, steps=8, refresh_every=3, quiet=True)
    assert main(["train", *flags(config)]) == 130
    assert f"stopped at step 4 of 8; go on: magnet train --resume {tmp_path / 'run'}" in capsys.readouterr().err
    assert (tmp_path / "run" / "checkpoint" / "step-00000004").is_dir()
    assert signal.getsignal(number) is before

    monkeypatch.setattr(Trainer, "_step", step)
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 0
    whole = run(tmp_path / "whole", vectors, steps=8, refresh_every=3)
    assert differences(whole, tmp_path / "run") == []


def test_a_person_who_asks_again_is_obeyed_at_once(vectors, tmp_path, monkeypatch):
    step = Trainer._step

    def signalled(trainer):
        step(trainer)
        os.kill(os.getpid(), signal.SIGINT)
        trainer.interrupted_at -= 2  # seconds
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("went on")

    monkeypatch.setattr(Trainer, "_step", signalled)
    assert main(["train", *flags(settings(tmp_path / "run", vectors, quiet=True))]) == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_leave_signals_to_the_main_process(number, images):
    data = open_data(images).with_image_size(12)
    rows = torch.arange(24)
    stream = batches(data, rows, rows.split(2), 2)
    found = [next(stream)]
    workers = multiprocessing.active_children()
    assert len(workers) == 2
    for worker in workers:
        os.kill(worker.pid, number)
    found += list(stream)
    assert torch.cat([places for places, _ in found]).equal(rows)


@pytest.mark.slow
def test_a_signal_to_the_process_group_of_a_run_with_workers_ends_in_one_line(images, tmp_path):
    options = {"backbone": "convnet", "hidden": 0, "image_size": 12, "steps": 12, "quiet": True, "workers": 2}
    process = start("train", *flags(settings(tmp_path / "run", images, **options)), start_new_session=True)
    while not checkpoints(tmp_path / "run" / "checkpoint"):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    last = output.splitlines()[-1]
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert re.fullmatch(rf"magnet: stopped at step \d+ of 12; go on: magnet train --resume {tmp_path / 'run'}", last)
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 0
    whole = run(tmp_path / "whole", images, **options)
    assert differences(whole, tmp_path / "run") == []


@pytest.mark.parametrize(("code", "cause"), [(0, False), (130, False), (130, True)])
def test_ctrl_c_while_a_command_ends_prints_no_traceback(code, cause, monkeypatch, capsys):
    def command(words):
        if cause:  # as Python 3.11 has it while a class is made, in an import
            raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()
        if code:
            raise KeyboardInterrupt
        return code

    monkeypatch.setattr("sys.argv", ["magnet", "nothing"])
    monkeypatch.setattr("magnet.cli._run", command)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main() == code
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == ("magnet: interrupted\n" if code else "")


def test_a_signal_in_the_last_step_leaves_a_complete_run(vectors, tmp_path, monkeypatch, capsys):
    step = Trainer._step

    def signalled(trainer):
        step(trainer)
        if trainer.step == trainer.total:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Trainer, "_step", signalled)
    assert main(["train", *flags(settings(tmp_path / "run", vectors, steps=2, quiet=True))]) == 130
    assert "is complete" in capsys.readouterr().err


def test_a_finished_run_has_nothing_to_go_on_with(vectors, tmp_path, capsys):
    run(tmp_path / "run", vectors, steps=2)
    assert main(["train", "--resume", str(tmp_path / "run")]) == 2
    assert "is finished: nothing to go on with" in capsys.readouterr().err
