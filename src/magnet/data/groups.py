"""Classes merged into groups: random pairs (section 4.3 of the paper), or given groups."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch

from magnet.data.dataset import Dataset


@dataclass(frozen=True)
class Merging:
    """How classes were merged, so that it can be done again: ``name`` became ``classes[label_of[name]]``."""

    classes: list[str]
    label_of: dict[str, int]

    @classmethod
    def of(cls, dataset: Dataset) -> Merging | None:
        """How the classes of a data set were merged; None if they were not, or if the data brings both levels."""
        if dataset.fine_labels is None or dataset.fine_classes is None or dataset.judged:
            return None
        labels = torch.zeros(len(dataset.fine_classes), dtype=torch.int64)
        labels[dataset.fine_labels] = dataset.labels
        return cls(dataset.classes, dict(zip(dataset.fine_classes, labels.tolist(), strict=True)))

    def apply(self, dataset: Dataset) -> Dataset:
        """A copy with its classes merged, by their names; a class that is not known stays a class of its own.

        Data that has none of the classes is given back as it is, and so is data that brings both levels.
        """
        if dataset.judged or not self.label_of.keys() & set(dataset.classes):
            return dataset
        new = [name for name in dataset.classes if name not in self.label_of]
        label_of = self.label_of | {name: len(self.classes) + i for i, name in enumerate(new)}
        return merge_by(dataset, np.array([label_of[name] for name in dataset.classes]), self.classes + new)

    def __str__(self) -> str:
        some = ", ".join(self.classes[:3]) + (", ..." if len(self.classes) > 3 else "")
        return f"{len(self.label_of)} classes became {len(self.classes)} ({some})"


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
