"""The examples that are shown, and what a run says of them: classes, and clusters at the end and on its way."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from magnet.classify import SoftNeighbours
from magnet.errors import UserError
from magnet.index import LAYOUT, ClusterIndex
from magnet.neighbours import nearest
from magnet.report.layout import Positions, lay_out
from magnet.runs.run import Run
from magnet.tensors import read_tensors

SMALLEST = 1e-12  # probability, so that the loss of an example that gets no vote is 27.6 and not infinite
ROWS = 1024  # of distances to all centres at a time
REFRESH = {**LAYOUT, "representations": "float N d"}  # what the file of a kept refresh holds


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
    """Of n examples under one run."""

    representations: Tensor  # (n, d), of the plain view
    place: Tensor  # (n,) ids into the training part; -1: not a training example
    probabilities: Tensor  # (n, C)
    loss: Tensor  # (n,) -log of the probability of the label
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
    own = probabilities.gather(1, run.data.labels[ids][:, None])[:, 0]
    return Predictions(
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


@dataclass(frozen=True)
class Moment:
    """m of the examples that are shown, and all clusters. Distances are in sigma."""

    step: int
    shown: Tensor  # (m,) which of the shown examples
    representations: Tensor  # (m, d)
    index: ClusterIndex
    sigma: float
    clusters: Tensor  # (m,) the cluster of its class that an example is in; -1: its class has none
    own: Tensor  # (m,) distance to its centre
    impostor: Tensor  # (m,) the nearest cluster of another class
    impostor_distance: Tensor  # (m,)


def moment(
    step: int, shown: Tensor, representations: Tensor, labels: Tensor, place: Tensor, index: ClusterIndex, sigma: float
) -> Moment:
    """Put m examples into the clusters of an index.

    Args:
        step: of the training.
        shown: (m,) which of the shown examples.
        representations: (m, d) at that step.
        labels: (m,) their classes.
        place: (m,) ids into what the index was made of, which keep their cluster; -1: the nearest of the own class.
        index: the clusters.
        sigma: the unit of distances.
    """
    clusters, own, impostor, far = [], [], [], []
    for r, y, p in zip(representations.split(ROWS), labels.split(ROWS), place.split(ROWS), strict=True):
        distances = torch.cdist(r, index.centres, compute_mode="donot_use_mm_for_euclid_dist") / sigma
        same = y[:, None] == index.centre_labels
        mine = distances.masked_fill(~same, torch.inf).min(dim=1).indices
        mine = torch.where(p >= 0, index.assignments[p], mine)
        clusters.append(torch.where(same.any(dim=1), mine, -1))
        own.append(distances.gather(1, mine[:, None])[:, 0])
        other = distances.masked_fill(same, torch.inf).min(dim=1)
        impostor.append(other.indices)
        far.append(other.values)
    return Moment(
        step, shown, representations, index, sigma,
        torch.cat(clusters), torch.cat(own), torch.cat(impostor), torch.cat(far),
    )  # fmt: skip


def kept_moments(folder: Path, before: int, labels: Tensor, place: Tensor) -> list[Moment]:
    """The refreshes kept in a run folder, in order, with those of the n shown examples that were trained on.

    Args:
        folder: the run.
        before: only earlier steps than this, the one of the checkpoint that is looked at.
        labels: (n,) classes of the shown examples.
        place: (n,) their ids into the training part, or -1.
    """
    shown = (place >= 0).nonzero()[:, 0]
    found = []
    for file in sorted((folder / "refreshes").glob("step-*.safetensors")):
        number = file.stem.removeprefix("step-")
        if not number.isdecimal() or int(number) >= before:
            continue
        try:
            tensors = read_tensors(file, REFRESH).tensors
            all_of_it = tensors.pop("representations")
            index = ClusterIndex.of_tensors(tensors)
            rows = all_of_it.float()[place[shown]]
        except (OSError, ValueError, IndexError) as error:
            raise UserError(f"{file} cannot be read as a refresh ({error}): remove it to explore without it") from error
        sigma = max(float(index.variance) ** 0.5, torch.finfo(torch.float32).tiny)
        found.append(moment(int(number), shown, rows, labels[shown], place[shown], index, sigma))
    return found


def lay_out_moments(moments: list[Moment], *, seed: int = 0) -> list[Positions]:
    """Positions of the examples and centres of each moment.

    A moment starts where its examples lie in the map of the next one, so that consecutive maps can be compared: what
    moves has moved in the space as well. The last one must show every example that the others show.
    """
    maps: list[Positions] = []
    later: Moment | None = None
    for m in reversed(moments):
        start = None
        if later is not None:
            at = np.full((int(later.shown.max()) + 1, 2), np.nan)
            at[later.shown.numpy()] = maps[-1][0]
            start = at[m.shown.numpy()]
        maps.append(lay_out(m.representations.numpy(), m.index.centres.numpy(), start=start, seed=seed))
        later = m
    return maps[::-1]
