"""Retrieval: how well the nearest examples of a query share its class."""

from collections.abc import Iterator

import torch
from torch import Tensor

from magnet.neighbours import CHUNK_ELEMENTS, nearest_of_chunk, split_rows


def retrieval(
    queries: Tensor,
    labels: Tensor,
    references: Tensor | None = None,
    reference_labels: Tensor | None = None,
) -> dict[str, float | None]:
    """Recall at 1 and mean average precision at R (Musgrave, Belongie and Lim, 2020), exact.

    R is the number of references of the query's class. With P(i) the precision among the i nearest references,

        MAP@R = mean over queries of  1/R sum_{i=1..R} P(i) [the i-th nearest is of the query's class].

    Args:
        queries: (n, d) with ``labels`` (n,).
        references: (m, d) with ``reference_labels`` (m,); None: the queries themselves, each one left out of its own
            references.

    Returns:
        ``recall@1`` and ``map@r``, over the queries that have a reference of their class; None where there is none.
    """
    among = references is None
    if references is None:
        references, reference_labels = queries, labels
    assert reference_labels is not None
    size = int(max(labels.max(), reference_labels.max())) + 1
    relevant = torch.bincount(reference_labels, minlength=size)[labels] - int(among)  # R of each query (n,)
    asked = relevant.argsort()[int((relevant == 0).sum()) :]  # those of similar R together: a chunk ranks its largest
    if not len(asked):
        return {"recall@1": None, "map@r": None}
    first, precision = 0.0, 0.0
    for rows in _chunks(asked, relevant, len(references)):
        r = relevant[rows, None]
        deepest = int(r.max())
        ids = nearest_of_chunk(queries[rows], references, deepest + int(among))[1]
        if among:
            ids = _without(ids, rows)
        hits = reference_labels[ids] == labels[rows, None]
        rank = torch.arange(1, deepest + 1)
        shares = hits.cumsum(dim=1) / rank * (hits & (rank <= r)) / r
        first += float(hits[:, 0].sum())
        precision += float(shares.double().sum())
    return {"recall@1": first / len(asked), "map@r": precision / len(asked)}


def _chunks(asked: Tensor, relevant: Tensor, references: int) -> Iterator[Tensor]:
    """Rows in chunks whose rankings, not only whose distances, stay within the budget."""
    for rows in split_rows(asked, references):
        yield from rows.split(max(1, CHUNK_ELEMENTS // (int(relevant[rows].max()) + 1)))


def _without(ids: Tensor, own: Tensor) -> Tensor:
    """Rankings (n, k) without the query itself (n,), or without the last where it is not among them: (n, k - 1)."""
    kept = ids != own[:, None]
    kept[:, -1] &= ~kept.all(dim=1)
    return ids[kept].view(len(ids), -1)
