"""The examples that are shown, and what a run says of them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from magnet.classify import SoftNeighbours
from magnet.evaluation.suspects import LEAST, Doubts
from magnet.neighbours import nearest
from magnet.runs.run import Run, judged_probabilities
from magnet.runs.suspects import training_doubts


def choose(labels: np.ndarray, split: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Ids (n,) of at most ``count`` of N examples, in random order, so that no class is drawn over the others.

    Args:
        labels: (N,) classes.
        split: (N,) parts.
        count: how many at most. Every class of every part gives its share of them, and at least one while they last.
        seed: the same one gives the same ids.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    _, group, sizes = np.unique(np.stack([labels, split])[:, order], axis=1, return_inverse=True, return_counts=True)
    by_group = np.argsort(group, kind="stable")
    rank = np.empty(len(order), np.int64)  # of each example in its group
    rank[by_group] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # The first of each group, then each group at the pace of its size.
    chosen = np.argsort(rank / sizes[group], kind="stable")[:count]
    return order[np.sort(chosen)]


@dataclass(frozen=True)
class Predictions:
    """What one run says of n examples."""

    representations: Tensor  # (n, d), of the plain view
    place: Tensor  # (n,) ids into the training part; -1: not a training example
    probabilities: Tensor  # (n, C)
    loss: Tensor  # (n,) -log of the probability of the label
    prediction: Tensor  # (n,) classes
    doubts: Doubts  # as `magnet suspects` has them: of training examples, by votes that they had no part in


def predict(run: Run, rows: np.ndarray) -> Predictions:
    """Ask a run about examples of its data, under the rule that its method is judged by."""
    ids = torch.from_numpy(rows)
    train = run.train
    place = torch.full((len(run.data),), -1)
    place[train] = torch.arange(len(train))
    place = place[ids]
    known = place >= 0
    representations = torch.empty(len(ids), run.references.shape[1])
    representations[known] = run.references[place[known]]
    test = run.data.indices("test")
    if len(test) and torch.isin(test, ids).all():  # the error of the run needs all of them too
        order = torch.full((len(run.data),), -1)
        order[test] = torch.arange(len(test))
        tested = order[ids] >= 0
        representations[tested] = run.part("test")[order[ids[tested]]]
        known = known | tested
    if not known.all():
        representations[~known] = run.embed(ids[~known])
    probabilities, labels = class_probabilities(run, representations, place), run.data.labels[ids]
    doubts = Doubts.of(probabilities.double(), labels)
    trained = place >= 0
    # The network and the clusters know the labels of the training part: a wrong one would hardly show.
    if bool(trained.any()):
        for values, judged in zip(doubts, training_doubts(run, place[trained]), strict=True):
            values[trained] = judged.to(values.dtype)
    loss = log_loss(probabilities, labels)
    return Predictions(representations, place, probabilities, loss, probabilities.argmax(1), doubts)


def log_loss(probabilities: Tensor, labels: Tensor) -> Tensor:
    """``-log p`` (n,) of the labels (n,) under probabilities (n, C)."""
    return -probabilities.gather(1, labels[:, None])[:, 0].clamp_min(LEAST).log()


def class_probabilities(run: Run, representations: Tensor, place: Tensor) -> Tensor:
    """Probabilities (n, C). Under soft kNN a training example, found by its ``place``, has no vote on itself."""
    votes = judged_probabilities(run, representations).to(representations.dtype)
    if run.learner.method.classifier == "knn" and bool((place >= 0).any()):
        known = place >= 0
        votes[known] = _without_own_vote(run, run.rule("knn"), representations[known], place[known]).to(votes.dtype)
    return votes


def _without_own_vote(run: Run, rule: SoftNeighbours, representations: Tensor, place: Tensor) -> Tensor:
    """Shares of the votes (n, C) for training examples, by the other training examples."""
    distances, ids = nearest(representations, run.references, rule.neighbours + 1)
    out = ids == place[:, None]
    if ids.shape[1] > rule.neighbours:
        out[~out.any(dim=1), -1] = True
    logits = distances.double() * -min(rule.scaling / (2 * rule.variance), torch.finfo(torch.float64).max)
    logits -= logits.masked_fill(out, -torch.inf).amax(dim=1, keepdim=True)
    shares = logits.masked_fill(out, -torch.inf).softmax(dim=1)
    return shares.new_zeros(len(place), len(run.classes)).scatter_add_(1, run.labels[ids], shares)


@dataclass(frozen=True)
class Contrast:
    """Doubtful examples, each between the examples most like it of its own class and of another one."""

    ids: Tensor  # (m,) which of the shown examples, the most doubtful first
    other: Tensor  # (m,) the class that it may be of instead: what it looks like or, where that is its label, the next
    of_own: Tensor  # (m, k) the nearest shown examples of its own class; -1: there are no more
    of_other: Tensor  # (m, k) of the other class


def contrast(found: Predictions, labels: Tensor, *, most: int = 600, beside: int = 4) -> Contrast:
    """The ``most`` doubtful of n shown examples, each with ``beside`` nearest ones of both classes."""
    ids = found.doubts.loss.argsort(descending=True, stable=True)[:most]
    votes = found.probabilities[ids].scatter(1, labels[ids][:, None], -1.0)
    suggestion = found.doubts.suggestion[ids]
    other = torch.where(suggestion == labels[ids], votes.argmax(dim=1), suggestion)
    return Contrast(
        ids, other, _alike(found, labels, ids, labels[ids], beside), _alike(found, labels, ids, other, beside)
    )


def _alike(found: Predictions, labels: Tensor, ids: Tensor, wanted: Tensor, count: int) -> Tensor:
    """For examples ``ids`` (m,) the nearest others (m, count) of the wanted classes (m,), nearest first."""
    near = torch.full((len(ids), count), -1)
    for label in wanted.unique().tolist():
        rows, members = (wanted == label).nonzero()[:, 0], (labels == label).nonzero()[:, 0]
        if not len(members):
            continue
        _, places = nearest(found.representations[ids[rows]], found.representations[members], count + 1)
        for row, some in zip(rows.tolist(), members[places], strict=True):
            kept = some[some != ids[row]][:count]
            near[row, : len(kept)] = kept
    return near
