"""Which clusters a batch holds: who is a member of which, and who is an impostor to whom."""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from magnet.checks import reads_are_free


class Batch(NamedTuple):
    """Who belongs where: B rows, J clusters."""

    member: Tensor  # (B, J) 1 where row i was drawn from cluster j, else 0
    average: Tensor  # (J, B) the weights of the rows in the means of the clusters
    hidden: Tensor  # (B, J) bool: whether cluster j is no impostor to row i
    further: Tensor  # (B,) by how much |r - mean of the others|^2 exceeds |r - mean|^2, relative to it


def membership(clusters: Tensor, labels: Tensor, neighbourhoods: Tensor | None, dtype: torch.dtype) -> Batch:
    """The clusters of a batch, from the cluster, the class and the neighbourhood (B,) of each row.

    Where values can be looked at, J is the number of clusters, and it is an error if a cluster holds two classes or the
    batch only one. Elsewhere no shape may depend on the data, so that this compiles to one graph and never waits for a
    device: every row has a column, and those that are not the first of their cluster stay empty.
    """
    if reads_are_free(clusters) and reads_are_free(labels):
        return _packed(clusters, labels, neighbourhoods, dtype)
    together = clusters.unsqueeze(1) == clusters
    hidden = labels.unsqueeze(1) == labels
    if neighbourhoods is not None:
        near = neighbourhoods.unsqueeze(1) == neighbourhoods
        together, hidden = together & near, hidden | ~near
    first = together.to(torch.int8).argmax(dim=1) == torch.arange(len(clusters), device=clusters.device)
    member = (together & first).to(dtype)
    size = member.sum(dim=0).clamp_min(1)
    return Batch(member, (member / size).T, hidden | ~first, member @ _further(size))


def _packed(clusters: Tensor, labels: Tensor, neighbourhoods: Tensor | None, dtype: torch.dtype) -> Batch:
    ids, classes = clusters.tolist(), labels.tolist()
    _check_classes(ids, classes)
    # The same cluster in two neighbourhoods is two clusters.
    places: Sequence[Hashable] = ids
    if neighbourhoods is not None:
        places = list(zip(ids, neighbourhoods.tolist(), strict=True))
    columns: dict[Hashable, int] = {}
    column = [columns.setdefault(place, len(columns)) for place in places]
    class_of = dict(zip(column, classes, strict=True))
    member, average, further = _columns(tuple(column), dtype)
    hidden = labels.unsqueeze(1) == labels.new_tensor(list(class_of.values()))
    if neighbourhoods is not None:
        row_of = dict(zip(column, range(len(column)), strict=True))
        hidden |= neighbourhoods.unsqueeze(1) != neighbourhoods[list(row_of.values())]
    return Batch(member, average, hidden, further)


@lru_cache(maxsize=16)  # batches of M clusters with D examples each all look the same
def _columns(column: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Member, average and further, from the column (B,) of each row. They are kept and shared: not to be changed."""
    with torch.inference_mode(False):  # else they would be of no use in training afterwards
        member = torch.eye(max(column) + 1, dtype=dtype, device="cpu")[list(column)]
        size = member.sum(dim=0)
        return member, (member / size).T.contiguous(), member @ _further(size)


def _further(size: Tensor) -> Tensor:
    """`Batch.further` for clusters of that many rows (J,): r - mean of the others = (r - mean) n / (n - 1).

    A cluster of one has no others: it keeps its mean, and this is 0.
    """
    return torch.where(size > 1, size / (size - 1).clamp_min(1), 1.0).square() - 1


def _check_classes(clusters: list[int], classes: list[int]) -> None:
    pairs = set(zip(clusters, classes, strict=True))
    if len(pairs) > len(set(clusters)):
        raise ValueError("a cluster holds rows of two classes; clusters belong to one class: check the ids given")
    if len(set(classes)) == 1:
        raise ValueError(
            f"the batch holds one class only (label {classes[0]}), and the objective sets a cluster against "
            "those of other classes: draw batches with NeighbourhoodSampler"
        )
