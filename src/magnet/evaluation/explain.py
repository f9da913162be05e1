"""Why a representation gets its label: the clusters that vote for it, and training examples in them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from magnet.classify import SoftNeighbours
from magnet.index import ClusterIndex


@dataclass(frozen=True)
class Voter:
    """A cluster near a query."""

    cluster: int
    label: int
    distance: float  # to its centre, in sigma
    vote: float  # its share of all votes
    size: int
    nearest: list[int]  # its members nearest to the query, ids into the training part


def voters(
    rule: SoftNeighbours, index: ClusterIndex, references: Tensor | None, queries: Tensor, *, count: int, examples: int
) -> list[list[Voter]]:
    """The ``count`` clusters that vote most for each query (n, d), nearest first, by kNC over the index.

    Of each cluster so many ``examples`` are named; without ``references`` (N, d), the embedded training part, none.
    """

    def closest(query: Tensor, members: Tensor) -> list[int]:
        assert references is not None
        distances = torch.linalg.vector_norm(references[members] - query, dim=1)
        return members[distances.argsort(stable=True)[:examples]].tolist()

    shares, ids = rule.nearest(queries)
    sigma = rule.variance**0.5
    return [
        [
            Voter(
                cluster=j,
                label=int(index.centre_labels[j]),
                distance=float((query - index.centres[j]).norm()) / sigma,
                vote=float(share),
                size=int(index.sizes[j]),
                nearest=[] if references is None else closest(query, index.members(j)),
            )
            for j, share in zip(near[:count].tolist(), votes[:count], strict=True)
        ]
        for query, near, votes in zip(queries, ids, shares, strict=True)
    ]
