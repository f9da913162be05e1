"""SIGINT and SIGTERM: save, say how to go on, leave with 130."""

import os
import signal

import pytest

from magnet.cli import main
from magnet.training.loop import Trainer
from training.short_runs import differences, flags, run, settings


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_a_checkpoint_and_says_how_to_go_on(number, vectors, tmp_path, monkeypatch, capsys):
    step = Trainer._step

    def signalled(trainer):
        step(trainer)
        if trainer.step == 4:
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
