"""Exact nearest rows in bounded memory: chunks of distances, merged by a running top-k."""

from collections.abc import Iterator

import torch
from torch import Tensor

CHUNK_ELEMENTS = 2**24  # distances held at a time: 64 MB of float32


def nearest(queries: Tensor, references: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` nearest references of each query, nearest first.

    Args:
        queries: (n, d).
        references: (m, d), on any device; chunks of it are moved to that of the queries.
        count: neighbours wanted; at most m are given.

    Returns:
        Squared distances (n, k) and ids into the references (n, k), with k = min(count, m).
    """
    parts = [nearest_of_chunk(chunk, references, count) for chunk in split_rows(queries, len(references))]
    return torch.cat([d for d, _ in parts]), torch.cat([i for _, i in parts])


def split_rows(queries: Tensor, references: int) -> Iterator[Tensor]:
    """Queries in chunks small enough that their distances to a block of the references fit the budget."""
    rows = max(1, min(4096, CHUNK_ELEMENTS // min(max(references, 1), 2**14)))
    yield from queries.split(rows)


def nearest_of_chunk(
    queries: Tensor,
    references: Tensor,
    count: int,
    labels: Tensor | None = None,
    reference_labels: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """As `nearest`, for a chunk; with labels, references of the query's own label are at infinity."""
    count = min(count, len(references))
    block = max(count, CHUNK_ELEMENTS // max(len(queries), 1))
    # Distances are taken from the mean of the queries: the expanded squares lose digits far from the origin.
    origin = queries.mean(dim=0)
    q = queries - origin
    norms = q.square().sum(dim=1, keepdim=True)
    best: tuple[Tensor, Tensor] | None = None
    for start in range(0, len(references), block):
        r = references[start : start + block].to(q) - origin
        with torch.autocast(q.device.type, enabled=False):
            distances = torch.addmm(r.square().sum(dim=1), q, r.T, alpha=-2)
        if labels is not None and reference_labels is not None:
            own = labels[:, None] == reference_labels[None, start : start + block]
            distances.masked_fill_(own, torch.inf)
        values, ids = distances.topk(min(count, len(r)), dim=1, largest=False)
        ids = ids + start
        if best is not None:
            values, ids = torch.cat([best[0], values], dim=1), torch.cat([best[1], ids], dim=1)
            values, keep = values.topk(count, dim=1, largest=False)
            ids = ids.gather(1, keep)
        best = values, ids
    assert best is not None
    return (best[0] + norms).clamp_min_(0), best[1]
