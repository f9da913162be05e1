"""kNC by itself: clusters of every class in the given space, and their soft votes."""

from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from magnet.classify import novelty_left_out
from magnet.estimator.base import ClusterClassifier, novelty_threshold
from magnet.start import CLUSTERS, choose_clusters, cluster, hold_out


class NearestClustersClassifier(ClusterClassifier):
    """k-nearest-cluster classification without any training: K-means in every class, and soft votes (section 3.3).

    Class c gets the votes ``sum_j n_j exp(-scaling |x - mu_j|^2 / (2 sigma^2))`` of its clusters among the nearest
    ones, each with the weight n_j of its members. Distances are taken in the space given: scale the features first
    where their units differ.

    Args:
        n_clusters: clusters for each class (fewer in a class with less than four examples for each), or "auto": as
            many of 1, 2, 4, 8, 16 as go on lowering the log-loss of the held-out part; 4 if there is none.
        scaling: of the votes, or "auto": the one with the least log-loss on the held-out part; the number of
            features, at most 10, if there is none.
        neighbours: the nearest clusters that vote.
        class_weight: None, "balanced" or {label: weight}: a cluster weighs as if each of its examples were there that
            many times.
        validation_fraction: the share of each class that is held out to choose the above and the threshold of
            `is_novel`, in up to three folds while that makes less than 500 examples; with less than 30 nothing is
            held out. In the end all examples are clustered.
        refusal_rate: the share of known inputs that `is_novel` may refuse.
        random_state: seed of the clustering and of the held-out part.

    Attributes:
        classes_: (C,) labels.
        centres_, centre_labels_, centre_counts_: (J, n_features), (J,) and (J,): the clusters.
        variance_: ``sum |x - mu(x)|^2 / (N - 1)``.
        n_clusters_, scaling_: as given or chosen.
        class_weight_: (C,).
        novelty_threshold_: in units of sigma.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> NearestClustersClassifier(random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.93
    True
    """

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = "auto",
        *,
        scaling: float | Literal["auto"] = "auto",
        neighbours: int = 128,
        class_weight: Any = None,
        validation_fraction: float = 0.1,
        refusal_rate: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.scaling = scaling
        self.neighbours = neighbours
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.refusal_rate = refusal_rate
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Cluster the classes of X (n, n_features) with labels y (n,)."""
        self._check_parameters()
        data = self._validate(X, y)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        folds = hold_out(data, self.validation_fraction, torch.tensor(self.class_weight_), self.neighbours, seed)
        if folds is None:
            self.n_clusters_ = 4 if self.n_clusters == "auto" else self.n_clusters
            self.scaling_ = float(min(10, data.x.shape[1]) if self.scaling == "auto" else self.scaling)
        else:
            parts, held = [[each.x for each in group] for group in (folds.parts, folds.held)]
            candidates = CLUSTERS if self.n_clusters == "auto" else [self.n_clusters]
            self.n_clusters_, best = choose_clusters(folds, parts, held, candidates)
            self.scaling_ = float(best if self.scaling == "auto" else self.scaling)
            apart = folds.cluster(parts, self.n_clusters_)
            self.novelty_threshold_ = novelty_threshold(apart, held, self.refusal_rate)
        index = cluster(data.x, data.labels, self.n_clusters_, seed)
        if folds is None:
            self.novelty_threshold_ = float(novelty_left_out(data.x, index).quantile(1 - self.refusal_rate))
        self._keep_clusters(self.classes_, index)
        return self

    def _embed(self, X: NDArray[Any]) -> Tensor:
        return torch.tensor(X, dtype=torch.float64)
