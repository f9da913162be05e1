"""Clusters that take in new examples, without a new map."""

import torch
from torch import Tensor

from magnet.clustering import kmeans_per_class
from magnet.index import ClusterIndex
from magnet.neighbours import nearest_of_chunk


def grow(index: ClusterIndex, new: Tensor, labels: Tensor, *, reach: float, clusters_per_class: int) -> ClusterIndex:
    """The index with new examples in it; the clusters that it had keep their ids.

    An example joins the nearest cluster of its class if that is within reach, and the centre moves along. The others,
    and all of a new class, make new clusters.

    Args:
        new: (n, d) representations.
        labels: (n,) class ids, known or new.
        reach: the distance within which an example belongs to a cluster.
        clusters_per_class: the most new clusters of a class.
    """
    distances, nearest = (found[:, 0] for found in _nearest_own(new, labels, index))
    joins = (distances <= reach) & distances.isfinite()  # a new class has no cluster to join
    sums = (index.centres * index.sizes[:, None]).index_add(0, nearest[joins], new[joins])
    sizes = index.sizes.index_add(0, nearest[joins], torch.ones_like(nearest[joins]))
    centres, owners, place = sums / sizes[:, None], index.centre_labels, nearest.clone()
    if not bool(joins.all()):
        rest, theirs = new[~joins], labels[~joins]
        # As many clusters as other classes have, however few the examples: a class votes with all of its clusters.
        found = kmeans_per_class(rest, theirs, clusters_per_class)
        place[~joins] = found.assignments + len(centres)
        centres = torch.cat([centres, found.centres])
        owners = torch.cat([owners, found.centre_labels])
    return ClusterIndex(centres, owners, torch.cat([index.assignments, place]), index.variance)


def _nearest_own(new: Tensor, labels: Tensor, index: ClusterIndex) -> tuple[Tensor, Tensor]:
    """Distance (n, 1) to the nearest centre of the own class, infinite where there is none, and its id (n, 1)."""
    distances = new.new_full((len(new), 1), torch.inf)
    ids = torch.zeros_like(labels)[:, None]
    for c in labels.unique():
        mine = (labels == c).nonzero().squeeze(1)
        theirs = (index.centre_labels == c).nonzero().squeeze(1)
        if len(theirs):
            squares, local = nearest_of_chunk(new[mine], index.centres[theirs], 1)
            distances[mine], ids[mine] = squares.sqrt(), theirs[local]
    return distances, ids
