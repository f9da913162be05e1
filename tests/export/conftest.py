"""Tiny runs to be exported. None of them is written to, apart from its cache."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import magnet
from magnet.data import open_data
from magnet.training.config import TrainConfig
from magnet.training.train import train

COLOURS = {"red": (200, 40, 40), "grün": (40, 180, 40), "blue": (40, 40, 200)}


def short_run(out: Path, data: str = "digits", **changes) -> Path:
    settings = {"steps": 30, "evaluate": False, "quiet": True, "device": "cpu", "workers": 0, "scaling": 6.0}
    return train(TrainConfig(data=data, out=out, **{**settings, **changes}), silent=True)


@pytest.fixture(scope="session")
def digits():
    """Vectors, labels and split of the digits."""
    data = open_data("digits")
    return data.vectors, data.labels.numpy(), data.split


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory) -> Path:
    return short_run(tmp_path_factory.mktemp("digits") / "run")


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("photos") / "photos"
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for i in range(8):
            pixels = np.clip(np.array(colour) + rng.normal(0, 40, (20, 24, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i}.png")
    return folder


@pytest.fixture(scope="session")
def photo_run(photos) -> Path:
    return short_run(
        photos.parent / "run", str(photos), backbone="convnet", image_size=16, steps=6, clusters_per_class=2,
        test_draws=4,
    )  # fmt: skip


@pytest.fixture(scope="session")
def nine_digits(tmp_path_factory, digits):
    """A model that has never seen a nine."""
    x, y, split = digits
    folder = tmp_path_factory.mktemp("nine")
    known = y != 9
    np.savez(folder / "x.npz", X=x[known], y=y[known], split=split[known])
    return magnet.load(short_run(folder / "run", str(folder / "x.npz"), steps=100))
