"""Stanford Dogs (Khosla et al., 2011)."""

from pathlib import Path

import numpy as np

from magnet.data.benchmarks.source import Archive, Source, read_mat, require_images, require_pieces
from magnet.data.listings import Listing

_PLACES = ("https://vision.stanford.edu/aditya86/ImageNetDogs",)
SOURCE = Source(
    name="dogs",
    title="Stanford Dogs",
    classes=120,
    images=20_580,
    layout="Images/, train_list.mat, test_list.mat",
    licence="none stated; images of ImageNet, research only",
    url="https://vision.stanford.edu/aditya86/ImageNetDogs/",
    archives=(
        Archive.at(
            _PLACES,
            "images.tar",
            "a443fc2f9a851aa1a7b8e4fa4af94b8459fce2c9f5a2f4dd4669cf9673a4ec58",
            "Images",
        ),
        Archive.at(
            _PLACES,
            "lists.tar",
            "34b47cacd9a98b5d150e084f24d29391c084c55272295ec65c85651bc35f4d6c",
            "train_list.mat",
            "test_list.mat",
        ),
    ),
)


def list_dogs(folder: Path) -> Listing:
    """train_list.mat and test_list.mat: file_list, paths below Images/, and labels from 1."""
    require_pieces(SOURCE, folder)
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
    require_images(SOURCE, folder, files)
    return Listing(
        name="dogs",
        content=files,
        labels=ids,
        classes=[named.get(label, "") for label in range(int(ids.max(initial=0)) + 1)],
        names=[f"Images/{name}" for name in names],
        split=np.concatenate(split),
    )
