"""The network and the method as one module, so that one call of it is one training step's forward pass."""

from torch import Tensor, nn
from torch.nn import functional

from magnet.backbones import Backbone
from magnet.methods import Batch, Method, MethodLoss


class Learner(nn.Module):
    """What is trained, saved and distributed."""

    def __init__(self, network: Backbone, method: Method) -> None:
        super().__init__()
        self.network, self.method = network, method

    def represent(self, inputs: Tensor) -> Tensor:
        """Inputs (B, ...) to representations (B, d), on the unit sphere if the method wants that."""
        representations = self.network(inputs)
        return functional.normalize(representations, dim=1) if self.method.normalised else representations

    def forward(self, inputs: Tensor, labels: Tensor, clusters: Tensor) -> MethodLoss:
        """The loss of a batch."""
        return self.method.loss(self.represent, Batch(inputs, labels, clusters))
