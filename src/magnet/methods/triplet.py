"""Triplet loss (section 2 of the paper), with impostors from the nearest fraction.

`Triplet` is the baseline that the paper trains, with fixed local targets. `SemanticTriplet` takes any example of the
class as the positive (section 2, issue 1).
"""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from magnet.index import ClusterIndex
from magnet.methods.base import (
    Batch,
    ClassCircles,
    Classifier,
    MeanInputs,
    Method,
    MethodLoss,
    Network,
    Options,
    RandomBatches,
    Setting,
    generator,
)
from magnet.neighbours import at_least_float32


def triplet_loss(representations: Tensor, alpha: float) -> Tensor:
    """``{|r - r+|^2 - |r - r-|^2 + alpha}_+`` (section 2) of rows that lie in threes: seed, positive, negative.

    Args:
        representations: (3T, d).
        alpha: the margin.

    Returns:
        (T,), one loss for each triplet.

    Examples:
        >>> triplet_loss(torch.tensor([[0.0], [1.0], [2.0], [0.0], [1.0], [1.2]]), alpha=1.0)
        tensor([0.0000, 0.5600])
    """
    seed, positive, negative = at_least_float32(representations).unflatten(0, (-1, 3)).unbind(dim=1)
    apart = (seed - positive).square().sum(dim=1) - (seed - negative).square().sum(dim=1)
    return torch.relu(apart + alpha)


def target_neighbours(space: Tensor, labels: Tensor, count: int) -> Tensor:
    """The ``count`` nearest examples of the same class (N, count) (section 2), -1 where a class has fewer.

    >>> target_neighbours(torch.tensor([[0.0], [1.0], [5.0], [6.0]]), torch.tensor([0, 0, 0, 1]), 1).T
    tensor([[ 1,  0,  1, -1]])
    """
    targets = torch.full((len(labels), count), -1)
    for c in labels.unique():
        members = (labels == c).nonzero().squeeze(1)
        own = space[members].float()
        own = own - own.mean(dim=0)  # `cdist` expands the squares, which lose digits far from the origin
        distances = torch.cdist(own, own).fill_diagonal_(torch.inf)
        nearest = distances.topk(min(count, len(members) - 1), dim=1, largest=False).indices
        targets[members, : nearest.shape[1]] = members[nearest.cpu()]
    return targets


class TripletBatches(RandomBatches):
    """Triplets: seeds in random order, a target neighbour, and an impostor of the nearest fraction."""

    group: ClassVar[int] = 3

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self.labels, self.fraction = setting.labels, options.impostor_fraction
        self.targets = torch.full((len(setting.labels), 1), -1)
        self.representations: Tensor | None = None
        self._squares: Tensor | None = None

    def look_in(self, representations: Tensor | None) -> None:
        """Look for impostors among these (N, d) from now on."""
        self.representations = representations
        self._squares = None if representations is None else representations.square().sum(dim=1)

    def draw(self, number: int) -> list[int]:
        """Batch ``number``: seed, positive, negative, seed, positive, negative, ..."""
        seeds = torch.tensor(super().draw(number))
        source = generator(self.seed, number, self.rank)
        triplets = [seeds, self._positives(seeds, source), self._negatives(seeds, source)]
        return torch.stack(triplets, dim=1).flatten().tolist()

    def state_dict(self) -> dict[str, Any]:
        """The batches used, the targets, and the space that impostors are looked for in."""
        space = {} if self.representations is None else {"representations": self.representations}
        return super().state_dict() | {"targets": self.targets} | space

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the batches used, in the same space."""
        super().load_state_dict(state)
        self.targets = state["targets"]
        self.look_in(state.get("representations"))

    def _positives(self, seeds: Tensor, generator: torch.Generator) -> Tensor:
        targets = self.targets[seeds]
        available = (targets >= 0).sum(dim=1)
        pick = (torch.rand(len(seeds), generator=generator) * available).long()
        chosen = targets.gather(1, pick[:, None]).squeeze(1)
        return torch.where(available > 0, chosen, seeds)  # alone in its class: its own positive

    def _negatives(self, seeds: Tensor, generator: torch.Generator) -> Tensor:
        impostors = self.labels[seeds, None] != self.labels[None, :]
        available = impostors.sum(dim=1)
        uniform = torch.rand(len(seeds), generator=generator)
        if self.representations is None or self._squares is None:
            return torch.multinomial(impostors.float(), 1, generator=generator).squeeze(1)
        r = self.representations
        # |r|^2 of the seed is the same for all impostors: only the order matters.
        distances = torch.addmm(self._squares, r[seeds.to(r.device)], r.T, alpha=-2).cpu()
        distances.masked_fill_(~impostors, torch.inf)
        rank = (uniform * (self.fraction * available).ceil().clamp_min(1)).long()
        # Only the element at one rank is needed: a partition of each row takes a tenth of the time of sorting.
        rows = zip(distances.numpy(), rank.tolist(), strict=True)
        return torch.tensor([int(np.argpartition(row, place)[place]) for row, place in rows])


class Triplet(Method):
    """The triplet baseline of the paper (section 2): fixed target neighbours, labels by soft kNN."""

    reads_inputs: ClassVar[bool] = True
    uses: ClassVar[frozenset[str]] = frozenset({"alpha", "impostor_fraction", "target_neighbours"})
    classifier: ClassVar[Classifier] = "knn"
    normalised: ClassVar[bool] = True

    @cached_property
    def sampler(self) -> TripletBatches:
        """Triplets of a seed, a target neighbour and an impostor."""
        return TripletBatches(self.setting, self.options)

    def prepare(self, space: Tensor, mean_inputs: MeanInputs) -> None:
        """Fix the target neighbours by distances in the input space."""
        self.sampler.targets = target_neighbours(space, self.setting.labels, self.options.target_neighbours)

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """Look for impostors in the current space from now on."""
        self.sampler.look_in(representations)

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """The triplet loss; all three examples of a triplet share it."""
        losses = triplet_loss(network(batch.inputs), self.options.alpha)
        return MethodLoss(losses.mean(), losses.detach().repeat_interleave(3))


class SemanticBatches(TripletBatches):
    """Triplets whose positive is drawn from the whole class of the seed."""

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self._circles = ClassCircles(setting.labels)

    def _positives(self, seeds: Tensor, generator: torch.Generator) -> Tensor:
        return self._circles.others(seeds, torch.rand(len(seeds), generator=generator))


class SemanticTriplet(Triplet):
    """Triplet loss that pulls each class into one cluster; impostors are drawn as for `Triplet`."""

    reads_inputs: ClassVar[bool] = False
    uses: ClassVar[frozenset[str]] = frozenset({"alpha", "impostor_fraction"})

    @cached_property
    def sampler(self) -> SemanticBatches:
        """Triplets whose positives are any other examples of the class."""
        return SemanticBatches(self.setting, self.options)

    def prepare(self, space: Tensor, mean_inputs: MeanInputs) -> None:
        """Nothing to do: positives depend on labels only."""
