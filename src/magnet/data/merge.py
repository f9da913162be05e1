"""Classes merged in pairs, for the hierarchy-recovery experiment (section 4.3 of the paper)."""

from __future__ import annotations

import copy

import numpy as np
import torch

from magnet.data.dataset import Dataset


def merge_classes(dataset: Dataset, pairs_seed: int) -> Dataset:
    """A copy whose classes are merged in random pairs; with an odd number one class stays alone.

    The labels before merging are kept as ``fine_labels`` and ``fine_classes``: what is to be recovered.
    """
    order = np.random.default_rng(pairs_seed).permutation(len(dataset.classes))
    pairs = sorted(sorted(order[i : i + 2].tolist()) for i in range(0, len(order), 2))
    merged = np.empty(len(order), dtype=np.int64)
    for label, pair in enumerate(pairs):
        merged[pair] = label
    return merge_by(dataset, merged, [" + ".join(dataset.classes[i] for i in pair) for pair in pairs])


def merge_by(dataset: Dataset, merged: np.ndarray, classes: list[str]) -> Dataset:
    """A copy in which class c has become class ``merged[c]`` of ``classes``."""
    other = copy.copy(dataset)
    other.labels = torch.from_numpy(merged.astype(np.int64))[dataset.labels]
    other.classes = classes
    other.fine_labels, other.fine_classes = dataset.labels, dataset.classes
    return other
