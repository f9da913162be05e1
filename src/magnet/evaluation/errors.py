"""Errors of a classifier on representations with known labels."""

from typing import Literal

import torch
from torch import Tensor

from magnet.classify import NearestClusters, SoftNeighbours
from magnet.index import ClusterIndex
from magnet.methods.base import Method


def top_errors(scores: Tensor, classes: Tensor, labels: Tensor, tops: tuple[int, ...] = (1, 5)) -> dict[str, float]:
    """The share of rows whose label is not among the best-scored classes.

    Args:
        scores: (n, C).
        classes: (C,) the label of each column.
        labels: (n,) the truth.
        tops: 1 gives ``error``, k > 1 gives ``error@k``. A class without any score (0) is never a hit.
    """
    ranked = scores.topk(min(max(tops), scores.shape[1]), dim=1)
    hits = (classes[ranked.indices] == labels[:, None]) & (ranked.values > 0)
    return {
        "error" if top == 1 else f"error@{top}": 1 - float(hits[:, :top].any(dim=1).double().mean()) for top in tops
    }


def classification_error(
    method: Method,
    queries: Tensor,
    labels: Tensor,
    *,
    index: ClusterIndex | None,
    references: Tensor | None,
    reference_labels: Tensor,
    neighbours: int,
    device: torch.device,
) -> float:
    """The error (a fraction) under the rule that the method is judged by: kNC, soft kNN or its own head.

    Args:
        method: names the rule, and gives the scaling and the running variance.
        queries: (n, d) with ``labels`` (n,).
        index: for kNC and for the lengthscale of soft kNN.
        references: (N, d) for soft kNN, with ``reference_labels`` (N,).
        neighbours: L.
        device: where the head is.
    """
    if method.classifier == "head":
        with torch.no_grad():
            logits = method.logits(queries.to(device))
        assert logits is not None
        predicted = logits.argmax(dim=1).cpu()
    else:
        assert index is not None
        rule = soft_rule(method, method.classifier, index, references, reference_labels, neighbours)
        predicted = rule.predict(queries)
    return float((predicted != labels).double().mean())


def soft_rule(
    method: Method,
    rule: Literal["knc", "knn"],
    index: ClusterIndex,
    references: Tensor | None,
    labels: Tensor,
    neighbours: int,
) -> SoftNeighbours:
    """kNC over the clusters of the training set or soft kNN over its examples, with one lengthscale for both.

    That is the method's running variance, or the variance of the index for a method that keeps none.
    """
    if rule == "knc":
        return NearestClusters(index, neighbours, variance=method.variance, scaling=method.scaling)
    assert references is not None
    variance = method.variance if method.variance is not None else index.variance
    variance = variance.clamp_min(torch.finfo(torch.float32).tiny)
    return SoftNeighbours(references, labels, neighbours, variance=variance, scaling=method.scaling)
