"""Softmax: the standard classifier that the paper compares with."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from magnet.methods.base import Batch, Classifier, Discriminant, Method, MethodLoss, Network, Options, Setting


class Softmax(Method):
    """A linear layer on the representation, trained with the cross-entropy."""

    classifier: ClassVar[Classifier] = "head"
    reads_representations: ClassVar[bool] = False

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self.head = nn.Linear(setting.dim, setting.classes)

    @torch.no_grad()
    def begin(self, discriminant: Discriminant) -> None:
        """The head of linear discriminant analysis."""
        weight, bias, classes = discriminant
        self.head.weight[classes] = weight.to(self.head.weight)
        self.head.bias[classes] = bias.to(self.head.bias)

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """-log softmax_y(W r + b)."""
        per_example = functional.cross_entropy(self.head(network(batch.inputs)), batch.labels, reduction="none")
        return MethodLoss(per_example.mean(), per_example.detach())

    def logits(self, representations: Tensor) -> Tensor:
        """The scores of the head (n, C)."""
        scores: Tensor = self.head(representations)
        return scores
