"""What holds for all tests."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

# Some virtual processors announce matrix units that they do not have, and bfloat16 arithmetic dies of it. This has to
# be said before the first product is computed.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

from magnet.cli import main
from magnet.data.sources import list_digits
from magnet.training.config import TrainConfig
from magnet.training.train import train

COLOURS = {"red [bold]fox": (200, 40, 40), "grün": (40, 180, 40), "blue": (40, 40, 200)}


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Small networks are no quicker with two threads, and runs that are compared bit by bit must use as many threads as
    their subprocesses.
    """
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def few_digits():
    """Makes ``digits`` a fifth of what it is, 360 examples, for tests that train many times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("magnet.data.sources.list_digits", lambda: list_digits().keep(np.arange(0, 1797, 5)))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Features of images are kept in a folder of the tests, not in the user's cache."""
    os.environ["MAGNET_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_disks():
    """Tests end processes, never machines: what is written need not reach the disk, which takes half of a short run."""
    patch = pytest.MonkeyPatch()
    patch.setattr("os.fsync", lambda file: None)
    yield
    patch.undo()


@pytest.fixture
def command(capsys):
    """Runs a command that must succeed, and returns what it prints; as JSON if it was asked for."""

    def run(*words):
        assert main([str(word) for word in words]) == 0
        printed = capsys.readouterr().out
        return json.loads(printed) if "--json" in words else printed

    return run


@pytest.fixture
def complaint(capsys):
    """Runs a command that must be refused in one line, and returns that line."""

    def run(*words):
        assert main([str(word) for word in words]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("magnet: ")
        assert captured.err.count("\n") == 1
        return captured.err

    return run


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
    out = tmp_path_factory.mktemp("d") / "run"
    config = TrainConfig(data="digits", steps=30, scaling=6.0, evaluate=False, quiet=True, out=out)
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
    """A very short run on the photos. Not to be written to, apart from its cache."""
    config = TrainConfig(
        data=str(photos), backbone="convnet", image_size=16, steps=6, workers=0, clusters_per_class=2, scaling=6.0,
        test_draws=4, evaluate=False, quiet=True, out=photos.parent / "run",
    )  # fmt: skip
    return train(config, silent=True)
