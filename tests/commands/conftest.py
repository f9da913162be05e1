import shutil
from pathlib import Path

import pytest

from magnet.training.train import train
from training.short_runs import stop_at


@pytest.fixture
def own_photo_run(photo_run, tmp_path) -> Path:
    """A copy of the run on photos, without its cache, to be spoilt."""
    return Path(shutil.copytree(photo_run, tmp_path / "copy", ignore=shutil.ignore_patterns("cache")))


@pytest.fixture
def magnet(command, monkeypatch):
    """`command`, on a terminal of a fixed width."""
    monkeypatch.setenv("COLUMNS", "120")
    return command


@pytest.fixture
def stopped(monkeypatch):
    """Trains until a step and stops there, as by Ctrl-C; returns the run."""

    def run(config, at, data=None):
        with monkeypatch.context() as patch:
            stop_at(patch, at)
            with pytest.raises(KeyboardInterrupt):
                train(config, data=data, silent=True)
        return config.out

    return run
