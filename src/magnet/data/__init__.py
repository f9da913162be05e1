"""Data: labelled vectors and images, the named benchmark sets, and augmentation."""

from typing import TYPE_CHECKING

from magnet import lazily
from magnet.data.benchmarks import SOURCES

if TYPE_CHECKING:
    from magnet.data.augment import Augmentation, normalise
    from magnet.data.dataset import Dataset, open_data
    from magnet.data.groups import merge_classes

__all__ = ["SOURCES", "Augmentation", "Dataset", "merge_classes", "normalise", "open_data"]

__getattr__ = lazily(
    __name__,
    {"Augmentation": "augment", "Dataset": "dataset", "merge_classes": "groups", "normalise": "augment",
     "open_data": "dataset"},
)  # fmt: skip
