"""The examples that are shown, and what a run says of them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from magnet.classify import SoftNeighbours
from magnet.neighbours import nearest
from magnet.runs.run import Run
from magnet.runs.suspects import doubts_among, training_doubts

MOST_JUDGED = 50_000  # training examples that vote on each other; all of a million would take an hour
SMALLEST = 1e-12  # probability, so that the loss of an example that gets no vote is 27.6 and not infinite


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
    loss: Tensor  # (n,) -log of the probability of the label; of training examples, by votes they had no part in
    prediction: Tensor  # (n,) classes


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
    probabilities = class_probabilities(run, representations, place)
    loss = log_loss(probabilities, run.data.labels[ids])
    trained = place >= 0
    # The network and the clusters know the labels of the training part: a wrong one would hardly show.
    loss[trained] = _left_out_loss(run, place[trained]).to(loss.dtype)
    return Predictions(representations, place, probabilities, loss, probabilities.argmax(1))


def _left_out_loss(run: Run, place: Tensor) -> Tensor:
    """The loss (m,) of training examples by votes that they had no part in: of all others, or of MOST_JUDGED."""
    count = len(run.train)
    if count <= MOST_JUDGED:
        return training_doubts(run).loss[place]
    others = torch.ones(count, dtype=torch.bool).index_fill(0, place, False).nonzero()[:, 0]
    drawn = torch.randperm(len(others), generator=torch.Generator().manual_seed(0))[: max(0, MOST_JUDGED - len(place))]
    return doubts_among(run, torch.cat([place, others[drawn]])).loss[: len(place)]


def log_loss(probabilities: Tensor, labels: Tensor) -> Tensor:
    """``-log p`` (n,) of the labels (n,) under probabilities (n, C)."""
    return -probabilities.gather(1, labels[:, None])[:, 0].clamp_min(SMALLEST).log()


@torch.no_grad()
def class_probabilities(run: Run, representations: Tensor, place: Tensor) -> Tensor:
    """Probabilities (n, C). Under soft kNN a training example, found by its ``place``, has no vote on itself."""
    method = run.learner.method
    if method.classifier == "head":
        logits = method.logits(representations.to(run.device))
        assert logits is not None
        return logits.softmax(dim=1).cpu()
    votes = representations.new_zeros(len(representations), len(run.classes))
    rule = run.rule(method.classifier)
    votes[:, rule.classes] = rule.predict_proba(representations).to(votes.dtype)
    if method.classifier == "knn" and bool((place >= 0).any()):
        votes[place >= 0] = _without_own_vote(run, rule, representations[place >= 0], place[place >= 0]).to(votes.dtype)
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
    other: Tensor  # (m,) the class that it may be of instead: the prediction or, where that is right, the second best
    of_own: Tensor  # (m, k) the nearest shown examples of its own class; -1: there are no more
    of_other: Tensor  # (m, k) of the other class


def contrast(found: Predictions, labels: Tensor, *, most: int = 600, beside: int = 4) -> Contrast:
    """The ``most`` shown examples (of n) with the highest loss, each with ``beside`` nearest ones of both classes."""
    ids = found.loss.argsort(descending=True, stable=True)[:most]
    votes = found.probabilities[ids].scatter(1, labels[ids][:, None], -1.0)
    other = votes.argmax(dim=1)
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
