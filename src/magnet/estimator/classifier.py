"""MagnetClassifier: Magnet on feature vectors, with the manners of scikit-learn."""

import math
from collections.abc import Iterator
from itertools import islice
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from magnet.classify import NearestClusters, novelty_left_out
from magnet.errors import UserError
from magnet.estimator.base import AUTO, FRACTION, ClusterClassifier, novelty_threshold, whole
from magnet.index import ClusterIndex
from magnet.objective import MagnetLoss
from magnet.sampler import NeighbourhoodSampler
from magnet.start import (
    CLUSTERS,
    POWERS,
    PULL,
    SHRINKAGES,
    Choice,
    Examples,
    Folds,
    Start,
    WithinClusters,
    choose_pull,
    choose_start,
    cluster,
    cluster_weights,
    hold_out,
    order_directions,
)

LEAST_STEPS = 25  # in an iteration, where a pass over the data is shorter
TRAINED_SHRINKAGES = 2  # how many of the shrinkages that suit the start are tried in training


class _Trial(NamedTuple):
    """A training on the parts of the folds, after its best iteration."""

    iterations: int
    shrinkage: float
    scaling: float  # of the votes
    log_losses: list[float]  # held out, after each iteration
    indexes: list[ClusterIndex]
    parts: list[Tensor]  # (n, k) of each fold
    held: list[Tensor]


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
        Clusters for each class (fewer in a class with less than four examples for each); "auto": as many of 1, 2, 4,
        8, 16 as go on lowering the held-out log-loss.
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
    centres : {"auto", "means", "refined"}, default="auto"
        "means" of the members vote, as in the paper, or "refined" centres (`NearestClusters.refined`); "auto": what has
        the least held-out log-loss.
    clusters_per_batch : int, default=48
        M, the most clusters in a neighbourhood.
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
        The map, ``components_ (x^power_ - mean_)``.
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
    n_clusters_, shrinkage_, standardize_, training_scaling_ : int, float, bool, float
        As given or chosen.
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
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=300, stratify=y, random_state=0)
    >>> print(f"{KNeighborsClassifier(3).fit(X_train, y_train).score(X_test, y_test):.2f}")
    0.95
    >>> magnet = MagnetClassifier(max_iter=3, random_state=0).fit(X_train, y_train)
    >>> print(f"{magnet.score(X_test, y_test):.2f}")
    0.96
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClusterClassifier._parameter_constraints,
        "n_components": [AUTO, whole(1)],
        "alpha": [Interval(Real, None, None, closed="neither")],
        "shrinkage": [AUTO, FRACTION],
        "standardize": [AUTO, "boolean"],
        "power": [AUTO, Interval(Real, 0, None, closed="neither")],
        "centres": [StrOptions({"auto", "means", "refined"})],
        "clusters_per_batch": [whole(2)],
        "examples_per_cluster": [AUTO, whole(1)],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [whole(1)],
        "early_stopping": ["boolean"],
        "n_iter_no_change": [whole(1)],
        "warm_start": ["boolean"],
        "device": [str, torch.device],
        "verbose": ["boolean"],
    }

    mean_: NDArray[Any]
    components_: NDArray[Any]
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
        centres: Literal["auto", "means", "refined"] = "auto",
        clusters_per_batch: int = 48,
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
        iterations = self.max_iter
        if not again:
            iterations = self._choose(data, seed)
            spectrum = WithinClusters(
                *data, self.n_clusters_, power=self.power_, standardize=self.standardize_, seed=seed
            )
            _, mean, components = spectrum.start(self.shrinkage_, self._dim(data))
            self.mean_, self.components_ = mean.numpy(), components.numpy()
            self.n_iter_, self.loss_curve_ = 0, []
        start = self._embed(data.x.numpy())
        judged = bool(self.validation_loss_curve_) or again
        for found, loss in islice(self._iterations(start, data.labels, seed), iterations):
            matrix = found
            self.n_iter_ += 1
            self.loss_curve_.append(loss)
            self._say(f"iteration {self.n_iter_}: loss {loss:.4f}")
            if self.early_stopping and not judged and self._levelled_off():
                break
        matrix = order_directions(start @ matrix.T, data.labels) @ matrix  # a rotation: no distance changes
        self.components_ = (matrix @ torch.tensor(self.components_)).numpy()
        representations = start @ matrix.T
        index = cluster(representations, data.labels, self.n_clusters_, seed)
        if np.isnan(self.novelty_threshold_):
            far = novelty_left_out(representations, index)
            self.novelty_threshold_ = float(far.quantile(1 - self.refusal_rate))
        shifts = None
        if self.pull_ is not None:
            rule = self._rule(index)
            each = torch.tensor(self.class_weight_)[data.labels]
            refined = rule.refined(representations, data.labels, pull=self.pull_, example_weights=each).references
            shifts = (refined - index.centres).numpy()
        self._keep_clusters(self.classes_, index, shifts)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """The representations (n, k) of X (n, n_features)."""
        check_is_fitted(self)
        inputs = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        return self._embed(inputs).numpy().astype(inputs.dtype, copy=False)

    def _embed(self, X: NDArray[Any]) -> Tensor:
        x = torch.tensor(X, dtype=torch.float64)
        return Start(self.power_, torch.tensor(self.mean_), torch.tensor(self.components_))(x)

    def _rule(self, index: ClusterIndex) -> NearestClusters:
        weights = cluster_weights(index.sizes, index.centre_labels, torch.tensor(self.class_weight_))
        return NearestClusters(index, self.neighbours, scaling=self.scaling_, weights=weights)

    def _choose(self, data: Examples, seed: int) -> int:
        """Set all that is chosen from the data, and give the number of iterations."""
        folds = hold_out(data, self.validation_fraction, torch.tensor(self.class_weight_), self.neighbours, seed)
        dim = self._dim(data)
        if folds is None:
            self.n_clusters_ = 1 if self.n_clusters == "auto" else self.n_clusters
            self.shrinkage_ = 0.4 if self.shrinkage == "auto" else self.shrinkage
            self.standardize_ = True if self.standardize == "auto" else bool(self.standardize)
            self.power_ = 1.0 if self.power == "auto" else float(self.power)
            self.scaling_ = float(min(10, dim))
            self.training_scaling_ = self.scaling_ if self.scaling == "auto" else float(self.scaling)
            self.pull_ = PULL if self.centres == "refined" else None
            self.novelty_threshold_, self.validation_loss_curve_ = np.nan, []
            return self.max_iter
        choices = choose_start(
            folds,
            powers=POWERS if self.power == "auto" else (float(self.power),),
            standardize=(False, True) if self.standardize == "auto" else (bool(self.standardize),),
            shrinkages=SHRINKAGES if self.shrinkage == "auto" else (self.shrinkage,),
            clusters=CLUSTERS if self.n_clusters == "auto" else (self.n_clusters,),
            dim=dim,
        )
        best = choices[0]
        self.power_, self.standardize_, self.n_clusters_ = best.power, best.standardize, best.n_clusters
        self.training_scaling_ = float(best.scaling / 2 if self.scaling == "auto" else self.scaling)
        self._say(
            f"start: power {self.power_:g}, {self.n_clusters_} cluster(s) a class, shrinkage {best.shrinkage:g}, "
            f"{'standardised, ' if self.standardize_ else ''}held-out log-loss {best.log_loss:.4f}"
        )
        tried = [self._try(folds, choice, seed) for choice in choices[:TRAINED_SHRINKAGES]]
        trial = min(tried, key=lambda trial: min(trial.log_losses))
        self.shrinkage_, self.scaling_ = trial.shrinkage, trial.scaling
        self.validation_loss_curve_ = trial.log_losses
        self.novelty_threshold_ = novelty_threshold(trial.indexes, trial.held, self.refusal_rate)
        self.pull_ = None
        if self.centres != "means":
            rules = [self._rule(index) for index in trial.indexes]
            self.pull_, log_loss = choose_pull(
                folds, rules, trial.indexes, trial.parts, trial.held, or_means=self.centres == "auto"
            )
            self._say(f"centres: {'means' if self.pull_ is None else f'pull {self.pull_:g}'}, log-loss {log_loss:.4f}")
        return trial.iterations

    def _try(self, folds: Folds, choice: Choice, seed: int) -> _Trial:
        """Train on the parts of the folds, and keep what the held-out examples say is the best iteration."""
        curve: list[float] = []
        best: _Trial | None = None
        runs = (self._iterations(part, data.labels, seed) for part, data in zip(choice.parts, folds.parts, strict=True))
        for done, results in enumerate(zip(*runs, strict=True), 1):
            parts, held = (
                [r @ matrix.T for r, (matrix, _) in zip(group, results, strict=True)]
                for group in (choice.parts, choice.held)
            )
            indexes = folds.cluster(parts, self.n_clusters_)
            scaling, held_loss = folds.judge(indexes, held)
            better = not curve or held_loss < min(curve)
            curve.append(held_loss)
            loss = np.mean([loss for _, loss in results])
            self._say(
                f"shrinkage {choice.shrinkage:g}, trial iteration {done}: loss {loss:.4f}, "
                f"held-out log-loss {held_loss:.4f}"
            )
            if best is None or better or not self.early_stopping:
                best = _Trial(done, choice.shrinkage, scaling, curve, indexes, parts, held)
            elif done - best.iterations >= self.n_iter_no_change:
                break
        assert best is not None
        return best

    def _iterations(self, start: Tensor, labels: Tensor, seed: int) -> Iterator[tuple[Tensor, float]]:
        """Train a linear map of the start's representations (N, k) with labels (N,) 0..C-1, from the identity on.

        An iteration is a refresh of the index and as many batches as cover the data (a few more on small data): the
        loop of section 3.2. SGD with momentum, its rate annealed to zero along a cosine over ``max_iter`` iterations.

        Yields:
            After each iteration the map (k, k), float64, and the mean loss of its batches.
        """
        weights = torch.tensor(self.class_weight_)[labels]
        weights = (weights / weights.mean()).float().to(self.device)
        inputs, labels = start.float().to(self.device), labels.to(self.device)
        matrix = torch.eye(start.shape[1], device=self.device, requires_grad=True)
        objective = MagnetLoss(self.alpha, self.training_scaling_, "leave-one-out")
        optimiser = torch.optim.SGD([matrix], lr=self.learning_rate, momentum=0.9, nesterov=True)
        index = cluster(inputs, labels, self.n_clusters_, seed)
        neighbourhood = min(self.clusters_per_batch, len(index))
        if self.examples_per_cluster == "auto":  # a batch of few clusters has more examples of each
            drawn = min(max(4, 4 * self.clusters_per_batch // neighbourhood), 16)
        else:
            drawn = self.examples_per_cluster
        epoch = math.ceil(len(inputs) / (neighbourhood * drawn))
        steps = max(epoch, min(2 * epoch, LEAST_STEPS))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.max_iter * steps)
        sampler = NeighbourhoodSampler(
            index, clusters_per_batch=neighbourhood, examples_per_cluster=drawn, batches=steps, seed=seed
        )
        for _ in range(self.max_iter):
            total = 0.0
            for batch in sampler:
                rows = torch.tensor(batch, device=self.device)
                clusters = sampler.clusters(batch).to(self.device)
                per_example = objective(inputs[rows] @ matrix.T, clusters, labels[rows]).per_example * weights[rows]
                loss = per_example.mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                sampler.update(batch, per_example)
                total += float(loss.detach())
            found = matrix.detach()
            yield found.double().cpu(), total / steps
            sampler.refresh(cluster(inputs @ found.T, labels, self.n_clusters_, seed))

    def _levelled_off(self) -> bool:
        """Whether the loss of late is no less than before."""
        curve, late = self.loss_curve_, self.n_iter_no_change
        return len(curve) > late and min(curve[-late:]) >= min(curve[:-late])

    def _dim(self, data: Examples) -> int:
        return min(512 if self.n_components == "auto" else self.n_components, *data.x.shape)

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
