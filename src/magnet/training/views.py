"""Views: what a network sees of raw examples."""

import copy
from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor

from magnet.backbones import Backbone
from magnet.data import Augmentation, normalise
from magnet.training.config import TrainConfig


class Views:
    """The inputs of a network made from raw examples, on their device. Vectors pass as they are.

    Args:
        network: says how images are to be normalised.
        size: side of the views.
        rescale, flip: of the augmentation.
        draws: augmented views of a test example; 1: the plain view alone.
    """

    def __init__(self, network: Backbone, size: int, *, rescale: float, flip: bool, draws: int) -> None:
        self.images = network.kind == "images"
        self.mean, self.std = network.mean, network.std
        self.draws = draws if self.images else 1
        self.augment = Augmentation(size, rescale, flip) if self.images else None

    @classmethod
    def of(cls, config: TrainConfig, network: Backbone) -> Self:
        """The views that a configuration asks for."""
        size, draws = config.image_size or 1, config.test_draws
        return cls(network, size, rescale=config.rescale, flip=config.flip, draws=draws)

    def of_features(self) -> Self:
        """The views where features of images take the place of the images: they pass as they are."""
        other = copy.copy(self)
        other.augment = None
        return other

    def train(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        """One augmented view of each example."""
        return self._normalised(self.augment(raw, generator)) if self.augment else raw

    def plain(self, raw: Tensor) -> Tensor:
        """The plain view, without chance: the centre, in the middle of the range of scales of the augmentation."""
        return self._normalised(self.augment.centre(raw)) if self.augment else raw

    def test(self, raw: Tensor, seed: int) -> Iterator[Tensor]:
        """The test views, whose representations are averaged, one after the other.

        Their windows are drawn by the seed and are the same for every example, so that what is said of an example does
        not depend on those beside it.
        """
        if self.augment is None or self.draws == 1:
            yield self.plain(raw)
            return
        generator = torch.Generator().manual_seed(seed)
        for _ in range(self.draws):
            yield self._normalised(self.augment(raw, generator, shared=True))

    def _normalised(self, images: Tensor) -> Tensor:
        return normalise(images, self.mean, self.std)
