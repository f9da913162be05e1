"""Classes merged into groups: random pairs (section 4.3 of the paper), or given groups."""

from __future__ import annotations

import copy

import numpy as np
import torch

from magnet.data.dataset import Dataset


def merge_classes(dataset: Dataset, pairs_seed: int) -> Dataset:
    """A copy whose classes are merged in random pairs; with an odd number one class stays alone.

    The labels before merging are kept as ``fine_labels`` and ``fine_classes``: what is to be recovered.

    >>> data = Dataset.from_arrays(np.eye(8), ["a", "b", "c", "d"] * 2)
    >>> merged = merge_classes(data, pairs_seed=0)
    >>> merged.classes, merged.labels[:4], merged.fine_labels[:4]
    (['a + c', 'b + d'], tensor([0, 1, 0, 1]), tensor([0, 1, 2, 3]))
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
    other.fine_labels, other.fine_classes, other.judged = dataset.labels, dataset.classes, False
    return other


def merge_groups(dataset: Dataset, groups: list[str]) -> Dataset:
    """A copy whose classes are the groups; the labels before are kept as ``fine_labels`` and ``fine_classes``."""
    names, merged = np.unique(groups, return_inverse=True)
    return merge_by(dataset, merged, [str(name) for name in names])
