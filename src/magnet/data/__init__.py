"""Data: labelled vectors and images, the named benchmark sets, and augmentation."""

from magnet.data.augment import Augmentation, normalise
from magnet.data.benchmarks import SOURCES, describe
from magnet.data.dataset import Dataset, open_data
from magnet.data.groups import merge_classes

__all__ = ["SOURCES", "Augmentation", "Dataset", "describe", "merge_classes", "normalise", "open_data"]
