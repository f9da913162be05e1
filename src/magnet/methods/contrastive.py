"""Contrastive loss (Hadsell, Chopra and LeCun, 2006): pairs drawn together or pushed apart."""

from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from magnet.methods.base import (
    Batch,
    ClassCircles,
    Classifier,
    Method,
    MethodLoss,
    Network,
    Options,
    RandomBatches,
    Setting,
    generator,
)
from magnet.neighbours import at_least_float32


def contrastive_loss(representations: Tensor, labels: Tensor, margin: float) -> Tensor:
    """``1/2 d^2`` of a similar pair, ``1/2 {m - d}_+^2`` of a dissimilar one; d is the distance, not its square.

    Args:
        representations: (2P, d), rows in pairs: first, mate, first, mate, ...
        labels: (2P,); a pair is similar if its labels are equal.
        margin: m.

    Returns:
        (P,), one loss for each pair.

    Examples:
        >>> r = torch.tensor([[0.0], [1.0], [0.0], [0.5]])
        >>> contrastive_loss(r, torch.tensor([0, 0, 0, 1]), margin=1.0)  # a similar pair, then a dissimilar one
        tensor([0.5000, 0.1250])
    """
    first, mate = at_least_float32(representations).unflatten(0, (-1, 2)).unbind(dim=1)
    similar = labels[0::2] == labels[1::2]
    # The derivative of the norm at zero is taken as zero, so that two equal representations give no NaN.
    distances = torch.linalg.vector_norm(first - mate, dim=1)
    return torch.where(similar, (first - mate).square().sum(dim=1), torch.relu(margin - distances).square()) / 2


class PairBatches(RandomBatches):
    """Pairs: first members in random order, mates by turns of the same class and of another one.

    A similar mate is uniform among the other examples of the class, a dissimilar one among all examples of other
    classes. An example that is alone in its class takes a dissimilar mate in either turn.
    """

    group: ClassVar[int] = 2

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self._circles = ClassCircles(setting.labels)

    def draw(self, number: int) -> list[int]:
        """Batch ``number``: first, mate, first, mate, ...; half of the pairs are similar."""
        first = torch.tensor(super().draw(number))
        uniform = torch.rand(len(first), dtype=torch.float64, generator=generator(self.seed, number, self.rank))
        circles, size = self._circles, self._circles.size[first]
        # The turn goes on over the batches, so that an odd number of pairs is balanced by the next batch.
        similar = ((number * len(first) + torch.arange(len(first))) % 2 == 0) & (size > 1)
        # Class by class, all examples of other classes follow the own class, cyclically.
        beyond = circles.start[first] + size + (uniform * (self.count - size)).long()
        mates = torch.where(similar, circles.others(first, uniform), circles.order[beyond % self.count])
        return torch.stack([first, mates], dim=1).flatten().tolist()


class Contrastive(Method):
    """Contrastive loss on labelled pairs; the margin is alpha.

    Representations are normalised, as for triplets: in a space that can be stretched, a margin means nothing.
    """

    uses: ClassVar[frozenset[str]] = frozenset({"alpha"})
    classifier: ClassVar[Classifier] = "knn"
    normalised: ClassVar[bool] = True
    reads_representations: ClassVar[bool] = False

    @cached_property
    def sampler(self) -> PairBatches:
        """Pairs of examples."""
        return PairBatches(self.setting, self.options)

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """The contrastive loss; both examples of a pair share it."""
        losses = contrastive_loss(network(batch.inputs), batch.labels, self.options.alpha)
        return MethodLoss(losses.mean(), losses.detach().repeat_interleave(2))
