import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from magnet.training.config import TrainConfig
from magnet.training.train import train
from training.short_runs import stop_at

COLOURS = {"red [bold]fox": (200, 40, 40), "grün": (40, 180, 40), "blue": (40, 40, 200)}


def paint(path: Path, colour: tuple[int, int, int]) -> Path:
    """A small noisy picture of one colour."""
    rng = np.random.default_rng(len(list(path.parent.glob("*"))))
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.clip(np.array(colour) + rng.normal(0, 40, (20, 24, 3)), 0, 255)
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory) -> Path:
    """A short run on digits. Not to be written to, apart from its cache."""
    config = TrainConfig(data="digits", steps=30, evaluate=False, quiet=True, out=tmp_path_factory.mktemp("d") / "run")
    return train(config, silent=True)


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    """Three classes of eight photos; one class name looks like markup."""
    folder = tmp_path_factory.mktemp("p") / "photos"
    for name, colour in COLOURS.items():
        for i in range(8):
            paint(folder / name / f"{i}.png", colour)
    return folder


@pytest.fixture(scope="session")
def photo_run(photos) -> Path:
    """A very short run on the photos."""
    config = TrainConfig(
        data=str(photos), backbone="convnet", image_size=16, steps=6, workers=0, clusters_per_class=2,
        test_draws=4, evaluate=False, quiet=True, out=photos.parent / "run",
    )  # fmt: skip
    return train(config, silent=True)


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
