"""Stanford Dogs (Khosla et al., 2011)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from magnet.data.benchmarks.layout import read_mat, require_images, require_pieces
from magnet.data.listings import Listing


def list_dogs(folder: Path) -> Listing:
    """train_list.mat and test_list.mat: file_list, paths below Images/, and labels from 1."""
    require_pieces("dogs", folder)
    names: list[str] = []
    labels: list[np.ndarray] = []
    split: list[np.ndarray] = []
    for part, file in ((0, "train_list.mat"), (2, "test_list.mat")):
        listed, ids = read_mat(folder / file, "file_list", "labels")
        listed = [str(name) for name in np.atleast_1d(listed)]
        names += listed
        labels.append(np.atleast_1d(ids).astype(np.int64) - 1)
        split.append(np.full(len(listed), part, dtype=np.int8))
    ids = np.concatenate(labels)
    # n02085620-Chihuahua/n02085620_5927.jpg: the class is named by its folder.
    named = {int(label): name.split("/")[0].partition("-")[2] for name, label in zip(names, ids, strict=True)}
    files = [folder / "Images" / name for name in names]
    require_images("dogs", folder, files)
    return Listing(
        name="dogs",
        content=files,
        labels=ids,
        classes=[named.get(label, "") for label in range(int(ids.max(initial=0)) + 1)],
        names=[f"Images/{name}" for name in names],
        split=np.concatenate(split),
    )
