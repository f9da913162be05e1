"""Labels from representations: soft votes of the nearest clusters (kNC) or of the nearest examples (soft kNN).

Both give class c the share of the L nearest references of that class, each weighted by its similarity,

    p(c | r) = sum_{l : C(mu_l) = c} exp(-s |r - mu_l|^2 / (2 sigma^2)) / sum_l exp(-s |r - mu_l|^2 / (2 sigma^2))

(section 3.3); they differ in what the references are.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from magnet.checks import check_ids, check_positive, check_representations, check_variance
from magnet.index import ClusterIndex
from magnet.neighbours import nearest_of_chunk, split_rows

TALLY_ELEMENTS = 2**22  # votes for classes that are held at a time


class SoftNeighbours:
    """Soft k-nearest-neighbour classification.

    Args:
        representations: (N, d) references.
        labels: (N,) their classes.
        neighbours: L, how many nearest references vote; all of them where there are fewer.
        variance: sigma^2, the lengthscale of the votes.
        scaling: the factor on normalised squared distances that the representations were trained with.

    Attributes:
        classes: (C,) the labels in ascending order, those of the columns of `predict_proba`.
    """

    def __init__(
        self,
        representations: Tensor,
        labels: Tensor,
        neighbours: int = 128,
        *,
        variance: Tensor | float,
        scaling: float = 1.0,
    ) -> None:
        check_representations(representations, whole=True)
        check_ids(labels, len(representations), "labels")
        check_positive(neighbours, "neighbours")
        check_positive(scaling, "scaling")
        check_variance(variance)
        self.references = representations if representations.dtype == torch.float64 else representations.float()
        self.classes, self._columns = torch.unique(labels, return_inverse=True)
        self.neighbours = min(neighbours, len(representations))
        self.variance, self.scaling = float(variance), scaling

    def nearest(self, representations: Tensor) -> tuple[Tensor, Tensor]:
        """Similarity (n, L), which sums to one, and id (n, L) of the nearest references, nearest first."""
        self._check(representations)
        parts = [self._votes(r) for r in split_rows(representations, len(self.references))]
        return torch.cat([votes for votes, _ in parts]), torch.cat([ids for _, ids in parts])

    def predict_proba(self, representations: Tensor) -> Tensor:
        """The probability of each class (n, C); rows sum to one."""
        self._check(representations)
        return torch.cat(list(self._tallies(representations)))

    def predict(self, representations: Tensor) -> Tensor:
        """The most probable label of each row (n,)."""
        self._check(representations)
        best = [tally.argmax(dim=1) for tally in self._tallies(representations)]
        return self.classes.to(representations.device)[torch.cat(best)]

    def _votes(self, r: Tensor) -> tuple[Tensor, Tensor]:
        distances, ids = nearest_of_chunk(r.to(self.references.dtype), self.references, self.neighbours)
        # In double, from the nearest on and with a finite factor, so that a lengthscale far below the distances leaves
        # a hard vote and not NaN.
        factor = min(self.scaling / (2 * self.variance), torch.finfo(torch.float64).max)
        logits = (distances[:, :1] - distances).double() * factor
        return torch.softmax(logits, dim=1).to(distances.dtype), ids

    def _tallies(self, representations: Tensor) -> Iterator[Tensor]:
        """The votes for each class, (n, C) in chunks."""
        columns = self._columns.to(representations.device)
        rows = max(1, TALLY_ELEMENTS // len(self.classes))
        for r in split_rows(representations, len(self.references)):
            pairs = zip(*(part.split(rows) for part in self._votes(r)), strict=True)
            for votes, ids in pairs:
                yield votes.new_zeros(len(votes), len(self.classes)).scatter_add_(1, columns[ids], votes)

    def _check(self, representations: Tensor) -> None:
        check_representations(representations)
        if representations.shape[1] != self.references.shape[1]:
            raise ValueError(
                f"representations have {representations.shape[1]} dimensions; "
                f"the classifier was made with {self.references.shape[1]}"
            )


class NearestClusters(SoftNeighbours):
    """k-nearest-cluster classification (kNC, equation 6): the references are the centres of an index.

    Args:
        index: the clusters of the training set.
        neighbours: L, how many nearest clusters vote.
        variance: sigma^2, the running average of the batch estimates (`MagnetLoss.variance`); the index's own
            variance when not given.
        scaling: the factor used in training.
    """

    def __init__(
        self,
        index: ClusterIndex,
        neighbours: int = 128,
        *,
        variance: Tensor | float | None = None,
        scaling: float = 1.0,
    ) -> None:
        if variance is None:
            # Zero when each cluster is one point: the limit is a hard vote of the nearest cluster.
            variance = max(float(index.variance), torch.finfo(index.centres.dtype).tiny)
        super().__init__(index.centres, index.centre_labels, neighbours, variance=variance, scaling=scaling)
