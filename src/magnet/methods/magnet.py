"""Magnet: local neighbourhoods of clusters, separated from impostors (section 3)."""

from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from magnet.clustering import distinct
from magnet.index import ClusterIndex
from magnet.methods.base import Batch, Method, MethodLoss, Network, Options, Setting
from magnet.objective import MagnetLoss, magnet_objective
from magnet.sampler import LARGEST_LOSS, NeighbourhoodSampler


class ClusterMethod(Method):
    """A method whose batches are neighbourhoods of clusters of the current index."""

    wants_index: ClassVar[bool] = True
    sampler_class: ClassVar[type[NeighbourhoodSampler]] = NeighbourhoodSampler

    @cached_property
    def sampler(self) -> NeighbourhoodSampler:
        """Neighbourhoods of clusters of the current index."""
        setting, options = self.setting, self.options
        # Before the first refresh there are no representations: every class is one cluster, and all centres are zero.
        classes, assignments, _ = distinct(setting.labels)
        index = ClusterIndex(torch.zeros(len(classes), 1), classes, assignments, torch.ones(()))
        return self.sampler_class(
            index,
            clusters_per_batch=options.clusters_per_batch,
            examples_per_cluster=options.examples_per_cluster,
            seed=setting.seed,
            rank=setting.rank,
            world_size=setting.world_size,
        )

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """Draw from the clusters of the current space."""
        assert index is not None
        self.sampler.refresh(index)

    def clusters(self, indices: Tensor) -> Tensor:
        """The clusters (B,) that the batch was drawn from."""
        return self.sampler.clusters(indices)


class Magnet(ClusterMethod):
    """Magnet (section 3): the loss of `magnet.objective` on neighbourhoods of clusters, labels by kNC."""

    uses: ClassVar[frozenset[str]] = frozenset({"alpha", "scaling", "own_mean", "losses", "clusters_per_class"})

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self.objective = MagnetLoss(options.alpha, options.scaling, options.own_mean)

    @property
    def wants_representations(self) -> bool:
        """Whether the losses of all examples are computed at a refresh."""
        return self.options.losses == "refreshed"

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """Draw from the clusters of the current space; if so configured, by the current losses of all examples.

        These are the losses of the full objective (equation 4). So a cluster whose examples had no loss when they were
        last drawn is drawn again once they have one.
        """
        super().refresh(representations, index)
        if representations is not None and index is not None and self.wants_representations:
            alpha, scaling = self.options.alpha, self.options.scaling
            losses = magnet_objective(
                representations, index.assignments, index.centres, index.centre_labels, alpha=alpha, scaling=scaling
            ).per_example
            self.sampler.update(torch.arange(len(losses)), losses.clamp_max(LARGEST_LOSS / 2))

    @property
    def scaling(self) -> float:
        """The factor in the objective."""
        return self.options.scaling

    @property
    def variance(self) -> Tensor | None:
        """The running average of the batch variances."""
        return self.objective.variance

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """The stochastic Magnet objective."""
        output = self.objective(network(batch.inputs), batch.clusters, batch.labels)
        return MethodLoss(output.loss, output.per_example.detach(), output.variance.detach())
