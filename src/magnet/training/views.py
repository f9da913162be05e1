"""From stored examples to what the network sees: augmented in training, averaged over views at test time."""

import torch
from torch import Tensor

from magnet.backbones import Backbone
from magnet.data import Augmentation, normalise


class Views:
    """The inputs of a network made from raw examples, on their device. Vectors pass as they are.

    Args:
        network: says how images are to be normalised.
        size: side of the views.
        rescale, flip: of the augmentation.
        draws: augmented views of a test example; 1: the centre view.
    """

    def __init__(self, network: Backbone, size: int, *, rescale: float, flip: bool, draws: int) -> None:
        self.images = network.kind == "images"
        self.mean, self.std = network.mean, network.std
        self.draws = draws if self.images else 1
        self.augment = Augmentation(size, rescale, flip) if self.images else None

    def train(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        """One augmented view of each example."""
        return self._normalised(self.augment(raw, generator)) if self.augment else raw

    def plain(self, raw: Tensor) -> Tensor:
        """The view without chance, for the refresh."""
        return self._normalised(self.augment.centre(raw)) if self.augment else raw

    def test(self, raw: Tensor, generator: torch.Generator) -> list[Tensor]:
        """The views whose representations are averaged."""
        if self.draws == 1:
            return [self.plain(raw)]
        return [self.train(raw, generator) for _ in range(self.draws)]

    def _normalised(self, images: Tensor) -> Tensor:
        return normalise(images, self.mean, self.std)
