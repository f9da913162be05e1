"""Errors of a classifier on representations with known labels."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from magnet.classify import NearestClusters, SoftNeighbours
from magnet.index import ClusterIndex
from magnet.methods.base import Method

LEAST = torch.finfo(torch.float32).eps  # the least probability in a log-loss: below it, votes are lost to rounding
CHUNK = 8192  # queries that are judged at a time


class Judged(NamedTuple):
    """How good a classifier is on examples with known labels."""

    error: float  # a fraction
    log_loss: float  # mean of -log p(true class), in nats


def log_losses(probabilities: Tensor, classes: Tensor, labels: Tensor) -> Tensor:
    """``-log p`` (n,) of the true class; at most 15.9, so that it is finite for a class without any vote.

    Args:
        probabilities: (n, C).
        classes: (C,) the label of each column, ascending.
        labels: (n,) the truth; a label that no column has counts as one without any vote.
    """
    column = torch.searchsorted(classes, labels).clamp_max(len(classes) - 1)
    found = probabilities.gather(1, column[:, None]).squeeze(1).double()
    return -found.where(classes[column] == labels, 0.0).clamp_min(LEAST).log()


def top_errors(scores: Tensor, classes: Tensor, labels: Tensor, tops: tuple[int, ...] = (1, 5)) -> dict[str, float]:
    """The share of rows whose label is not among the best-scored classes.

    Args:
        scores: (n, C) logarithms of probabilities, which keep the order of classes far behind the best one. A class
            at -inf, without any vote, is never a hit.
        classes: (C,) the label of each column.
        labels: (n,) the truth.
        tops: 1 gives ``error``, k > 1 gives ``error@k``.
    """
    ranked = scores.topk(min(max(tops), scores.shape[1]), dim=1)
    hits = (classes[ranked.indices] == labels[:, None]) & (ranked.values > -torch.inf)
    return {
        "error" if top == 1 else f"error@{top}": 1 - float(hits[:, :top].any(dim=1).double().mean()) for top in tops
    }


def judge(
    method: Method,
    queries: Tensor,
    labels: Tensor,
    *,
    index: ClusterIndex | None,
    references: Tensor | None,
    reference_labels: Tensor,
    neighbours: int,
    device: torch.device,
) -> Judged:
    """Error and log-loss under the rule that the method is judged by: kNC, soft kNN or its own head.

    Args:
        method: names the rule, and gives the scaling and the running variance.
        queries: (n, d) with ``labels`` (n,).
        index: for kNC and for the lengthscale of soft kNN.
        references: (N, d) for soft kNN, with ``reference_labels`` (N,).
        neighbours: L.
        device: where the head is.
    """
    rule = None
    if method.classifier != "head":
        assert index is not None
        rule = soft_rule(method, method.classifier, index, references, reference_labels, neighbours)
    wrong, loss = 0, 0.0
    for r, truth in zip(queries.split(CHUNK), labels.split(CHUNK), strict=True):
        if rule is None:
            with torch.no_grad():
                logits = method.logits(r.to(device))
            assert logits is not None
            votes, classes = logits.double().softmax(dim=1).cpu(), torch.arange(logits.shape[1])
        else:
            votes, classes = rule.predict_proba(r), rule.classes
        wrong += int((classes[votes.argmax(dim=1)] != truth).sum())
        loss += float(log_losses(votes, classes, truth).sum())
    return Judged(wrong / len(labels), loss / len(labels))


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
