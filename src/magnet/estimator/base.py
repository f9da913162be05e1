"""What both estimators share: labels, probabilities and novelty by weighted clusters, and adding examples to them."""

import os
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from magnet.classify import NearestClusters, novelty
from magnet.errors import UserError
from magnet.estimator import saving
from magnet.index import ClusterIndex
from magnet.neighbours import SIZES, as_array
from magnet.votes import LEAST_MEMBERS, Examples, cluster_weights

AUTO = StrOptions({"auto"})
FRACTION = Interval(Real, 0, 1, closed="left")


def whole(least: int) -> Interval:
    """The whole numbers from ``least`` on, as a constraint on a parameter."""
    return Interval(Integral, least, None, closed="left")


class ClusterClassifier(ClassifierMixin, BaseEstimator):
    """k-nearest-cluster classification by learnt clusters.

    A subclass sets ``classes_``, ``centres_``, ``centre_labels_``, ``centre_counts_``, ``class_weight_``,
    ``variance_``, ``scaling_`` and ``novelty_threshold_``, and maps inputs to representations in ``_embed``. It may
    also set ``centre_shifts_``, by which the centres that vote differ from the means of their members.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [AUTO, whole(1)],
        "scaling": [AUTO, Interval(Real, 0, None, closed="neither")],
        "neighbours": [whole(1)],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "validation_fraction": [FRACTION],
        "refusal_rate": [FRACTION],
        "random_state": ["random_state"],
    }

    _rounding: ClassVar[float] = 0.0  # a feature that varies by less, of its largest value, counts as constant

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
        found: NDArray[Any] = np.log(self.predict_proba(X).clip(np.finfo(float).tiny))
        return found

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Log-probabilities (n, n_classes); for two classes the log-odds (n,) of the second."""
        logs = self.predict_log_proba(X)
        return logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs

    def novelty(self, X: ArrayLike) -> NDArray[Any]:
        """The distance (n,) of each row to the nearest centre, in units of sigma."""
        representations = self._represent(X)
        return novelty(representations, torch.tensor(self.centres_), self.variance_).numpy()

    def is_novel(self, X: ArrayLike) -> NDArray[Any]:
        """Whether the `novelty` (n,) of each row exceeds ``novelty_threshold_``: its label is not to be trusted."""
        return self.novelty(X) > self.novelty_threshold_

    def extend(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Add examples of known or new classes to the clusters, without training the map again.

        An example within the novelty threshold of a cluster of its own class joins that cluster, which moves to the
        mean of all its members. All others make new clusters of their class.
        """
        check_is_fitted(self)
        inputs, labels = validate_data(
            self, as_array(X, "X"), as_array(y, "y"), reset=False, dtype=(np.float64, np.float32)
        )
        labels = _checked_targets(labels)
        classes = _joined_classes(self.classes_, labels)
        counts = torch.tensor(self.centre_counts_)
        index = ClusterIndex(
            torch.tensor(self.centres_),
            torch.tensor(np.searchsorted(classes, self.centre_labels_)),
            torch.arange(len(counts)).repeat_interleave(counts),
            torch.tensor(self.variance_, dtype=torch.float64),
        ).grown(
            self._embed(inputs),
            torch.tensor(np.searchsorted(classes, labels)),
            reach=self.novelty_threshold_ * self.variance_**0.5,
            clusters_per_class=self.n_clusters_,
            examples_per_cluster=LEAST_MEMBERS,
        )
        shifts = np.zeros_like(index.centres.numpy())  # new clusters vote where they lie
        shifts[: len(self.centre_shifts_)] = self.centre_shifts_
        self._keep_clusters(classes, index, shifts)
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
        return saving.load_estimator(cls, path)

    def _embed(self, X: NDArray[Any]) -> Tensor:
        """Representations (n, k) float64 of validated rows (n, n_features)."""
        raise NotImplementedError

    def _represent(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return self._embed(validate_data(self, as_array(X, "X"), reset=False, dtype=(np.float64, np.float32)))

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

    def _check_parameters(self) -> None:
        """Raise an error for a parameter that ``_parameter_constraints`` do not allow."""
        self._validate_params()
        for name, value in self.get_params(deep=False).items():  # scikit-learn takes True for 1
            if isinstance(value, bool) and "boolean" not in self._parameter_constraints[name]:
                raise UserError(f"The {name!r} parameter of {type(self).__name__} must not be a boolean. Got {value}.")

    def _validate(self, X: ArrayLike, y: ArrayLike, *, reset: bool = True) -> Examples:
        """Check X and y, set ``classes_`` and ``class_weight_``, and return the examples with labels 0..C-1."""
        X, y = validate_data(self, as_array(X, "X"), as_array(y, "y"), reset=reset, dtype=(np.float64, np.float32))
        y = _checked_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise UserError(
                f"y holds one class only ({self.classes_[0]!r}); a classifier needs examples of two classes or more"
            )
        self.class_weight_ = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        x = torch.tensor(X, dtype=torch.float64)
        _check_values(x, self._rounding)
        return Examples(x, torch.tensor(labels, dtype=torch.long))

    def _keep_clusters(self, classes: NDArray[Any], index: ClusterIndex, shifts: NDArray[Any] | None = None) -> None:
        """Take over the clusters of an index with labels 0..C-1; ``shifts`` (J, k) move the centres that vote."""
        self.classes_, self.centres_, self.centre_counts_ = classes, index.centres.numpy(), index.sizes.numpy()
        self.centre_labels_ = classes[index.centre_labels.numpy()]
        self.centre_shifts_ = np.zeros_like(self.centres_) if shifts is None else shifts
        self.variance_ = float(index.variance)
        examples = np.repeat(self.centre_labels_, self.centre_counts_)
        self.class_weight_ = compute_class_weight(self.class_weight, classes=classes, y=examples)


def novelty_threshold(indexes: Iterable[ClusterIndex], held: Iterable[Tensor], rate: float) -> float:
    """The novelty that a share ``rate`` of the held-out representations exceeds."""
    far = [novelty(r, index.centres, float(index.variance)) for index, r in zip(indexes, held, strict=True)]
    return float(torch.cat(far).quantile(1 - rate))


def _check_values(x: Tensor, rounding: float) -> None:
    """Refuse inputs (n, d) whose squares overflow, and inputs that are all the same."""
    least, most = x.aminmax(dim=0)
    size = torch.maximum(least.abs(), most.abs())
    largest = SIZES[torch.float64][1]
    if float(size.max()) > largest:
        raise UserError(f"X holds {float(size.max()):.3g}, whose squares overflow: divide it by a constant")
    if not bool((most - least > rounding * size).any()):
        but = f": no feature varies by more than {rounding:g} of its largest value" if rounding else ""
        raise UserError(
            f"all {len(x)} rows of X are the same{but}: nothing can be learnt. If they differ where they come from, "
            "subtract the mean of each feature there, before it is rounded"
        )


def _checked_targets(y: Any) -> NDArray[Any]:
    """Check that labels (n,) are of classes and can be sorted; objects may be strings, integers or booleans."""
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    # scikit-learn knows objects as strings only; integers among them are just as good.
    mixed = labels.dtype == object and all(isinstance(label, Integral) for label in labels)
    plain = np.asarray(labels.tolist()) if mixed else labels
    check_classification_targets(plain)
    return labels


def _joined_classes(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """All labels of ``classes`` and ``y`` in ascending order."""
    if _family(classes) != _family(y):
        raise UserError(f"the new labels are {y.dtype}, those fitted are {classes.dtype}: give labels of the same type")
    try:
        # Text of two lengths or kinds is joined as objects, so that nothing is cut.
        kind = object if object in (classes.dtype, y.dtype) else None
        joined: NDArray[Any] = np.unique(np.concatenate([classes, y], dtype=kind))
    except TypeError as error:
        raise UserError(f"the new labels cannot be ordered among those fitted ({error})") from error
    return joined


def _family(labels: NDArray[Any]) -> str:
    if labels.dtype.kind == "U" or (labels.dtype == object and all(isinstance(label, str) for label in labels)):
        return "text"
    return "number" if labels.dtype.kind in "biuf" else labels.dtype.kind
