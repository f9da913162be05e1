"""Training of the map: a small loop over the core."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from magnet.objective import MagnetLoss
from magnet.sampler import NeighbourhoodSampler
from magnet.start import cluster

LEAST_STEPS = 25  # in an iteration, where a pass over the data is shorter


@dataclass(frozen=True)
class Recipe:
    """What training needs to know beside the data."""

    n_clusters: int
    scaling: float
    alpha: float
    clusters_per_batch: int
    examples_per_cluster: int | Literal["auto"]
    learning_rate: float
    iterations: int  # the length of the learning rate's cosine
    seed: int
    device: str


def train(start: Tensor, labels: Tensor, weights: Tensor, recipe: Recipe) -> Iterator[tuple[Tensor, float]]:
    """Train a linear map of the start's representations, from the identity on.

    An iteration is a refresh of the index and as many batches as cover the data (a few more on small data). SGD with
    momentum, its rate annealed to zero along a cosine over all iterations.

    Args:
        start: (N, k) float64.
        labels: (N,) ids 0..C-1.
        weights: (N,) of the examples, with a mean of one.
        recipe: the settings.

    Yields:
        After each iteration the map (k, k), float64, and the mean loss of its batches.
    """
    inputs, weights = start.float().to(recipe.device), weights.float().to(recipe.device)
    targets = labels.to(recipe.device)
    matrix = torch.eye(start.shape[1], device=recipe.device, requires_grad=True)
    objective = MagnetLoss(recipe.alpha, recipe.scaling, "leave-one-out")
    optimiser = torch.optim.SGD([matrix], lr=recipe.learning_rate, momentum=0.9, nesterov=True)
    index = cluster(inputs, targets, recipe.n_clusters, recipe.seed)
    neighbourhood = min(recipe.clusters_per_batch, len(index))
    if recipe.examples_per_cluster == "auto":  # a batch of few clusters has more examples of each
        drawn = min(max(4, 4 * recipe.clusters_per_batch // neighbourhood), 16)
    else:
        drawn = recipe.examples_per_cluster
    epoch = math.ceil(len(inputs) / (neighbourhood * drawn))
    steps = max(epoch, min(2 * epoch, LEAST_STEPS))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.iterations * steps)
    sampler = NeighbourhoodSampler(
        index,
        clusters_per_batch=neighbourhood,
        examples_per_cluster=drawn,
        batches=steps,
        seed=recipe.seed,
    )
    for _ in range(recipe.iterations):
        total = 0.0
        for batch in sampler:
            rows = torch.tensor(batch, device=recipe.device)
            clusters = sampler.clusters(batch).to(recipe.device)
            per_example = objective(inputs[rows] @ matrix.T, clusters, targets[rows]).per_example * weights[rows]
            loss = per_example.mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            sampler.update(batch, per_example)
            total += float(loss.detach())
        found = matrix.detach()
        yield found.double().cpu(), total / steps
        sampler.refresh(cluster(inputs @ found.T, targets, recipe.n_clusters, recipe.seed))
