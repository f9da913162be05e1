"""Groups that classes really belong to, where their names tell: species of breeds, kinds of birds."""

import re

import numpy as np

from magnet.data.dataset import Dataset
from magnet.data.merge import merge_by

# The cats among the 37 breeds of Oxford-IIIT Pet; the others are dogs.
CATS = {
    "abyssinian", "bengal", "birman", "bombay", "british shorthair", "egyptian mau", "maine coon", "persian",
    "ragdoll", "russian blue", "siamese", "sphynx",
}  # fmt: skip
CUB_NAME = re.compile(r"\d{3}\.\w*?([A-Za-z]+)$")  # 001.Black_footed_Albatross


def known_groups(dataset: Dataset) -> list[str] | None:
    """The group of every class, or None if the names tell of none.

    Oxford-IIIT Pet: cat or dog. CUB-200-2011: the last word of the name, such as Albatross or Warbler.
    """
    plain = [name.lower().replace("_", " ") for name in dataset.classes]
    if set(plain) > CATS:
        return ["cat" if name in CATS else "dog" for name in plain]
    birds = [CUB_NAME.fullmatch(name) for name in dataset.classes]
    groups = [bird.group(1) for bird in birds if bird]
    if len(groups) == len(birds) and 1 < len(set(groups)) < len(groups):
        return groups
    return None


def merge_groups(dataset: Dataset, groups: list[str]) -> Dataset:
    """A copy whose classes are the groups; the labels before are kept as ``fine_labels`` and ``fine_classes``."""
    names, merged = np.unique(groups, return_inverse=True)
    return merge_by(dataset, merged, [str(name) for name in names])
