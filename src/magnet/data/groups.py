"""Classes in groups: coarse and fine labels, and classes merged in random pairs (section 4.3 of the paper).

For data without columns, the levels of labels are called ``coarse`` and ``fine``: they come from its layout (folders
inside class folders, the two labels of CIFAR-100), or from groups in the names of its classes. Nothing here imports
torch.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from magnet.data.listings import Labelling, Listing, number_labels
from magnet.errors import UserError

if TYPE_CHECKING:
    from magnet.data.dataset import Dataset

LEVELS = ("coarse", "fine")
# The cats among the 37 breeds of Oxford-IIIT Pet; the others are dogs.
CATS = {
    "abyssinian", "bengal", "birman", "bombay", "british shorthair", "egyptian mau", "maine coon", "persian",
    "ragdoll", "russian blue", "siamese", "sphynx",
}  # fmt: skip
CUB_NAME = re.compile(r"\d{3}\.\w*?([A-Za-z]+)$")  # 001.Black_footed_Albatross


def known_groups(classes: Sequence[str]) -> list[str] | None:
    """The group of every class, or None if the names of the classes do not contain groups.

    Oxford-IIIT Pet: cat or dog. CUB-200-2011: the last word of the name, such as Albatross or Warbler.

    >>> known_groups(["001.Black_footed_Albatross", "002.Laysan_Albatross", "073.Blue_Jay"])
    ['Albatross', 'Albatross', 'Jay']
    """
    plain = [name.lower().replace("_", " ") for name in classes]
    if set(plain) > CATS:
        return ["cat" if name in CATS else "dog" for name in plain]
    birds = [CUB_NAME.fullmatch(name) for name in classes]
    groups = [bird.group(1) for bird in birds if bird]
    if len(groups) == len(birds) and 1 < len(set(groups)) < len(groups):
        return groups
    return None


def take_levels(listing: Listing, *, label: str, judge: str) -> Listing:
    """The listing with one level of labels to train on and another to judge by; "": unchanged.

    >>> import numpy as np
    >>> birds = ["1.Blue_Jay", "2.Crow"]
    >>> listing = Listing("birds", np.eye(2), np.arange(2), birds, ["a", "b"])
    >>> listing.levels = {"coarse": Labelling(np.array([0, 0]), ["Bird"]), "fine": Labelling(np.arange(2), birds)}
    >>> taken = take_levels(listing, label="coarse", judge="fine")
    >>> taken.classes, taken.judge.classes
    (['Bird'], ['1.Blue_Jay', '2.Crow'])
    """
    if not label and not judge:
        return listing
    levels = listing.levels
    groups = None if levels else known_groups(listing.classes)
    if groups is not None:
        merged = number_labels(groups)
        levels = {
            "coarse": Labelling(merged.labels[listing.labels], merged.classes),
            "fine": Labelling(listing.labels, listing.classes),
        }
    if not levels:
        raise UserError(
            f"{listing.name} has one level of labels only, and its {len(listing.classes)} classes tell of no groups; "
            "coarse and fine need folders inside of the class folders, or columns of these names."
        )
    if label:
        listing = replace(listing, labels=levels[label].labels, classes=levels[label].classes)
    return replace(listing, judge=levels[judge]) if judge else listing


def merge_classes(dataset: Dataset, pairs_seed: int) -> Dataset:
    """A copy whose classes are merged in random pairs; with an odd number one class stays alone.

    The labels before merging are kept as ``fine_labels`` and ``fine_classes``: what is to be recovered.

    >>> from magnet.data import Dataset
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
    """A copy in which class c is replaced by class ``merged[c]`` of ``classes``."""
    other = copy.copy(dataset)
    other.labels = dataset.labels.new_tensor(merged)[dataset.labels]
    other.classes = classes
    other.fine_labels, other.fine_classes, other.judged = dataset.labels, dataset.classes, False
    return other


def merge_groups(dataset: Dataset, groups: list[str]) -> Dataset:
    """A copy whose classes are the groups; the labels before are kept as ``fine_labels`` and ``fine_classes``."""
    names, merged = np.unique(groups, return_inverse=True)
    return merge_by(dataset, merged, [str(name) for name in names])
