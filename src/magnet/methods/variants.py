"""Magnet with one of its design choices changed, for the ablations: what each choice is worth.

``magnet/uniform-seeds``: seed clusters are drawn uniformly, not by their loss. ``magnet/random-clusters``: a seed is
met by random clusters of other classes, not by its nearest ones. ``magnet/cached-representations``: the index is fitted
to the representations that examples had when they were last in a batch, each of another age, not to a fresh pass.
``magnet/adaptive-clusters``: every class has its own K, found anew at each refresh.
"""

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from magnet.clustering import kmeans_per_class
from magnet.errors import UserError
from magnet.index import ClusterIndex
from magnet.methods.base import Batch, MethodLoss, Network, Options, Setting, generator
from magnet.methods.magnet import Magnet
from magnet.sampler import NeighbourhoodSampler


class _EqualLosses(NeighbourhoodSampler):
    """A sampler that takes every loss for 1, so that all clusters weigh the same."""

    def update(self, indices: Tensor | Sequence[int], losses: Tensor | Sequence[float]) -> None:
        """Note that the examples were seen, whatever their losses."""
        super().update(indices, torch.ones(len(losses)))


class UniformSeeds(Magnet):
    """All clusters are as likely to be the seed."""

    sampler_class = _EqualLosses


class CachedRepresentations(Magnet):
    """The index sees every example as it was when it was last in a batch."""

    seen: Tensor  # (N, d), saved with the weights

    def __init__(self, setting: Setting, options: Options) -> None:
        if setting.world_size > 1:
            raise UserError(
                f"magnet/cached-representations sees the batches of its own process only, found {setting.world_size} "
                "processes: train it with one"
            )
        super().__init__(setting, options)
        self.register_buffer("seen", torch.full((len(setting.labels), setting.dim), torch.nan))
        self._examples = torch.zeros(0, dtype=torch.long)  # (B,) of the batch at hand

    def clusters(self, indices: Tensor) -> Tensor:
        """The clusters of Magnet; notes which examples are in the batch."""
        self._examples = indices
        return super().clusters(indices)

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """The loss of Magnet; notes the representations of the batch."""

        def watched(inputs: Tensor) -> Tensor:
            found = network(inputs)
            self.seen[self._examples] = found.detach().to(self.seen)
            return found

        return super().loss(watched, batch)

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """Fit an index to the cache; before an example was seen it stands at the centre of its first cluster."""
        assert index is not None
        seen = self.seen.cpu()
        unseen = seen[:, 0].isnan()
        if bool(unseen.any()):
            seen[unseen] = index.centres[index.assignments[unseen]].float()
            self.seen.copy_(seen)
        labels, options = self.setting.labels, self.options
        super().refresh(None, ClusterIndex.fit(seen, labels, options.clusters_per_class, seed=self.setting.seed))


class _RandomNeighbours(ClusterIndex):
    """An index that calls random clusters of other classes the nearest."""

    def nearest_impostors(self, m: int, clusters: Tensor | None = None, *, exact: bool = True) -> Tensor:
        """Random ids (J, m) of clusters of other classes, -1 where there are too few; the same for the same index."""
        source = generator(zlib.crc32(self.assignments.cpu().numpy().tobytes()), 0, 0)
        order = torch.rand(len(self), len(self), generator=source)
        order[self.centre_labels[:, None].cpu() == self.centre_labels[None, :].cpu()] = 2.0
        values, ids = order.sort(dim=1)
        found = torch.where(values < 2.0, ids, -1)[:, :m]
        return found if clusters is None else found[clusters]


class RandomClusters(Magnet):
    """Neighbourhoods of clusters that are no neighbours; drawn anew at every refresh."""

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """Draw from the clusters of the current space."""
        assert index is not None
        parts = (index.centres, index.centre_labels, index.assignments, index.variance, index.iterations)
        super().refresh(None, _RandomNeighbours(*parts))


class AdaptiveClusters(Magnet):
    """K of every class is found anew at each refresh, by the cost of DP-means (Kulis and Jordan, 2012).

    A class has the K of `CANDIDATES` with the least ``sum |r - mu|^2 + (threshold sigma)^2 K``, where sigma^2 is the
    variance of the run's index: a further cluster must take away more than it costs.
    """

    CANDIDATES = (1, 2, 4, 8, 16)
    threshold = 2.0

    @property
    def wants_representations(self) -> bool:
        """Always: clusters are fitted to them."""
        return True

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """Draw from clusters of the current space, as many of each class as pay."""
        assert representations is not None
        assert index is not None
        labels, seed = self.setting.labels, self.setting.seed
        price = self.threshold**2 * float(index.variance)
        costs = []
        for candidate in self.CANDIDATES:
            found = kmeans_per_class(representations, labels, candidate, seed=seed)
            own = (representations - found.centres[found.assignments]).square().sum(dim=1)
            inertia = torch.zeros(int(labels.max()) + 1).index_add_(0, labels, own.float())
            costs.append(inertia + price * torch.bincount(found.centre_labels, minlength=len(inertia)))
        best = torch.stack(costs).argmin(dim=0)
        wanted = {label: self.CANDIDATES[int(best[label])] for label in labels.unique().tolist()}
        super().refresh(None, ClusterIndex.fit(representations, labels, wanted, seed=seed))
