"""Neighbourhood Components Analysis: NCA (section 3.4 of the paper) and cluster-NCA (section 3.1).

Cluster-NCA is the objective that the paper considered before Magnet's. Both, and NCM (`magnet.methods.ncm`), need
squared distances, the share that the own class has of the votes, and a unit of length.
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from magnet.index import ClusterIndex
from magnet.methods.base import Batch, Classifier, Method, MethodLoss, Network, Options, Setting
from magnet.methods.magnet import ClusterMethod
from magnet.neighbours import at_least_float32, squared_distances

DECAY = 0.99  # of the running variance, as for Magnet


def centred_squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """``|a_i - b_j|^2``: (n, m) from (n, d) and (m, d), never in half precision."""
    with torch.autocast(a.device.type, enabled=False):
        a, b = at_least_float32(a), at_least_float32(b)
        # The expanded squares lose digits far from the origin; distances are the same from any origin.
        origin = b.detach().mean(dim=0)
        return squared_distances(a - origin, b - origin).clamp_min(0).to(a.dtype)


def share_loss(distances: Tensor, own: Tensor, others: Tensor) -> Tensor:
    """``-log sum_own exp(-d) / (sum_own exp(-d) + sum_others exp(-d))`` of each row.

    It is written as softplus(log sum_others - log sum_own), which neither overflows nor falls below zero. A row
    without any ``own`` has nothing to be drawn to: its loss is zero.

    Args:
        distances: (B, J).
        own: (B, J) bool, what the row is to be near.
        others: (B, J) bool, the columns that a row should be far from.

    Returns:
        (B,).
    """
    # A finite stand-in for -inf keeps the gradient of an empty sum at zero instead of NaN.
    hidden = torch.finfo(distances.dtype).min / 4
    near, far = (torch.logsumexp(torch.where(mask, -distances, hidden), dim=1) for mask in (own, others))
    return torch.where(own.any(dim=1), functional.softplus(far - near), 0.0)


def nca_loss(representations: Tensor, labels: Tensor, factor: Tensor | float = 1.0) -> Tensor:
    """The NCA objective (section 3.4) of each row over a batch,

        -log sum_{n' != n, C(n') = C(n)} exp(-a |r_n - r_n'|^2) / sum_{n' != n} exp(-a |r_n - r_n'|^2).

    A row that is alone in its class has a loss of zero.

    Args:
        representations: (B, d).
        labels: (B,).
        factor: a, which sets the unit of length.

    Returns:
        (B,).

    Examples:
        >>> nca_loss(torch.tensor([[0.0], [1.0], [1.0]]), torch.tensor([0, 0, 1]))
        tensor([0.6931, 1.3133, 0.0000])
    """
    distances = factor * centred_squared_distances(representations, representations)
    alike = labels[:, None] == labels[None, :]
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return share_loss(distances, alike & ~itself, ~alike)


class FixedUnit(Method):
    """A method with exp(-a d^2) in it, where a = s / (2 sigma^2) and sigma^2 is fixed at the first refresh.

    The scale of an untrained network's representations is arbitrary, yet such an objective depends on it: with a = 1,
    as the equations are printed, a wide space diverges and a narrow one does not learn. So distances are measured in
    units of the sigma found at the first refresh, and s means the same as Magnet's scaling. The network may stretch the
    space later on.
    """

    unit: Tensor  # () sigma^2; 0 until it is fixed

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self.register_buffer("unit", torch.zeros(()))

    def fix_unit(self, variance: Tensor) -> None:
        """Take ``variance`` () as sigma^2, unless one was taken before."""
        if not bool(self.unit > 0):
            self.unit.copy_(variance)

    @property
    def scaling(self) -> float:
        """s."""
        return self.options.scaling

    @property
    def variance(self) -> Tensor:
        """sigma^2; 1/2, which gives a = s, until it is fixed."""
        return torch.where(self.unit > 0, self.unit, 0.5)

    @property
    def factor(self) -> Tensor:
        """a."""
        return self.scaling / (2 * self.variance)


class NCA(FixedUnit, ClusterMethod):
    """NCA with the sums over a batch, which is a neighbourhood of the index as for Magnet.

    A batch of the nearest neighbours of one example would hold hardly any example of its class; here each cluster gives
    D examples. An example that is drawn twice from a small cluster counts as two.
    """

    uses: ClassVar[frozenset[str]] = frozenset({"scaling", "clusters_per_class"})
    classifier: ClassVar[Classifier] = "knn"

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """Draw from the clusters of the current space; at the first refresh, fix the unit at their variance."""
        super().refresh(representations, index)
        assert index is not None
        self.fix_unit(index.variance)

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """The stochastic NCA objective."""
        per_example = nca_loss(network(batch.inputs), batch.labels, self.factor)
        return MethodLoss(per_example.mean(), per_example.detach())


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
    """Cluster-NCA on the batches of Magnet. It has no hinge and no gap: the loss never reaches zero."""

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
