"""The index of a training set whose representations would fill the memory: some classes after the other."""

from collections.abc import Callable

import torch
from torch import Tensor

from magnet.clustering import kmeans_per_class
from magnet.grouping import distinct
from magnet.index import ClusterIndex

PIECE = 2**27  # numbers in the representations of a piece: 512 MB


def pieces_of(examples: int, dim: int) -> int:
    """How many pieces (n, dim) representations of all examples are to be made in."""
    return -(-examples * dim // PIECE)


def index_in_pieces(
    represent: Callable[[Tensor], Tensor], labels: Tensor, clusters_per_class: int, seed: int, pieces: int
) -> ClusterIndex:
    """What ``ClusterIndex.fit`` makes of all representations, which are never there at the same time.

    K-means of a class does not depend on the others, so that classes can be embedded and clustered in turn. The
    network must not change in between.

    Args:
        represent: gives the representations (n, d) of the examples at some places (n,).
        labels: (N,) classes of all examples.
        clusters_per_class: K.
        seed: of K-means.
        pieces: how many; each has whole classes, and about as many examples.
    """
    _, class_of, sizes = distinct(labels)
    piece = ((sizes.cumsum(0) - 1) * pieces // len(labels)).to(torch.int16)  # of each class, in their order
    piece_of = piece[class_of]
    assignments = torch.empty_like(class_of)
    found, clusters = [], 0
    for number in piece.unique().tolist():
        places = (piece_of == number).nonzero().squeeze(1)
        own = kmeans_per_class(represent(places), labels[places], clusters_per_class, seed=seed)
        assignments[places] = own.assignments + clusters
        clusters += len(own.centres)
        found.append(own._replace(assignments=own.assignments[:0]))  # it has been copied
    variance = torch.stack([own.inertia for own in found]).sum() / (len(labels) - 1)
    return ClusterIndex(
        torch.cat([own.centres for own in found]),
        torch.cat([own.centre_labels for own in found]),
        assignments,
        variance,
        max(own.iterations for own in found),
    )
