"""Settings chosen from the training data alone, by the log-loss of a held-out part of it."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from magnet.estimator.fitting import cluster
from magnet.estimator.start import WithinClass
from magnet.estimator.votes import Trial, calibrate
from magnet.index import ClusterIndex
from magnet.neighbours import nearest

SHRINKAGES = (0.1, 0.4, 0.7)
CLUSTERS = (1, 2, 4, 8, 16)
LEAST_HELD_OUT = 30  # with fewer, what looks best is chance
ENOUGH_HELD_OUT = 1000
MOST_FOLDS = 5


class Data(NamedTuple):
    """Labelled vectors: x (n, d) float64 and labels (n,) 0..C-1."""

    x: Tensor
    labels: Tensor

    def take(self, rows: Tensor) -> "Data":
        """Some of them."""
        return Data(self.x[rows], self.labels[rows])


class Folds(NamedTuple):
    """Parts to fit and parts to judge by, disjoint in each fold; with the weight of an example of each class (C,)."""

    parts: list[Data]
    held: list[Data]
    class_weight: Tensor
    neighbours: int  # that vote
    seed: int

    def judge(self, indexes: Iterable[ClusterIndex], held: Iterable[Tensor]) -> tuple[float, float]:
        """The best scaling of the votes, for an index of each part and the held-out representations (n, k)."""
        labels = [data.labels for data in self.held]
        trials = [Trial(*each) for each in zip(indexes, held, labels, strict=True)]
        return calibrate(trials, self.class_weight, neighbours=self.neighbours)

    def cluster(self, parts: Iterable[Tensor], n_clusters: int, restarts: int = 3) -> list[ClusterIndex]:
        """The clusters of the representations (n, k) of each part."""
        labels = [data.labels for data in self.parts]
        return [cluster(part, own, n_clusters, self.seed, restarts) for part, own in zip(parts, labels, strict=True)]


def hold_out(data: Data, fraction: float, class_weight: Tensor, neighbours: int, seed: int) -> Folds | None:
    """Hold out about ``fraction`` of every class, in several folds if that alone says too little.

    Of the examples in the order of their classes, shuffled inside each, every n-th is held out; the only example of a
    class never is. None where that gives next to nothing.
    """
    if fraction == 0:
        return None
    period = max(2, round(1 / fraction))
    shuffled = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(seed))
    order = shuffled[data.labels[shuffled].argsort(stable=True)]
    turn = torch.arange(len(order)) % period
    turn[torch.bincount(data.labels)[data.labels[order]] < 2] = -1
    count = min(period, MOST_FOLDS, math.ceil(ENOUGH_HELD_OUT * period / len(order)))
    if int(((turn >= 0) & (turn < count)).sum()) < LEAST_HELD_OUT:
        return None
    parts = [data.take(order[turn != fold].sort().values) for fold in range(count)]
    held = [data.take(order[turn == fold].sort().values) for fold in range(count)]
    return Folds(parts, held, class_weight, neighbours, seed)


class Start(NamedTuple):
    """How the inputs are scaled and whitened, and what representations (n, k) that gives in each fold."""

    standardize: bool
    shrinkage: float
    parts: list[Tensor]
    held: list[Tensor]


def choose_start(
    folds: Folds, standardize: Iterable[bool], shrinkages: Sequence[float], dim: int, n_clusters: int
) -> Start:
    """The start with the least held-out log-loss."""
    best: tuple[float, Start] | None = None
    for scaled in standardize:
        spectra = [WithinClass(*part, standardize=scaled, seed=folds.seed) for part in folds.parts]
        for shrinkage in shrinkages:
            maps = [(spectrum.mean, spectrum.components(shrinkage, dim)) for spectrum in spectra]
            parts, held = (
                [(data.x - mean) @ components.T for data, (mean, components) in zip(group, maps, strict=True)]
                for group in (folds.parts, folds.held)
            )
            _, loss = folds.judge(folds.cluster(parts, n_clusters, restarts=1), held)
            if best is None or loss < best[0]:
                best = loss, Start(scaled, shrinkage, parts, held)
    assert best is not None
    return best[1]


def choose_clusters(
    folds: Folds, parts: list[Tensor], held: list[Tensor], candidates: Iterable[int]
) -> tuple[int, float]:
    """How many clusters for each class, given representations; more are tried as long as they help.

    Returns:
        The number, and the scaling of the votes that suits it.
    """
    best: tuple[float, int, float] | None = None
    for n_clusters in candidates:
        scaling, loss = folds.judge(folds.cluster(parts, n_clusters), held)
        if best is not None and loss >= best[0]:
            break
        best = loss, n_clusters, scaling
    assert best is not None
    return best[1], best[2]


def novelty_threshold(indexes: Iterable[ClusterIndex], held: Iterable[Tensor], rate: float) -> float:
    """The novelty that a share ``rate`` of the held-out representations exceeds."""
    far = [novelty_of(r, index.centres, float(index.variance)) for index, r in zip(indexes, held, strict=True)]
    return float(torch.cat(far).quantile(1 - rate))


def novelty_of(representations: Tensor, centres: Tensor, variance: float) -> Tensor:
    """The distance (n,) to the nearest centre, in units of sigma."""
    distances, _ = nearest(representations, centres, 1)
    return (distances[:, 0] / max(variance, torch.finfo(torch.float64).tiny)).sqrt()


def novelty_left_out(representations: Tensor, index: ClusterIndex) -> Tensor:
    """As `novelty_of` for the index's own examples (N,), each of them left out of the mean of its cluster."""
    own = (representations - index.centres[index.assignments]).square().sum(dim=1).sqrt()
    size = index.sizes[index.assignments].double()
    return own * size / (size - 1).clamp_min(1) / max(float(index.variance), torch.finfo(torch.float64).tiny) ** 0.5
