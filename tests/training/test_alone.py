import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from magnet.errors import UserError
from magnet.experiments.cache import is_finished, key_of, trained
from magnet.training.alone import alone
from magnet.training.train import LOCK, train
from magnet.training.workbench import open_for
from training.short_runs import settings

HOLD = """
import sys
from pathlib import Path
from magnet.training.alone import alone
with alone(Path(sys.argv[1]), lambda: None):
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
        with pytest.raises(RuntimeError, match="busy"), alone(tmp_path / "lock", refuse):
            pass
        other.kill()
        other.wait()
        with alone(tmp_path / "lock", refuse):
            pass


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
