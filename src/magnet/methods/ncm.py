"""Nearest class mean (NCM) and nearest class multiple centroids (NCMC), section 3.4.

Centroids are means of inputs, computed once; the network maps them together with each batch.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from magnet.index import ClusterIndex
from magnet.methods.base import Batch, Classifier, MeanInputs, MethodLoss, Network, Options, Setting
from magnet.methods.nca import FixedUnit, centred_squared_distances
from magnet.neighbours import at_least_float32


def centroid_logits(
    representations: Tensor, centroids: Tensor, centroid_labels: Tensor, classes: int, factor: Tensor | float = 1.0
) -> Tensor:
    """``log sum_k exp(-a |r - m_k^c|^2)`` of each class c; softmax over c gives p(c | r) of NCM and NCMC.

    Args:
        representations: (n, d) f(x).
        centroids: (J, d) m = f(mu), the centroids of the inputs under the same map.
        centroid_labels: (J,) their classes; NCM has one of each.
        classes: C.
        factor: a, which sets the unit of length.

    Returns:
        (n, C), -inf for a class without centroids.

    Examples:
        >>> centroid_logits(torch.tensor([[1.0]]), torch.tensor([[0.0], [3.0]]), torch.tensor([0, 1]), 2, 1.0)
        tensor([[-1., -4.]])
    """
    scores = -factor * centred_squared_distances(representations, centroids)
    column = centroid_labels.expand_as(scores)
    # Each class is summed relative to its own nearest centroid, so that none underflows.
    nearest = torch.full((len(scores), classes), -torch.inf, dtype=scores.dtype, device=scores.device)
    nearest = nearest.scatter_reduce(1, column, scores.detach(), "amax")
    relative = (scores - nearest.gather(1, column)).exp()
    return nearest + torch.zeros_like(nearest).scatter_add(1, column, relative).log()


def variance_within(representations: Tensor, labels: Tensor) -> Tensor:
    """``sum |r - mean of its class|^2 / (N - 1)``: () from (N, d) and (N,)."""
    r = at_least_float32(representations)
    _, own, sizes = torch.unique(labels.to(r.device), return_inverse=True, return_counts=True)
    means = r.new_zeros(len(sizes), r.shape[1]).index_add(0, own, r) / sizes[:, None]
    total: Tensor = (r - means[own]).square().sum()
    return total / max(len(r) - 1, 1)


class NCM(FixedUnit):
    """Nearest class mean: -log softmax_y(-a |f(x) - f(mu_c)|^2), for a linear f or a deep one.

    All centroids go through the network in the same pass as the batch, so that both see the same normalisation.
    """

    reads_inputs: ClassVar[bool] = True
    uses: ClassVar[frozenset[str]] = frozenset({"scaling"})
    classifier: ClassVar[Classifier] = "head"

    centroids: Tensor  # (J, ...) in the space of the inputs, fixed before training
    centroid_labels: Tensor  # (J,)
    mapped: Tensor  # (J, d) under the network last seen

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        # Sized by `prepare`, or by a saved state.
        self.register_buffer("centroids", torch.zeros(0))
        self.register_buffer("centroid_labels", torch.zeros(0, dtype=torch.long))
        self.register_buffer("mapped", torch.zeros(0, setting.dim))
        self.register_load_state_dict_pre_hook(_take_sizes)  # type: ignore[no-untyped-call]

    def prepare(self, space: Tensor, mean_inputs: MeanInputs) -> None:
        """Fix the centroids: the mean of each class, or its K means, in the input space."""
        labels, device = self.setting.labels.to(space.device), self.centroids.device
        per_class = self.options.clusters_per_class if "clusters_per_class" in self.uses else 1
        index = ClusterIndex.fit(space, labels, per_class, seed=self.setting.seed)
        self.centroids = mean_inputs(index.assignments, len(index)).to(device)
        self.centroid_labels = index.centre_labels.to(device)

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """At the first refresh, fix the unit at the variance within classes."""
        assert representations is not None
        self.fix_unit(variance_within(representations, self.setting.labels))

    @torch.no_grad()
    def observe(self, network: Network) -> None:
        """Map the centroids for `logits`."""
        self.mapped = torch.cat([network(some) for some in self.centroids.split(256)])

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """``-log p(c | r)`` of the true class."""
        outputs = network(torch.cat([batch.inputs, self.centroids.to(batch.inputs)]))
        r, mapped = outputs.split([len(batch.inputs), len(self.centroids)])
        per_example = functional.cross_entropy(self._scores(r, mapped), batch.labels, reduction="none")
        return MethodLoss(per_example.mean(), per_example.detach())

    def logits(self, representations: Tensor) -> Tensor | None:
        """The scores (n, C) of the classes by the centroids last observed; None before that."""
        return self._scores(representations, self.mapped) if len(self.mapped) else None

    def _scores(self, r: Tensor, mapped: Tensor) -> Tensor:
        return centroid_logits(r, mapped, self.centroid_labels, self.setting.classes, self.factor)


class NCMC(NCM):
    """Nearest class multiple centroids: K of them for each class."""

    uses: ClassVar[frozenset[str]] = frozenset({"scaling", "clusters_per_class"})


def _take_sizes(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Resize the buffers to those of a saved state, which has its own number of centroids."""
    for name, buffer in list(module.named_buffers(recurse=False)):
        if (saved := state.get(prefix + name)) is not None:
            setattr(module, name, torch.empty_like(saved, device=buffer.device))
