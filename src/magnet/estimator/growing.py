"""Clusters that take in new examples."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from magnet.clustering import kmeans_per_class
from magnet.errors import UserError

Array = NDArray[Any]


def joined_classes(classes: Array, y: Array) -> Array:
    """All labels in ascending order, those of ``classes`` and those of ``y``."""
    if _family(classes) != _family(y):
        raise UserError(f"the new labels are {y.dtype}, those fitted are {classes.dtype}: give labels of the same type")
    try:
        # Text of two lengths or kinds is joined as objects, so that nothing is cut.
        kind = object if object in (classes.dtype, y.dtype) else None
        joined: Array = np.unique(np.concatenate([classes, y], dtype=kind))
    except TypeError as error:
        raise UserError(f"the new labels cannot be ordered among those fitted ({error})") from error
    return joined


def grow(
    new: Tensor, labels: Array, *, centres: Array, owners: Array, counts: Array, reach: float, n_clusters: int
) -> tuple[Array, Array, Array]:
    """Join new examples to clusters of their class within reach, and cluster the rest.

    Args:
        new: (n, k) representations.
        labels: (n,) their classes, as 0..C-1.
        centres: (J, k).
        owners: (J,) the class of each, in the same numbers.
        counts: (J,) members of each.
        reach: the distance within which an example belongs to a cluster.
        n_clusters: the most new clusters of a class.

    Returns:
        counts, centres and owners of all clusters, the old ones first.
    """
    targets = torch.tensor(labels)
    distances = torch.cdist(new, torch.tensor(centres))
    distances[targets[:, None] != torch.tensor(owners)[None, :]] = torch.inf
    gap, nearest = distances.min(dim=1)
    joins = (gap <= reach) & gap.isfinite()  # a new class has no cluster to join
    joined = torch.bincount(nearest[joins], minlength=len(centres)).numpy()
    sums = torch.zeros(centres.shape, dtype=torch.float64).index_add(0, nearest[joins], new[joins]).numpy()
    total = counts + joined
    moved = (centres * counts[:, None] + sums) / total[:, None]
    if bool(joins.all()):
        return total, moved, owners
    rest, theirs = new[~joins], targets[~joins]
    wanted = {int(c): min(n_clusters, max(1, int((theirs == c).sum()) // 4)) for c in theirs.unique()}
    found = kmeans_per_class(rest, theirs, wanted)
    sizes = torch.bincount(found.assignments, minlength=len(found.centres)).numpy()
    return (
        np.concatenate([total, sizes]),
        np.concatenate([moved, found.centres.numpy()]),
        np.concatenate([owners, found.centre_labels.numpy()]),
    )


def _family(labels: Array) -> str:
    if labels.dtype.kind == "U" or (labels.dtype == object and all(isinstance(label, str) for label in labels)):
        return "text"
    return "number" if labels.dtype.kind in "biuf" else labels.dtype.kind
