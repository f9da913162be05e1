"""Fashion-MNIST (Xiao et al., 2017)."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from magnet.data.benchmarks.source import Archive, Source, require_pieces
from magnet.data.listings import Listing
from magnet.errors import UserError

_PLACES = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
)
SOURCE = Source(
    name="fashion-mnist",
    title="Fashion-MNIST",
    classes=10,
    images=70_000,
    layout="train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, and the same of t10k",
    licence="MIT",
    url="https://github.com/zalandoresearch/fashion-mnist",
    archives=(
        Archive.at(
            _PLACES, "train-images-idx3-ubyte.gz", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"
        ),
        Archive.at(
            _PLACES, "train-labels-idx1-ubyte.gz", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"
        ),
        Archive.at(
            _PLACES, "t10k-images-idx3-ubyte.gz", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"
        ),
        Archive.at(
            _PLACES, "t10k-labels-idx1-ubyte.gz", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"
        ),
    ),
)

CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
UNSIGNED_BYTE = 8


def list_fashion_mnist(folder: Path) -> Listing:
    """60,000 grey images of 28 x 28 for training and 10,000 for test."""
    require_pieces(SOURCE, folder)
    images = [read_idx(folder / f"{part}-images-idx3-ubyte.gz", 3) for part in ("train", "t10k")]
    labels = [read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 1) for part in ("train", "t10k")]
    for some, theirs in zip(images, labels, strict=True):
        if len(some) != len(theirs):
            raise UserError(f"fashion-mnist: {folder} has {len(some)} images with {len(theirs)} labels.")
    ids = np.concatenate(labels).astype(np.int64)
    if ids.max(initial=0) >= len(CLASSES):
        raise UserError(f"fashion-mnist: label {ids.max()} in {folder}, expected 0..{len(CLASSES) - 1}.")
    return Listing(
        name="fashion-mnist",
        content=np.concatenate(images),
        labels=ids,
        classes=CLASSES,
        names=[f"train {i}" for i in range(len(images[0]))] + [f"t10k {i}" for i in range(len(images[1]))],
        split=np.repeat(np.array([0, 2], dtype=np.int8), [len(images[0]), len(images[1])]),
    )


def read_idx(file: Path, dimensions: int) -> np.ndarray:
    """A gzipped IDX file of bytes: two zeros, the type, the number of dimensions, each as big-endian int32, data."""
    try:
        data = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{file}: cannot be unpacked ({error}).") from error
    if data[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]):
        raise UserError(f"{file}: starts with {data[:4].hex()}, expected IDX bytes in {dimensions} dimensions.")
    start = 4 + 4 * dimensions
    shape = tuple(int(side) for side in np.frombuffer(data[4:start], ">i4"))
    if len(data) - start != math.prod(shape):
        raise UserError(f"{file}: holds {len(data) - start} bytes, expected {shape}.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
