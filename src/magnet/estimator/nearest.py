"""kNC by itself: clusters of every class in the given space, and their soft votes."""

from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from magnet.classify import novelty_left_out
from magnet.estimator.base import ClusterClassifier, novelty_threshold
from magnet.votes import CLUSTERS, cluster, hold_out


class NearestClustersClassifier(ClusterClassifier):
    """k-nearest-cluster classification without any training: K-means in every class, and soft votes (section 3.3).

    Class c gets the votes ``sum_j n_j exp(-scaling |x - mu_j|^2 / (2 sigma^2))`` of its clusters among the nearest
    ones, each with the weight n_j of its members. Distances are taken in the space given: scale the features first
    where their units differ.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Clusters of a class of mean size; larger classes have more and smaller ones fewer, in proportion, of four
        examples or more each. 1: one for every class. "auto": as many of 1, 2, 4, 8, 16 as go on lowering the log-loss
        of the held-out part; 4 if there is none.
    scaling : float or "auto", default="auto"
        Of the votes; "auto": the one with the least log-loss on the held-out part; the number of features, at most 10,
        if there is none.
    neighbours : int, default=128
        The nearest clusters that vote.
    class_weight : None, "balanced" or dict {label: weight}, default=None
        The weight of an example of each class, in the votes of its cluster.
    validation_fraction : float, default=0.1
        The share of each class that is held out to choose the above and the threshold of `is_novel`, in up to three
        folds while that makes less than 500 examples; with less than 30 nothing is held out. In the end all examples
        are clustered.
    refusal_rate : float, default=0.05
        The share of known inputs that `is_novel` may refuse.
    random_state : int, RandomState instance or None, default=None
        Seed of the clustering and of the held-out part.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The labels, in ascending order.
    centres_, centre_labels_, centre_counts_ : ndarrays of shape (J, n_features), (J,) and (J,)
        The clusters, their classes and their numbers of members.
    variance_ : float
        ``sum |x - mu(x)|^2 / (N - 1)``.
    n_clusters_, scaling_ : int, float
        As given or chosen.
    class_weight_ : ndarray of shape (C,)
        The weight of an example of each class.
    novelty_threshold_ : float
        In units of sigma.

    Examples
    --------
    One mean for each class, then as many clusters as the data ask for:

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=300, stratify=y, random_state=0)
    >>> means = NearestClustersClassifier(n_clusters=1, random_state=0).fit(X_train, y_train)
    >>> print(f"{means.score(X_test, y_test):.2f}")
    0.89
    >>> clusters = NearestClustersClassifier(random_state=0).fit(X_train, y_train)
    >>> print(f"{clusters.score(X_test, y_test):.2f}")
    0.95
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
            parts, held = folds.vectors
            candidates = CLUSTERS if self.n_clusters == "auto" else [self.n_clusters]
            self.n_clusters_, best = folds.choose_clusters(candidates)
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
