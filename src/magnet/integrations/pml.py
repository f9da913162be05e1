"""Magnet among the losses of pytorch-metric-learning: for its trainers, samplers, reducers and wrappers."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler

import magnet.objective as core
from magnet.sampler import NeighbourhoodSampler

try:
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.losses import BaseMetricLossFunction
    from pytorch_metric_learning.utils import common_functions as checks
except ImportError as error:
    raise ImportError(f"this needs pytorch-metric-learning ({error}): pip install 'magnet-loss[pml]'") from error


class NeighbourhoodBatches(BatchSampler):  # by which the trainers tell batches from examples
    """A `NeighbourhoodSampler` as the ``sampler`` of a trainer, which remembers the batches on their way to the loss.

    Trainers hand a loss embeddings and labels, not the examples' indices. A DataLoader delivers batches in the order
    in which they were drawn, so the n-th batch that the loss sees is the n-th drawn here.
    """

    def __init__(self, sampler: NeighbourhoodSampler) -> None:
        self.neighbourhoods = sampler
        self.waiting: deque[list[int]] = deque()

    def __len__(self) -> int:
        return len(self.neighbourhoods)

    def __iter__(self) -> Iterator[list[int]]:
        self.waiting.clear()
        for batch in self.neighbourhoods:
            self.waiting.append(batch)
            yield batch


class MagnetLoss(BaseMetricLossFunction):
    """The Magnet objective of (embeddings, labels).

    In training mode, the clusters of a batch are those that ``batches`` drew it from, and the losses are passed back to
    it. Without ``batches``, every class of a batch is one cluster (K = 1); then any sampler that draws several examples
    of a class will do, such as ``MPerClassSampler``.

    Args:
        alpha: the gap.
        scaling: factor on the normalised squared distances.
        own_mean: "batch" or "leave-one-out".
        batches: the trainer's ``sampler``, if batches are to be neighbourhoods.
        options: ``reducer``, ``distance`` (Euclidean; normalising if you say so) and others of the library.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        scaling: float = 1.0,
        own_mean: core.OwnMean = "batch",
        *,
        batches: NeighbourhoodBatches | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        checks.assert_distance_type(self, LpDistance, p=2, power=2)
        self.objective = core.MagnetLoss(alpha, scaling, own_mean)
        self.batches = batches

    @property
    def variance(self) -> Tensor | None:
        """The running variance, for `NearestClusters`."""
        return self.objective.variance

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, indices_tuple: Any, ref_emb: Any, ref_labels: Any
    ) -> dict[str, dict[str, Any]]:
        """One loss for each example; the reducer makes a scalar of them."""
        checks.labels_required(labels)
        checks.ref_not_supported(embeddings, labels, ref_emb, ref_labels)
        checks.indices_tuple_not_supported(indices_tuple)
        drawn = self._drawn(len(embeddings)) if self.training else []
        clusters = labels
        if drawn and self.batches:
            clusters = self.batches.neighbourhoods.clusters(drawn).to(labels.device)
        output = self.objective(self.distance.maybe_normalize(embeddings), clusters, labels)
        if drawn and self.batches:
            self.batches.neighbourhoods.update(drawn, output.per_example)
        places = torch.arange(len(embeddings), device=embeddings.device)
        return {"loss": {"losses": output.per_example, "indices": places, "reduction_type": "element"}}

    def get_default_distance(self) -> LpDistance:
        """The squared Euclidean distance without normalisation: the objective is invariant to scale."""
        return LpDistance(normalize_embeddings=False, p=2, power=2)

    def _drawn(self, count: int) -> list[int]:
        """The examples of the current batch; empty without ``batches``."""
        if self.batches is None:
            return []
        drawn = self.batches.waiting.popleft() if self.batches.waiting else []
        if len(drawn) != count:
            raise ValueError(
                f"the loss got {count} embeddings, but the batch drawn next has {len(drawn)} examples: give the "
                "trainer the same NeighbourhoodBatches as its sampler, and no subset_batch_miner"
            )
        return drawn
