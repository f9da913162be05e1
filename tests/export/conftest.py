"""Tiny runs to be exported. None of them is written to, apart from its cache."""

from pathlib import Path

import numpy as np
import pytest

import magnet
from magnet.data import open_data
from magnet.training.config import TrainConfig
from magnet.training.train import train


def short_run(out: Path, data: str = "digits", **changes) -> Path:
    settings = {"steps": 30, "evaluate": False, "quiet": True, "device": "cpu", "workers": 0, "scaling": 6.0}
    return train(TrainConfig(data=data, out=out, **{**settings, **changes}), silent=True)


@pytest.fixture(scope="session")
def digits():
    """Vectors, labels and split of the digits."""
    data = open_data("digits")
    return data.vectors, data.labels.numpy(), data.split


@pytest.fixture(scope="session")
def nine_digits(tmp_path_factory, digits):
    """A model that has never seen a nine."""
    x, y, split = digits
    folder = tmp_path_factory.mktemp("nine")
    known = y != 9
    np.savez(folder / "x.npz", X=x[known], y=y[known], split=split[known])
    return magnet.load(short_run(folder / "run", str(folder / "x.npz"), steps=100))
