"""What a run says of examples: where it puts them, and how probable it finds each class."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from magnet.classify import SoftNeighbours
from magnet.neighbours import nearest
from magnet.runs.run import Run

SMALLEST = 1e-12  # probability, so that the loss of an example that gets no vote is 27.6 and not infinite
RULES = {"knc": "kNC", "knn": "soft kNN", "head": "own head"}


@dataclass(frozen=True)
class Answers:
    """Of n examples under one run."""

    representations: Tensor  # (n, d), of the plain view
    place: Tensor  # (n,) ids into the training part; -1: not a training example
    probabilities: Tensor  # (n, C)
    loss: Tensor  # (n,) -log of the probability of the label
    prediction: Tensor  # (n,) classes


def ask(run: Run, rows: np.ndarray) -> Answers:
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
    own = probabilities.gather(1, run.data.labels[ids][:, None])[:, 0]
    return Answers(
        representations, place, probabilities, -own.clamp_min(SMALLEST).log(), probabilities.argmax(dim=1)
    )  # fmt: skip


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
