from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def picture():
    """Saves a small picture of noise, the same for the same path, and returns the path."""

    def save(path: Path, size: tuple[int, int] = (20, 16), **options) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(sum(map(ord, path.name)))
        Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)).save(path, **options)
        return path

    return save


@pytest.fixture
def class_folders(tmp_path, picture):
    """Two classes, cat and dog, of ten pictures each."""
    for name in ("cat", "dog"):
        for i in range(10):
            picture(tmp_path / "animals" / name / f"{i}.png")
    return tmp_path / "animals"
