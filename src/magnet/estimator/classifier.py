"""MagnetClassifier: Magnet on feature vectors, with the manners of scikit-learn."""

from itertools import islice
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from magnet.classify import novelty_left_out
from magnet.errors import UserError
from magnet.estimator.base import AUTO, FRACTION, ClusterClassifier, novelty_threshold, whole
from magnet.neighbours import as_array
from magnet.recipe import Chosen, Recipe
from magnet.start import Landmarks, Start, order_directions
from magnet.votes import cluster, vote


class MagnetClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterClassifier):
    """Learns a linear map of feature vectors with the Magnet objective, and classifies by the nearest clusters.

    How it works, and how "auto" settings are chosen. A share of every class is held out (of small data several
    times, each time another share, judged together). The map starts in closed form, from a whitening of the variation
    inside clusters (see `magnet.start`); the power of the features, whether they are standardised, how much the
    covariance is shrunk and how many clusters a class has are those with the least log-loss of the votes on the
    held-out part. The map is trained on the rest, and the held-out part says after which iteration to stop, how sharp
    the votes should be so that probabilities are calibrated, whether centres are refined (moved from the means of
    their members to where they vote better), and how far from all clusters an input is novel. Then everything is done
    once more with all examples and these settings. No test data are needed, and no file is written.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Dimensions k of the representation; "auto": 512. Never more than there are features (or examples). They are in
        order, the most discriminating direction first.
    n_clusters : int or "auto", default="auto"
        Clusters of a class of mean size; larger classes have more and smaller ones fewer, in proportion, of four
        examples or more each. 1: one for every class. "auto": as many of 1, 2, 4, 8, 16 as go on lowering the held-out
        log-loss.
    scaling : float or "auto", default="auto"
        The factor on normalised squared distances in the objective; "auto": half of what suits the votes at the start.
        That of the votes is always calibrated.
    alpha : float, default=2.0
        The gap of the objective.
    shrinkage : float or "auto", default="auto"
        Of the covariance inside clusters, in [0, 1); "auto": 0.1, 0.4 or 0.7.
    standardize : bool or "auto", default="auto"
        Whether each feature is divided by its standard deviation; "auto": tried both ways.
    power : float or "auto", default="auto"
        Of the features, before anything else: 1 or, for non-negative features, any other; "auto": 1 or 1/2.
    kernel_width : float or "auto", default="auto"
        Of Gaussian kernel features, the nearness to at most 256 landmarks among the examples, for what no linear map
        tells apart; in units of the median distance between landmarks. 0: none, the map is linear. "auto": 1/2 or 1 if
        that clearly lowers the held-out log-loss, and 0 else, as it is with more than 256 features or 20,000 examples.
    unit_length : bool or "auto", default="auto"
        Whether all examples are brought to one length after the whitening, on a sphere around their mean; "auto": yes,
        unless that clearly raises the held-out log-loss, or there are fewer than 32 dimensions.
    centres : {"auto", "means", "refined"}, default="auto"
        "means" of the members vote, as in the paper, or "refined" centres (`NearestClusters.refined`); "auto": what has
        the least held-out log-loss.
    clusters_per_batch : int or "auto", default="auto"
        M, the most clusters in a neighbourhood; "auto": as many as there are classes, from 48 to 192.
    examples_per_cluster : int or "auto", default="auto"
        D, examples drawn of each cluster; "auto": 4, and up to 16 where there are few clusters.
    learning_rate : float, default=0.01
        Of SGD with momentum, at its highest.
    max_iter : int, default=10
        Passes over the data (two at a time where one is less than 25 batches), each followed by a refresh of the
        clusters.
    early_stopping : bool, default=True
        Whether to stop at the iteration with the least held-out log-loss; if nothing is held out, once the training
        loss falls no more.
    n_iter_no_change : int, default=3
        Iterations without gain after which none is expected any more.
    validation_fraction : float, default=0.2
        The share of each class held out, in up to three folds while that makes less than 500 examples. With less than
        30 nothing is held out: "auto" then means one cluster, a power of 1, a shrinkage of 0.4, standardised features,
        a scaling of k, at most 10, and means as centres.
    neighbours : int, default=128
        The nearest clusters that vote.
    class_weight : None, "balanced" or dict {label: weight}, default=None
        An example counts as if it were there that many times: in the loss, in the votes of its cluster and in the
        held-out log-loss. The start does not depend on it.
    refusal_rate : float, default=0.05
        The share of known inputs that `is_novel` may refuse.
    warm_start : bool, default=False
        Whether `fit` goes on from the map found by the last one, for ``max_iter`` iterations on all data, with the
        settings, calibration and threshold chosen then.
    random_state : int, RandomState instance or None, default=None
        Seed of the held-out part, the clustering and the batches.
    device : str or torch.device, default="cpu"
        Where training runs; the rest is done in double precision on the CPU.
    verbose : bool, default=False
        Whether to print a line after each iteration.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The labels, in ascending order.
    power_, mean_, components_ : float, ndarray of shape (n_features,), ndarray of shape (k, n_features)
        The map, ``components_ (x^power_ - mean_)``. With m landmarks the shapes are (m,) and (k, m), and the map is
        ``components_ (exp(-|landmark_weights_ (x^power_ - landmarks_)|^2) - mean_)``.
    length_, map_ : float, ndarray of shape (k, k)
        With unit length, what that map gives is brought to this length, and ``map_`` applied to it. Else 0, and (0, 0).
    landmarks_, landmark_weights_ : ndarray of shape (m, n_features), ndarray of shape (n_features,)
        Of the kernel features; m is 0 if there are none.
    centres_, centre_labels_, centre_counts_ : ndarrays of shape (J, k), (J,) and (J,)
        The clusters of the representation, their classes and their numbers of members.
    centre_shifts_ : ndarray of shape (J, k)
        What is added to the centres when they vote; zero if they are not refined.
    pull_ : float or None
        That of the refined centres (see `NearestClusters.refined`); None: means.
    variance_ : float
        sigma^2, ``sum |r - mu(r)|^2 / (N - 1)``.
    scaling_ : float
        Of the votes.
    n_clusters_, shrinkage_, kernel_width_, training_scaling_ : int, float, float, float
        As given or chosen.
    standardize_, unit_length_ : bool
        As given or chosen.
    start_clusters_ : int
        Clusters of a class of mean size inside which the start is whitened: ``n_clusters_``, or 1, whole classes.
    class_weight_ : ndarray of shape (C,)
        The weight of an example of each class.
    novelty_threshold_ : float
        In units of sigma.
    n_iter_ : int
        Iterations done.
    loss_curve_ : list of float
        The mean loss of each iteration.
    validation_loss_curve_ : list of float
        The held-out log-loss after each iteration of the trial run.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Of the inputs.

    References
    ----------
    Rippel, Paluri, Dollar, Bourdev. Metric Learning with Adaptive Density Discrimination. ICLR 2016: the objective and
    its training in section 3.2, the votes of the nearest clusters in section 3.3.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=400, stratify=y, random_state=0)
    >>> print(f"{KNeighborsClassifier(3).fit(X_train, y_train).score(X_test, y_test):.2f}")
    0.96
    >>> magnet = MagnetClassifier(max_iter=3, random_state=0).fit(X_train, y_train)
    >>> print(f"{magnet.score(X_test, y_test):.2f}")
    0.97
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClusterClassifier._parameter_constraints,
        "n_components": [AUTO, whole(1)],
        "alpha": [Interval(Real, None, None, closed="neither")],
        "shrinkage": [AUTO, FRACTION],
        "standardize": [AUTO, "boolean"],
        "power": [AUTO, Interval(Real, 0, None, closed="neither")],
        "kernel_width": [AUTO, Interval(Real, 0, None, closed="left")],
        "unit_length": [AUTO, "boolean"],
        "centres": [StrOptions({"auto", "means", "refined"})],
        "clusters_per_batch": [AUTO, whole(2)],
        "examples_per_cluster": [AUTO, whole(1)],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [whole(1)],
        "early_stopping": ["boolean"],
        "n_iter_no_change": [whole(1)],
        "warm_start": ["boolean"],
        "device": [str, torch.device],
        "verbose": ["boolean"],
    }

    _rounding = 1e-12  # as in `magnet.start.WithinClusters`

    mean_: NDArray[Any]
    components_: NDArray[Any]
    landmarks_: NDArray[Any]
    map_: NDArray[Any]
    length_: float
    validation_loss_curve_: list[float]

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        n_clusters: int | Literal["auto"] = "auto",
        scaling: float | Literal["auto"] = "auto",
        alpha: float = 2.0,
        shrinkage: float | Literal["auto"] = "auto",
        standardize: bool | Literal["auto"] = "auto",
        power: float | Literal["auto"] = "auto",
        kernel_width: float | Literal["auto"] = "auto",
        unit_length: bool | Literal["auto"] = "auto",
        centres: Literal["auto", "means", "refined"] = "auto",
        clusters_per_batch: int | Literal["auto"] = "auto",
        examples_per_cluster: int | Literal["auto"] = "auto",
        learning_rate: float = 0.01,
        max_iter: int = 10,
        early_stopping: bool = True,
        n_iter_no_change: int = 3,
        validation_fraction: float = 0.2,
        neighbours: int = 128,
        class_weight: Any = None,
        refusal_rate: float = 0.05,
        warm_start: bool = False,
        random_state: Any = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.n_clusters = n_clusters
        self.scaling = scaling
        self.alpha = alpha
        self.shrinkage = shrinkage
        self.standardize = standardize
        self.power = power
        self.kernel_width = kernel_width
        self.unit_length = unit_length
        self.centres = centres
        self.clusters_per_batch = clusters_per_batch
        self.examples_per_cluster = examples_per_cluster
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.neighbours = neighbours
        self.class_weight = class_weight
        self.refusal_rate = refusal_rate
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the map and the clusters of X (n, n_features) with labels y (n,)."""
        self._check_parameters()
        try:
            torch.device(self.device)
        except RuntimeError as error:
            raise UserError(f"The 'device' parameter must be one of torch's. Got {self.device!r} instead.") from error
        again = self.warm_start and hasattr(self, "components_")
        data = self._validate(X, y, reset=not again)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        recipe, class_weight = self._recipe().bounded(data.x), torch.tensor(self.class_weight_)
        iterations = self.max_iter
        if not again:
            chosen = recipe.choose(recipe.part_to_choose_by(data, seed), class_weight, seed, self._say)
            self._keep_choice(chosen)
            iterations = chosen.iterations
            self._keep_start(chosen.settings.fit(data, recipe.dim_for(data.x, chosen.settings.kernel_width), seed))
            self.n_iter_, self.loss_curve_ = 0, []
        start = self._embed(data.x.numpy())
        judged = bool(self.validation_loss_curve_) or again
        training = recipe.train(start, data.labels, class_weight, self.n_clusters_, self.training_scaling_, seed)
        for found, loss in islice(training, iterations):
            matrix = found
            self.n_iter_ += 1
            self.loss_curve_.append(loss)
            self._say(f"iteration {self.n_iter_}: loss {loss:.4f}")
            if self.early_stopping and not judged and self._levelled_off():
                break
        matrix = order_directions(start @ matrix.T, data.labels) @ matrix  # a rotation: no distance changes
        self._keep_start(self._start().then(matrix))
        representations = start @ matrix.T
        index = cluster(representations, data.labels, self.n_clusters_, seed)
        if np.isnan(self.novelty_threshold_):
            far = novelty_left_out(representations, index)
            self.novelty_threshold_ = float(far.quantile(1 - self.refusal_rate))
        shifts = None
        if self.pull_ is not None:
            rule, each = vote(index, class_weight, self.scaling_, self.neighbours), class_weight[data.labels]
            refined = rule.refined(representations, data.labels, pull=self.pull_, example_weights=each).references
            shifts = (refined - index.centres).numpy()
        self._keep_clusters(self.classes_, index, shifts)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """The representations (n, k) of X (n, n_features)."""
        check_is_fitted(self)
        inputs = validate_data(self, as_array(X, "X"), reset=False, dtype=(np.float64, np.float32))
        return self._embed(inputs).numpy().astype(inputs.dtype, copy=False)

    def _embed(self, X: NDArray[Any]) -> Tensor:
        return self._start()(torch.tensor(X, dtype=torch.float64))

    def _start(self) -> Start:
        """The start, with the map that was trained."""
        landmarks = None
        if len(self.landmarks_):
            landmarks = Landmarks(torch.tensor(self.landmarks_), torch.tensor(self.landmark_weights_))
        last = torch.tensor(self.map_) if self.length_ else None
        mean, components = torch.tensor(self.mean_), torch.tensor(self.components_)
        return Start(self.power_, mean, components, landmarks, self.length_, last)

    def _recipe(self) -> Recipe:
        def given(value: Any) -> Any:
            return None if value == "auto" else value

        return Recipe(
            dim=512 if self.n_components == "auto" else self.n_components,
            power=given(self.power), standardize=given(self.standardize), shrinkage=given(self.shrinkage),
            kernel_width=given(self.kernel_width), unit_length=given(self.unit_length),
            n_clusters=given(self.n_clusters), scaling=given(self.scaling), centres=self.centres, alpha=self.alpha,
            clusters_per_batch=given(self.clusters_per_batch),
            examples_per_cluster=given(self.examples_per_cluster),
            learning_rate=self.learning_rate, iterations=self.max_iter, early_stopping=self.early_stopping,
            patience=self.n_iter_no_change, held_out=self.validation_fraction, neighbours=self.neighbours,
            device=self.device,
        )  # fmt: skip

    def _keep_start(self, start: Start) -> None:
        self.mean_, self.components_ = start.mean.numpy(), start.components.numpy()
        self.length_ = start.length
        self.map_ = np.zeros((0, 0)) if start.map is None else start.map.numpy()
        empty = torch.zeros(0, self.n_features_in_), torch.zeros(self.n_features_in_)
        points, weights = empty if start.landmarks is None else start.landmarks
        self.landmarks_, self.landmark_weights_ = points.double().numpy(), weights.double().numpy()

    def _keep_choice(self, chosen: Chosen) -> None:
        start, self.n_clusters_ = chosen.settings, chosen.n_clusters
        self.power_, self.standardize_ = float(start.power), bool(start.standardize)
        self.kernel_width_, self.unit_length_ = float(start.kernel_width), bool(start.unit_length)
        self.shrinkage_, self.start_clusters_ = start.shrinkage, start.start_clusters
        self.training_scaling_, self.scaling_ = float(chosen.training_scaling), float(chosen.scaling)
        self.pull_, trial = chosen.pull, chosen.trial
        self.validation_loss_curve_ = [] if trial is None else trial.log_losses
        held = None if trial is None else novelty_threshold(trial.indexes, trial.held, self.refusal_rate)
        self.novelty_threshold_ = np.nan if held is None else held

    def _levelled_off(self) -> bool:
        """Whether the loss has stopped falling in the last iterations."""
        curve, late = self.loss_curve_, self.n_iter_no_change
        return len(curve) > late and min(curve[-late:]) >= min(curve[:-late])

    def _say(self, line: str) -> None:
        if self.verbose:
            print(f"[MagnetClassifier] {line}", flush=True)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
