"""CIFAR-100 (Krizhevsky, 2009), its binary version: 100 classes in 20 groups of five."""

from pathlib import Path

import numpy as np

from magnet.data.benchmarks.source import Archive, Source, require_pieces
from magnet.data.listings import Labelling, Listing
from magnet.errors import UserError

SOURCE = Source(
    name="cifar100",
    title="CIFAR-100, with its 20 coarse classes",
    classes=100,
    images=60_000,
    layout="train.bin, test.bin, fine_label_names.txt, coarse_label_names.txt (the binary version)",
    licence="none stated",
    url="https://www.cs.toronto.edu/~kriz/cifar.html",
    archives=(
        Archive.at(
            ("https://www.cs.toronto.edu/~kriz",),
            "cifar-100-binary.tar.gz",
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            "train.bin",
            "test.bin",
            "fine_label_names.txt",
            "coarse_label_names.txt",
        ),
    ),
)
SIDE = 32
RECORD = 2 + 3 * SIDE * SIDE  # the coarse label, the fine label, then red, green and blue, row by row


def list_cifar100(folder: Path) -> Listing:
    """Colour images of 32 x 32, 50,000 for training and 10,000 for test; ``folder`` may hold cifar-100-binary."""
    base = folder / "cifar-100-binary" if (folder / "cifar-100-binary").is_dir() else folder
    require_pieces(SOURCE, base)
    records = [_records(base / f"{part}.bin") for part in ("train", "test")]
    everything = np.concatenate(records)
    levels = {
        name: _labels(everything[:, column], base / f"{name}_label_names.txt")
        for column, name in enumerate(("coarse", "fine"))
    }
    return Listing(
        name="cifar100",
        content=everything[:, 2:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1),
        labels=levels["fine"].labels,
        classes=levels["fine"].classes,
        names=[f"train {i}" for i in range(len(records[0]))] + [f"test {i}" for i in range(len(records[1]))],
        split=np.repeat(np.array([0, 2], dtype=np.int8), [len(some) for some in records]),
        levels=levels,
    )


def _records(file: Path) -> np.ndarray:
    data = np.fromfile(file, np.uint8)
    if len(data) % RECORD:
        raise UserError(f"{file}: has {len(data):,} bytes, expected records of {RECORD:,}: it is cut short.")
    return data.reshape(-1, RECORD)


def _labels(ids: np.ndarray, names: Path) -> Labelling:
    classes = [line.strip() for line in names.read_text(encoding="utf-8").splitlines() if line.strip()]
    if ids.max(initial=0) >= len(classes):
        raise UserError(f"cifar100: label {ids.max()}, but {names} has {len(classes)} names.")
    return Labelling(ids.astype(np.int64), classes)
