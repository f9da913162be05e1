"""Two processes that train together."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

from magnet.training import distribution
from magnet.training.config import read_config
from magnet.training.distribution import gather_rows, share_classes
from training.short_runs import settings, start

TORCHRUN = ("--standalone", "--nproc-per-node", "2")


def test_classes_are_shared_whole_and_evenly():
    labels = torch.repeat_interleave(torch.arange(6), torch.tensor([50, 10, 40, 30, 5, 45]))[torch.randperm(180)]
    owner = share_classes(labels, 3)
    assert int(torch.bincount(owner).max()) <= 80  # largest first is never worse than 4/3 of the best
    for c in range(6):
        assert len(owner[labels == c].unique()) == 1


def test_one_process_owns_everything_and_asks_nobody():
    assert share_classes(torch.tensor([3, 1, 3]), 1).tolist() == [0, 0, 0]
    rows = torch.rand(3, 2)
    assert gather_rows(rows, 1) is rows


@pytest.mark.slow
def test_all_ranks_hold_the_same_index_losses_and_weights(vectors, images, tmp_path):
    script = str(Path(__file__).with_name("two_processes.py"))
    process = start(*TORCHRUN, script, str(tmp_path), vectors, images, module="torch.distributed.run")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert read_config(tmp_path / "triplet" / "warm-start").method == "softmax"


@pytest.mark.slow
def test_torchrun_trains_from_the_command_line(tmp_path):
    config = settings(tmp_path / "run", "digits", epochs=1, quiet=True, preset="paper/default", validation=0.2)
    # From a file: torchrun would take --start for an abbreviation of an option of its own.
    config.save(tmp_path / "settings.yaml")
    words = ("train", "--config", str(tmp_path / "settings.yaml"), "--out", str(config.out))
    process = start(*TORCHRUN, "-m", "magnet", *words, module="torch.distributed.run")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert output.count("The run is in") == 1
    steps = -(-1006 // 48)  # 24 examples on each of two ranks
    assert (tmp_path / "run" / "checkpoint" / f"step-{steps:08d}").is_dir()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
def test_a_stopped_rank_is_named_and_all_end(tmp_path):
    script = tmp_path / "one_stops.py"
    script.write_text(ONE_STOPS)
    process, begun = start(*TORCHRUN, str(script), module="torch.distributed.run"), time.monotonic()
    output, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "magnet: rank 1 has not answered for 4 seconds: rank 0 ends. Go on with --resume" in output
    assert time.monotonic() - begun < 60
    with pytest.raises(ProcessLookupError):
        os.kill(int(output.partition("I am ")[2].split()[0]), 0)


def test_a_very_busy_machine_still_notices_a_stopped_rank(monkeypatch):
    """Each wait took far longer than it should: that was a reason to give the other rank time, again and again."""

    class Store(dict):
        set = dict.__setitem__

        def check(self, names):
            return all(name in self for name in names)

    monkeypatch.setattr(distribution, "EVERY", 0.002)
    monkeypatch.setattr(distribution, "SILENCE", 0.01)
    monkeypatch.setattr(distribution, "TCPStore", lambda *_, **__: None)
    monkeypatch.setattr(distribution, "PrefixStore", lambda *_: Store())
    said, waits = [], []
    heartbeat = distribution.Heartbeat(0, 2)

    def slow(seconds):
        time.sleep(5 * seconds)
        waits.append(seconds)
        return bool(said) or len(waits) == 50

    monkeypatch.setattr(heartbeat, "_leave", said.append)
    monkeypatch.setattr(heartbeat._end, "wait", slow)
    heartbeat._watch()
    assert said == ["rank 1 has not answered for 0.01 seconds"]
    assert len(waits) < 10


def test_nothing_beats_after_the_end(monkeypatch):
    """A thread that is still in the store when the interpreter ends aborts the process: rank 1 ended with SIGABRT."""
    inside, begun = threading.Event(), []

    class Store:
        def set(self, *_):
            inside.set()
            time.sleep(0.3)

        check = set

    monkeypatch.setattr(distribution, "EVERY", 0.001)
    monkeypatch.setattr(distribution, "TCPStore", lambda *_, **__: None)
    monkeypatch.setattr(distribution, "PrefixStore", lambda *_: Store())
    with distribution.Heartbeat(0, 1) as heartbeat:
        begun.append(heartbeat._thread.is_alive())
        inside.wait(10)
    assert begun == [True]
    assert not heartbeat._thread.is_alive()


ONE_STOPS = """
import os, signal
import torch.distributed as dist
from magnet.training import distribution

distribution.EVERY, distribution.SILENCE = 0.5, 4
dist.init_process_group("gloo")
with distribution.Heartbeat(dist.get_rank(), 2):
    dist.barrier()
    if dist.get_rank() == 1:
        print("I am", os.getpid(), flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.barrier()
    dist.barrier()
"""
