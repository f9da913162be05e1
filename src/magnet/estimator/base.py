"""What both estimators share: labels, probabilities and refusals from weighted clusters, and their growth."""

import os
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from magnet.classify import NearestClusters, novelty
from magnet.errors import UserError
from magnet.estimator import growing, saving
from magnet.estimator.checking import checked_targets
from magnet.index import ClusterIndex
from magnet.start import Examples, cluster_weights


class ClusterClassifier(ClassifierMixin, BaseEstimator):
    """k-nearest-cluster classification by learnt clusters.

    A subclass sets ``classes_``, ``centres_``, ``centre_labels_``, ``centre_counts_``, ``class_weight_``,
    ``variance_``, ``scaling_`` and ``novelty_threshold_``, and maps inputs to representations in ``_embed``. It may
    also set ``centre_shifts_``, by which the centres that vote differ from the means of their members.
    """

    neighbours: int
    class_weight: Any
    n_clusters_: int
    scaling_: float
    novelty_threshold_: float
    centre_shifts_: NDArray[Any]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable label (n,) of each row of X (n, n_features)."""
        best = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """The probability (n, n_classes) of each class, in the order of ``classes_``."""
        representations = self._represent(X)
        return self._votes().predict_proba(representations).numpy()

    def predict_log_proba(self, X: ArrayLike) -> NDArray[Any]:
        """The logarithm of `predict_proba`, finite."""
        return np.log(self.predict_proba(X).clip(np.finfo(float).tiny))

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Log-probabilities (n, n_classes); for two classes the log-odds (n,) of the second."""
        logs = self.predict_log_proba(X)
        return logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs

    def novelty(self, X: ArrayLike) -> NDArray[Any]:
        """The distance (n,) to the nearest cluster, in units of sigma."""
        representations = self._represent(X)
        return novelty(representations, torch.tensor(self.centres_), self.variance_).numpy()

    def is_novel(self, X: ArrayLike) -> NDArray[Any]:
        """Whether each row (n,) lies beyond ``novelty_threshold_`` and should rather be refused than labelled."""
        return self.novelty(X) > self.novelty_threshold_

    def extend(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Let new examples, of known classes or of new ones, join the index; the map stays as it is.

        An example within the novelty threshold of a cluster of its own class joins that cluster, which moves to the
        mean of all its members. All others make new clusters of their class.
        """
        check_is_fitted(self)
        inputs, labels = validate_data(self, X, y, reset=False, dtype=(np.float64, np.float32))
        labels = checked_targets(labels)
        classes = growing.joined_classes(self.classes_, labels)
        counts, centres, owners = growing.grow(
            self._embed(inputs),
            np.searchsorted(classes, labels),
            centres=self.centres_,
            owners=np.searchsorted(classes, self.centre_labels_),
            counts=self.centre_counts_,
            reach=self.novelty_threshold_ * self.variance_**0.5,
            n_clusters=self.n_clusters_,
        )
        shifts = np.zeros_like(centres)  # new clusters vote where they lie
        shifts[: len(self.centre_shifts_)] = self.centre_shifts_
        self._keep_clusters(classes, centres, owners, counts, shifts)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator as one safetensors file without pickle, whole or not at all.

        Labels may be strings, integers, floats or booleans. A ``random_state`` that is a generator is not kept.
        """
        check_is_fitted(self)
        saving.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator written by `save`; nothing in the file is executed."""
        return saving.load(cls, path)

    def _embed(self, X: NDArray[Any]) -> Tensor:
        """Representations (n, k) float64 of validated rows (n, n_features)."""
        raise NotImplementedError

    def _represent(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return self._embed(validate_data(self, X, reset=False, dtype=(np.float64, np.float32)))

    def _votes(self) -> NearestClusters:
        columns = torch.tensor(np.searchsorted(self.classes_, self.centre_labels_))
        counts = torch.tensor(self.centre_counts_)
        centres = torch.tensor(self.centres_ + self.centre_shifts_)
        index = ClusterIndex(
            centres, columns, torch.arange(len(centres)), torch.tensor(self.variance_, dtype=torch.float64)
        )
        return NearestClusters(
            index,
            self.neighbours,
            scaling=self.scaling_,
            weights=cluster_weights(counts, columns, torch.tensor(self.class_weight_)),
        )

    def _validate(self, X: ArrayLike, y: ArrayLike, *, reset: bool = True) -> Examples:
        """Check X and y, set ``classes_`` and ``class_weight_``, and give the data with labels 0..C-1."""
        X, y = validate_data(self, X, y, reset=reset, dtype=(np.float64, np.float32))
        y = checked_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise UserError(
                f"y holds one class only ({self.classes_[0]!r}); a classifier needs examples of two classes or more"
            )
        self.class_weight_ = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        return Examples(torch.tensor(X, dtype=torch.float64), torch.tensor(labels, dtype=torch.long))

    def _keep_index(self, index: ClusterIndex, voting: Tensor | None = None) -> None:
        """Take over the clusters of an index with labels 0..C-1; ``voting`` (J, k): refined centres, if there are."""
        self.variance_ = float(index.variance)
        shifts = torch.zeros_like(index.centres) if voting is None else voting - index.centres
        self._keep_clusters(
            self.classes_,
            index.centres.numpy(),
            index.centre_labels.numpy(),
            index.sizes.numpy(),
            shifts.numpy(),
        )

    def _keep_clusters(
        self,
        classes: NDArray[Any],
        centres: NDArray[Any],
        owners: NDArray[Any],
        counts: NDArray[Any],
        shifts: NDArray[Any],
    ) -> None:
        self.classes_, self.centres_, self.centre_counts_, self.centre_shifts_ = classes, centres, counts, shifts
        self.centre_labels_ = classes[owners]
        examples = np.repeat(self.centre_labels_, counts)
        self.class_weight_ = compute_class_weight(self.class_weight, classes=classes, y=examples)


def novelty_threshold(indexes: Iterable[ClusterIndex], held: Iterable[Tensor], rate: float) -> float:
    """The novelty that a share ``rate`` of the held-out representations exceeds."""
    far = [novelty(r, index.centres, float(index.variance)) for index, r in zip(indexes, held, strict=True)]
    return float(torch.cat(far).quantile(1 - rate))
