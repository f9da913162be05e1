"""Votes of clusters that weigh as much as the examples behind them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from magnet.classify import NearestClusters
from magnet.index import ClusterIndex

RANGE = (2.0**-3, 2.0**10)  # where the scaling of the votes is looked for


class WeightedVotes:
    """kNC in which cluster j votes ``mass_j exp(-s |r - mu_j|^2 / (2 sigma^2))``.

    A mass is the same as one more coordinate, zero for every query and ``sqrt(2 sigma^2 / s log(largest / mass_j))``
    for centre j, so `NearestClusters` does the rest.

    Args:
        centres: (J, k) float64.
        columns: (J,) the class of each as 0..C-1.
        masses: (J,) positive.
        variance: sigma^2.
        scaling: s.
        neighbours: how many nearest clusters vote.
    """

    def __init__(
        self, centres: Tensor, columns: Tensor, masses: Tensor, *, variance: float, scaling: float, neighbours: int
    ) -> None:
        variance = max(variance, torch.finfo(torch.float64).tiny)
        logs = masses.clamp_min(1e-300).log()
        offset = ((logs.max() - logs) * (2 * variance / scaling)).sqrt()
        index = ClusterIndex(
            torch.cat([centres, offset[:, None]], dim=1), columns, torch.arange(len(centres)), torch.tensor(variance)
        )
        self._rule = NearestClusters(index, neighbours, variance=variance, scaling=scaling)

    def proba(self, representations: Tensor) -> Tensor:
        """The probability of each class (n, C) of representations (n, k) float64."""
        zero = representations.new_zeros(len(representations), 1)
        return self._rule.predict_proba(torch.cat([representations, zero], dim=1))


def masses(counts: Tensor, columns: Tensor, class_weight: Tensor) -> Tensor:
    """The weight of each cluster (J,), of its members (J,), its class (J,) and the weight of an example (C,)."""
    return counts.double() * class_weight[columns]


class Trial(NamedTuple):
    """Clusters of one part of the data, and examples held out from them."""

    clusters: ClusterIndex  # labels 0..C-1
    held: Tensor  # (n, k) representations
    labels: Tensor  # (n,)


def calibrate(trials: Sequence[Trial], class_weight: Tensor, *, neighbours: int) -> tuple[float, float]:
    """The scaling of the votes with the least log-loss on held-out examples, and that log-loss.

    One example is thought to be spread over the classes by their share (much as in Platt's targets), so that held-out
    parts without a single mistake do not ask for infinite confidence.

    Args:
        trials: one or more, judged together.
        class_weight: (C,) the weight of an example of each class.
        neighbours: how many nearest clusters vote.
    """
    weights = class_weight[torch.cat([trial.labels for trial in trials])]
    weights = weights / weights.sum()
    share = 1 / (len(weights) + 1)

    def loss(log_scaling: float) -> float:
        each = []
        for index, held, labels in trials:
            mass = masses(index.sizes, index.centre_labels, class_weight)
            scaling, variance = float(np.exp(log_scaling)), float(index.variance)
            votes = WeightedVotes(
                index.centres, index.centre_labels, mass, variance=variance, scaling=scaling, neighbours=neighbours
            )
            logs = votes.proba(held).clamp_min(1e-12).log()
            prior = torch.zeros(logs.shape[1], dtype=logs.dtype).index_add(0, index.centre_labels, mass / mass.sum())
            each.append((1 - share) * logs[torch.arange(len(labels)), labels] + share * (logs @ prior))
        return -float(weights @ torch.cat(each))

    found = minimize_scalar(loss, bounds=tuple(np.log(RANGE)), method="bounded", options={"xatol": 0.05})
    return float(np.exp(found.x)), float(found.fun)
