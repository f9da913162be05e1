"""Queries: examples without labels, to be embedded, classified or searched for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from magnet.data.dataset import DEFAULT_IMAGE_SIZE, Dataset
from magnet.data.splits import TEST


class Queries(Dataset):
    """Vectors (N, d) or N image files of which no class is known: all labels are -1, all examples are test ones."""

    def __init__(
        self, content: np.ndarray | Sequence[Path], names: list[str], *, image_size: int = DEFAULT_IMAGE_SIZE
    ) -> None:
        # Not that of Dataset, which wants classes and makes a split.
        self.name = self.spec = "queries"
        self.kind = "vectors" if isinstance(content, np.ndarray) else "images"
        self.labels = torch.full((len(names),), -1)
        self.classes, self.names = [], names
        self.split = np.full(len(names), TEST, np.int8)
        self.attributes, self.skipped, self.feature_names = None, [], None
        self.fine_labels, self.fine_classes = None, None
        self.image_size, self.cache_bytes = image_size, 0
        self._content, self._cache = content, None
        self._given_split, self._hash_images, self._hashes = None, False, {}
