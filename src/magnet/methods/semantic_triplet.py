"""Triplet loss with semantic similarity: the positive is any example of the class (section 2, issue 1)."""

from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from magnet.methods.base import MeanInputs, Options, Setting
from magnet.methods.triplet import Triplet, TripletBatches


class SemanticBatches(TripletBatches):
    """Triplets whose positive is drawn from the whole class of the seed."""

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        _, self._class, self._size = setting.labels.unique(return_inverse=True, return_counts=True)
        self._by_class = self._class.argsort(stable=True)  # examples, class by class
        self._place = self._by_class.argsort()
        self._first = self._size.cumsum(0) - self._size

    def _positives(self, seeds: Tensor, generator: torch.Generator) -> Tensor:
        first, size = self._first[self._class[seeds]], self._size[self._class[seeds]]
        # One of the others: a step of 1 to size - 1 from the seed, round its class. Alone in its class: itself.
        step = 1 + (torch.rand(len(seeds), generator=generator) * (size - 1)).long()
        chosen: Tensor = self._by_class[first + (self._place[seeds] - first + step) % size]
        return chosen


class SemanticTriplet(Triplet):
    """Triplet whose classes are to be one cluster each; impostors are the baseline's, from the nearest fraction."""

    reads_inputs: ClassVar[bool] = False
    uses: ClassVar[frozenset[str]] = frozenset({"alpha", "impostor_fraction"})

    @cached_property
    def sampler(self) -> SemanticBatches:
        """Triplets whose positives are any other examples of the class."""
        return SemanticBatches(self.setting, self.options)

    def prepare(self, space: Tensor, mean_inputs: MeanInputs) -> None:
        """Nothing to fix: the labels are all that positives depend on."""
