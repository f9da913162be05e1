import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from magnet.errors import UserError
from magnet.experiments.cache import is_finished, key_of, trained
from magnet.files import lock
from magnet.training.train import LOCK, train
from magnet.training.workbench import open_for
from training.short_runs import settings

HOLD = """
import sys
from pathlib import Path
from magnet.files import lock
with lock(Path(sys.argv[1]), lambda: None):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_elsewhere(path: Path) -> Iterator[subprocess.Popen]:
    """Another process holds the lock until it is killed or its input is closed."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()


def refuse() -> None:
    raise RuntimeError("busy")


def test_a_lock_is_held_by_one_process_and_free_once_that_is_killed(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path / "lock") as other:
        with pytest.raises(RuntimeError, match="busy"), lock(tmp_path / "lock", refuse):
            pass
        other.kill()
        other.wait()
        with lock(tmp_path / "lock", refuse):
            pass


FORK = """
import os, sys, time
from magnet.files import lock
with lock(sys.argv[1], lambda: None):
    if os.fork() == 0:
        print(flush=True)  # by the worker: until it runs, the lock's file is still open in it
        time.sleep(30)
        os._exit(0)
    time.sleep(30)
"""


def test_a_worker_that_outlives_its_killed_parent_does_not_keep_the_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORK, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as parent:
        try:
            parent.stdout.readline()
            with pytest.raises(RuntimeError, match="busy"), lock(tmp_path / "lock", refuse):
                pass
            parent.kill()
            parent.wait()
            with lock(tmp_path / "lock", refuse):
                pass
        finally:
            os.killpg(parent.pid, signal.SIGKILL)  # the worker


def test_on_a_file_system_without_locks_the_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with lock(tmp_path / "lock", refuse):
        worked = True
    assert worked


def test_a_run_that_another_process_trains_is_left_alone(vectors, tmp_path: Path) -> None:
    config = settings(tmp_path / "run", vectors)
    train(config, silent=True)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with (
        held_elsewhere(tmp_path / "run" / LOCK),
        pytest.raises(UserError, match=r"another process is training in .*run"),
    ):
        train(config, resume=True, silent=True)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_an_experiment_waits_for_a_run_that_another_one_trains(vectors, tmp_path: Path) -> None:
    config = settings(tmp_path / "unused", vectors)
    data = open_for(config)
    (tmp_path / ".locks").mkdir()
    with held_elsewhere(tmp_path / ".locks" / key_of(config, data)) as other:
        waited = []

        def waiting() -> None:
            waited.append(is_finished(tmp_path / key_of(config, data)))
            other.stdin.close()

        assert is_finished(trained(config, data, tmp_path, waiting))
    assert waited == [False]
