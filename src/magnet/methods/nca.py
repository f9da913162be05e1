"""Neighbourhood Components Analysis (section 3.4), on neighbourhoods of the cluster index."""

from typing import ClassVar

import torch
from torch import Tensor

from magnet.index import ClusterIndex
from magnet.methods.base import Batch, Classifier, MethodLoss, Network
from magnet.methods.distances import share_loss, squared_distances
from magnet.methods.magnet import ClusterMethod
from magnet.methods.unit import FixedUnit


def nca_loss(representations: Tensor, labels: Tensor, factor: Tensor | float = 1.0) -> Tensor:
    """The NCA objective of each row over a batch,

        -log sum_{n' != n, C(n') = C(n)} exp(-a |r_n - r_n'|^2) / sum_{n' != n} exp(-a |r_n - r_n'|^2).

    A row that is alone in its class has a loss of zero.

    Args:
        representations: (B, d).
        labels: (B,).
        factor: a, which sets the unit of length.

    Returns:
        (B,).
    """
    distances = factor * squared_distances(representations, representations)
    alike = labels[:, None] == labels[None, :]
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return share_loss(distances, alike & ~itself, ~alike)


class NCA(FixedUnit, ClusterMethod):
    """NCA with the sums over a batch, which is a neighbourhood of the index as for Magnet.

    Nearest neighbours of single examples would nearly all be of other classes; D examples of each cluster are not.
    An example that a small cluster gives twice counts as two.
    """

    uses: ClassVar[frozenset[str]] = frozenset({"scaling", "clusters_per_class"})
    classifier: ClassVar[Classifier] = "knn"

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """Draw from the clusters of the current space; the first time, their variance becomes the unit."""
        super().refresh(representations, index)
        assert index is not None
        self.fix_unit(index.variance)

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """The stochastic NCA objective."""
        per_example = nca_loss(network(batch.inputs), batch.labels, self.factor)
        return MethodLoss(per_example.mean(), per_example.detach())
