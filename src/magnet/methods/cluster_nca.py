"""Cluster-NCA: the objective that the paper considered before Magnet's (section 3.1)."""

from typing import ClassVar

import torch
from torch import Tensor

from magnet.methods.base import Batch, MethodLoss, Network, Options, Setting, at_least_float32
from magnet.methods.magnet import ClusterMethod
from magnet.methods.nca import centred_squared_distances, share_loss

DECAY = 0.99  # of the running variance, as for Magnet


def cluster_nca_loss(
    representations: Tensor, clusters: Tensor, labels: Tensor, scaling: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The NCA objective of each row with clusters as neighbours,

        -log sum_k exp(-s |r - mu_k^C(r)|^2 / 2 sigma^2) / sum_{c,k} exp(-s |r - mu_k^c|^2 / 2 sigma^2).

    Means are those of the batch, ``sigma^2 = sum |r - mu(r)|^2 / (B - 1)``, and gradients flow through both.

    Args:
        representations: (B, d).
        clusters: (B,) id of the cluster that each row was drawn from.
        labels: (B,) class of each row; the rows of a cluster share it.
        scaling: s.

    Returns:
        The losses (B,) and the variance ().

    Examples:
        >>> r, clusters = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0, 0, 1, 1])
        >>> cluster_nca_loss(r, clusters, labels=clusters)
        (tensor([0.0001, 0.0486, 0.0486, 0.0001]), tensor(0.3333))
    """
    r = at_least_float32(representations)
    r = r - r.detach().mean(dim=0)
    ids, place = torch.unique(clusters, return_inverse=True)
    size = torch.bincount(place, minlength=len(ids)).to(r)
    means = r.new_zeros(len(ids), r.shape[1]).index_add(0, place, r) / size[:, None]
    mean_labels = labels.new_zeros(len(ids)).scatter(0, place, labels)

    variance = (r - means[place]).square().sum() / max(len(r) - 1, 1)
    # All rows on their means would give 0 / 0; at rounding level the loss goes to its limit instead.
    info = torch.finfo(r.dtype)
    spread = r.detach().square().sum(dim=1).mean()
    variance = torch.maximum(variance, (info.eps * spread).clamp_min(info.tiny / info.eps))

    alike = labels[:, None] == mean_labels[None, :]
    return share_loss(scaling / (2 * variance) * centred_squared_distances(r, means), alike, ~alike), variance


class ClusterNCA(ClusterMethod):
    """Cluster-NCA on the batches of Magnet; without hinge and gap it never stops pushing."""

    uses: ClassVar[frozenset[str]] = frozenset({"scaling", "clusters_per_class"})
    average: Tensor
    weight: Tensor

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self.register_buffer("average", torch.zeros((), dtype=torch.float64))
        self.register_buffer("weight", torch.zeros((), dtype=torch.float64))

    @property
    def scaling(self) -> float:
        """The factor in the objective."""
        return self.options.scaling

    @property
    def variance(self) -> Tensor | None:
        """The running average of the batch variances, corrected for its start; None before the first batch."""
        return self.average / self.weight if bool(self.weight > 0) else None

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """The stochastic cluster-NCA objective."""
        per_example, variance = cluster_nca_loss(
            network(batch.inputs), batch.clusters, batch.labels, self.options.scaling
        )
        if self.training:
            self.average.lerp_(variance.detach().to(self.average), 1 - DECAY)
            self.weight.lerp_(torch.ones_like(self.weight), 1 - DECAY)
        return MethodLoss(per_example.mean(), per_example.detach(), variance.detach())
