"""The closed-form start: a representation that is good before the first step of training.

Three steps lead from features x (d,) to representations r (k,):

1. *Power.* ``z = x^p``. The square root (p = 1/2) of non-negative features evens out what a few large values would
   dominate; p = 1 leaves the features as they are.
2. *Whitening within clusters.* With S the covariance of the examples around the means of their clusters (K-means in
   every class) and t its mean eigenvalue, the noise is ``(1 - shrinkage) S + shrinkage t I``, and the map makes it
   white. What lies between the clusters of a class is signal, which is the idea of the paper (section 3) without a
   step of training. With one cluster a class this is linear discriminant analysis.
3. *Order.* The directions between the cluster means come first, the most discriminating one first; then those of the
   largest remaining variance. The first dimensions are therefore a shorter representation of the same model.

`choose_start` takes power, shrinkage and number of clusters from the training data alone: those whose votes (section
3.3) have the least log-loss on examples that were held out.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from magnet.classify import NearestClusters
from magnet.index import ClusterIndex
from magnet.neighbours import nearest

WIDE = 2048  # more features than this are first reduced to NARROW principal components
NARROW = 1024
BLOCK = 8192  # rows that are held in double precision at a time
LEAST_MEMBERS = 4  # a class is not cut into clusters of fewer examples

POWERS = (1.0, 0.5)
SHRINKAGES = (0.1, 0.4, 0.7)
CLUSTERS = (1, 2, 4, 8, 16)
LEAST_HELD_OUT = 30  # with fewer, what looks best is chance
ENOUGH_HELD_OUT = 500
MOST_FOLDS = 3
PULLS = (1.0, 0.3, 0.1, 0.03, 0.01)  # of refined centres to their means
PULL = 0.1  # where nothing is held out to choose it by
SCALINGS = (2.0**-3, 2.0**10)  # where the scaling of the votes is looked for


def raised(x: Tensor, power: float) -> Tensor:
    """``x^power`` element by element; negative values count as zero unless the power is 1."""
    if power == 1:
        return x
    return x.clamp_min(0).sqrt() if power == 0.5 else x.clamp_min(0).pow(power)


class Start(NamedTuple):
    """A fitted start: ``r = components (x^power - mean)``."""

    power: float
    mean: Tensor  # (d,) of x^power
    components: Tensor  # (k, d)

    def __call__(self, x: Tensor) -> Tensor:
        """Representations (n, k) of x (n, d)."""
        return (raised(x, self.power) - self.mean) @ self.components.T


def cluster(representations: Tensor, labels: Tensor, n_clusters: int, seed: int, restarts: int = 3) -> ClusterIndex:
    """The index of representations (N, k): at most ``n_clusters`` for each class, of four examples or more each."""
    sizes = torch.bincount(labels)
    if n_clusters == 1:  # the means of the classes: nothing to search for
        classes = sizes.nonzero().flatten()
        rows = torch.searchsorted(classes, labels)
        sums = representations.new_zeros(len(classes), representations.shape[1]).index_add(0, rows, representations)
        centres = sums / sizes[classes].to(sums.dtype)[:, None]
        variance = (representations - centres[rows]).square().sum() / max(len(labels) - 1, 1)
        return ClusterIndex(centres, classes, rows, variance)
    wanted = {c: min(n_clusters, max(1, n // LEAST_MEMBERS)) for c, n in enumerate(sizes.tolist()) if n}
    return ClusterIndex.fit(representations, labels, wanted, seed=seed, restarts=restarts)


class WithinClusters:
    """The spectrum of the variation inside clusters, from which `start` makes maps of any shrinkage.

    Args:
        x: (N, d) features.
        labels: (N,) class ids 0..C-1.
        n_clusters: K, the most clusters of a class.
        power: p.
        standardize: whether each feature is divided by its own standard deviation; else the sizes of the features
            stay what they are.
        seed: of the clustering, and of the randomised reduction of very wide data.

    Examples:
        >>> x = torch.tensor([[0.0, 0.0], [0.0, 4.0], [2.0, 0.0], [2.0, 4.0]], dtype=torch.float64)
        >>> spectrum = WithinClusters(x, torch.tensor([0, 0, 1, 1]))
        >>> spectrum.start(shrinkage=0.5, dim=1)(x).flatten().abs().round(decimals=2)
        tensor([0.7100, 0.7100, 0.7100, 0.7100], dtype=torch.float64)

        The first direction is the one that tells the classes apart, although the other one varies more.
    """

    def __init__(
        self,
        x: Tensor,
        labels: Tensor,
        n_clusters: int = 1,
        *,
        power: float = 1.0,
        standardize: bool = False,
        seed: int = 0,
    ) -> None:
        self.power = power
        rows, width = x.shape
        blocks = [slice(at, at + BLOCK) for at in range(0, rows, BLOCK)]
        # Sums in double precision, block by block: a large table is never copied whole.
        total, largest = x.new_zeros(width, dtype=torch.float64), x.new_zeros(width, dtype=torch.float64)
        for block in blocks:
            z = raised(x[block].double(), power)
            total += z.sum(dim=0)
            largest = torch.maximum(largest, z.abs().amax(dim=0))
        self.mean = total / rows
        squares = torch.zeros_like(total)
        for block in blocks:
            squares += (raised(x[block].double(), power) - self.mean).square().sum(dim=0)
        spread = (squares / rows).sqrt()
        # A feature that is constant but for rounding says nothing, and must not be blown up.
        constant = spread <= 1e-12 * largest
        scale = spread.masked_fill(constant, torch.inf) if standardize else torch.ones_like(spread)
        self._basis: Tensor | None = None  # (d, q) of a reduction; None: each feature by its scale
        self._scale = scale
        if width > min(WIDE, rows):
            self._basis = self._principal(x, seed)

        groups, count = labels, int(labels.max()) + 1
        if n_clusters > 1:
            index = cluster(torch.cat([self._centred(x[block]).float() for block in blocks]), labels, n_clusters, seed)
            groups, count = index.assignments, len(index)
        sizes = torch.bincount(groups, minlength=count).double().clamp_min(1)
        width = len(scale) if self._basis is None else self._basis.shape[1]
        means = torch.zeros(count, width, dtype=torch.float64)
        scatter = torch.zeros(width, width, dtype=torch.float64)
        around = 0.0  # the sum of |z|^2 around the mean of all
        for block in blocks:
            means.index_add_(0, groups[block], self._centred(x[block]))
        means /= sizes[:, None]
        for block in blocks:
            z = self._centred(x[block])
            around += float(z.square().sum())
            z = z - means[groups[block]]
            scatter.addmm_(z.T, z)
        scatter /= max(rows - count, 1)
        if not float(scatter.trace()) > 1e-12 * around / rows:  # each cluster is one point: only the means vary
            scatter = (sizes[:, None] * means).T @ means / rows
        if not float(scatter.trace()) > 0:
            scatter = torch.eye(width, dtype=torch.float64)
        values, self._vectors = torch.linalg.eigh(scatter)
        self._values = values.clamp_min(0)
        self._means = sizes.sqrt()[:, None] * (means @ self._vectors)  # (J, q), weighted for the directions below

    def start(self, shrinkage: float, dim: int) -> Start:
        """The start of this shrinkage, with k = min(dim, features) dimensions."""
        level = self._values.mean()
        whitening = ((1 - shrinkage) * self._values + shrinkage * level).clamp_min(1e-9 * level).rsqrt()
        # The right singular vectors, by way of the smaller of the two products: clusters may be many.
        means = self._means * whitening
        if len(means) > means.shape[1]:
            strength, between = torch.linalg.eigh(means.T @ means)
            strength, between = strength.clamp_min(0).sqrt().flip(0), between.flip(1).T
        else:
            _, strength, between = torch.linalg.svd(means, full_matrices=False)
        between = between[strength > 1e-7 * strength[0].clamp_min(1e-300)][:dim]
        # Inside clusters the whitened variance grows with the eigenvalue, and those come in ascending order.
        rest = torch.eye(len(self._values), dtype=torch.float64).flip(0)[: max(0, dim - len(between))]
        directions, _ = torch.linalg.qr(torch.cat([between, rest]).T)
        inner = (self._vectors * whitening) @ directions
        components = inner / self._scale[:, None] if self._basis is None else self._basis @ inner
        return Start(self.power, self.mean, components.T.contiguous())

    def _centred(self, x: Tensor) -> Tensor:
        """The rows of x (n, d) in the space that is whitened (n, q), double precision."""
        z = raised(x.double(), self.power) - self.mean
        return z / self._scale if self._basis is None else z @ self._basis

    def _principal(self, x: Tensor, seed: int) -> Tensor:
        """A basis (d, q) of the principal components of wide data, the scale of the features included."""
        from sklearn.decomposition import PCA

        rows, width = x.shape
        kept = min(rows, width, NARROW if width > WIDE else width)
        z = (raised(x.double(), self.power) - self.mean) / self._scale
        components = PCA(kept, random_state=seed).fit(z.numpy()).components_
        return torch.as_tensor(components, dtype=torch.float64).T / self._scale[:, None]


class Examples(NamedTuple):
    """Labelled vectors: x (n, d) and labels (n,) 0..C-1."""

    x: Tensor
    labels: Tensor

    def take(self, rows: Tensor) -> "Examples":
        """A subset."""
        return Examples(self.x[rows], self.labels[rows])


class VotingTrial(NamedTuple):
    """Clusters of one part of the data, and examples held out from them."""

    clusters: ClusterIndex  # labels 0..C-1
    held: Tensor  # (n, k) representations
    labels: Tensor  # (n,)


def cluster_weights(sizes: Tensor, columns: Tensor, class_weight: Tensor) -> Tensor:
    """The weight of each cluster (J,) in the votes: its size (J,) times the weight (C,) of an example of its class."""
    return (sizes.double() * class_weight[columns]).clamp_min(1e-300)


def calibrate_votes(
    trials: Sequence[VotingTrial], class_weight: Tensor, *, neighbours: int = 128
) -> tuple[float, float]:
    """The scaling of kNC's votes with the least log-loss on held-out examples, and that log-loss.

    Clusters vote with the weight of their members. One example is thought to be spread over the classes by their share
    (much as in Platt's targets), so that held-out parts without a single mistake do not ask for infinite confidence.

    Args:
        trials: one or more, judged together.
        class_weight: (C,) the weight of an example of each class.
        neighbours: how many nearest clusters vote.
    """
    class_weight = class_weight.double()
    each = class_weight[torch.cat([trial.labels for trial in trials])]
    each = each / each.sum()
    weights = [cluster_weights(trial.clusters.sizes, trial.clusters.centre_labels, class_weight) for trial in trials]
    found_once = []  # the distances do not depend on the scaling
    for index, held, _ in trials:
        distances, ids = nearest(held.to(index.centres.dtype), index.centres, min(neighbours, len(index)))
        variance = max(float(index.variance), torch.finfo(index.centres.dtype).tiny)
        found_once.append(((distances[:, :1] - distances).double() / (2 * variance), ids))

    def loss(log_scaling: float) -> float:
        logs = []
        for trial, weight, (gaps, ids) in zip(trials, weights, found_once, strict=True):
            votes = torch.softmax(gaps * math.exp(log_scaling) + weight.log()[ids], dim=1)
            tally = votes.new_zeros(len(votes), len(class_weight))
            tally.scatter_add_(1, trial.clusters.centre_labels[ids], votes)
            logs.append(_expected_log(tally, trial, weight, len(each)))
        return -float(each @ torch.cat(logs))

    bounds = (math.log(SCALINGS[0]), math.log(SCALINGS[1]))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.05})
    return math.exp(float(found.x)), float(found.fun)


def held_out_log_loss(
    rules: Sequence[NearestClusters], trials: Sequence[VotingTrial], each: Tensor, weights: Sequence[Tensor]
) -> float:
    """The log-loss of classifiers on the examples held out of each (weights ``each`` (n,), which sum to one)."""
    logs = []
    for rule, trial, weight in zip(rules, trials, weights, strict=True):
        proba = rule.predict_proba(trial.held).double()
        tally = proba.new_zeros(len(proba), max(int(trial.labels.max()), int(rule.classes.max())) + 1)
        tally[:, rule.classes] = proba
        logs.append(_expected_log(tally, trial, weight, len(each)))
    return -float(each @ torch.cat(logs))


def _expected_log(proba: Tensor, trial: VotingTrial, weight: Tensor, count: int) -> Tensor:
    """The logarithm (n,) of the probability (n, C) of the true class, one of ``count`` examples spread over classes."""
    log, spread = proba.clamp_min(1e-12).log(), 1 / (count + 1)
    prior = log.new_zeros(log.shape[1]).index_add(0, trial.clusters.centre_labels, weight / weight.sum())
    return (1 - spread) * log[torch.arange(len(log)), trial.labels] + spread * (log @ prior)


class Folds(NamedTuple):
    """Parts to fit and parts to judge by, disjoint in each fold; with the weight of an example of each class (C,)."""

    parts: list[Examples]
    held: list[Examples]
    class_weight: Tensor
    neighbours: int  # that vote
    seed: int

    def judge(self, indexes: Iterable[ClusterIndex], held: Iterable[Tensor]) -> tuple[float, float]:
        """The best scaling of the votes, and its log-loss, for an index of each part and the held-out (n, k)."""
        labels = [examples.labels for examples in self.held]
        trials = [VotingTrial(*each) for each in zip(indexes, held, labels, strict=True)]
        return calibrate_votes(trials, self.class_weight, neighbours=self.neighbours)

    def cluster(self, parts: Iterable[Tensor], n_clusters: int, restarts: int = 3) -> list[ClusterIndex]:
        """The clusters of the representations (n, k) of each part."""
        labels = [examples.labels for examples in self.parts]
        return [cluster(part, own, n_clusters, self.seed, restarts) for part, own in zip(parts, labels, strict=True)]


def hold_out(examples: Examples, fraction: float, class_weight: Tensor, neighbours: int, seed: int) -> Folds | None:
    """Hold out about ``fraction`` of every class, in several folds while one has fewer than ENOUGH_HELD_OUT examples.

    Of the examples in the order of their classes, shuffled inside each, every n-th is held out; the only example of a
    class never is. None where that gives next to nothing.
    """
    if fraction == 0:
        return None
    period = max(2, round(1 / fraction))
    fold = stratified_folds(examples.labels, period, seed)
    count = min(period, MOST_FOLDS, math.ceil(ENOUGH_HELD_OUT * period / len(fold)))
    if int(((fold >= 0) & (fold < count)).sum()) < LEAST_HELD_OUT:
        return None
    parts = [examples.take((fold != number).nonzero().flatten()) for number in range(count)]
    held = [examples.take((fold == number).nonzero().flatten()) for number in range(count)]
    return Folds(parts, held, class_weight.double(), neighbours, seed)


def stratified_folds(labels: Tensor, folds: int, seed: int) -> Tensor:
    """A fold (n,) in 0..folds-1 for each example, the examples of every class spread evenly over the folds.

    An example alone in its class has fold -1: it is never held out.

    >>> stratified_folds(torch.tensor([0, 0, 0, 0, 1, 1, 2]), folds=2, seed=0)
    tensor([ 0,  1,  0,  1,  0,  1, -1])
    """
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[labels[shuffled].argsort(stable=True)]
    fold = torch.empty_like(labels)
    fold[by_class] = torch.arange(len(labels)) % folds
    return fold.masked_fill(torch.bincount(labels)[labels] == 1, -1)


class Choice(NamedTuple):
    """The settings of a start, how well its votes do, and the representations of the folds under it."""

    log_loss: float  # of the votes, held out
    power: float
    standardize: bool
    shrinkage: float
    n_clusters: int
    scaling: float  # of the votes
    parts: list[Tensor]  # (n, k) of each fold
    held: list[Tensor]


def choose_start(
    folds: Folds,
    *,
    powers: Sequence[float] = POWERS,
    standardize: Sequence[bool] = (False, True),
    shrinkages: Sequence[float] = SHRINKAGES,
    clusters: Sequence[int] = CLUSTERS,
    dim: int = 512,
) -> list[Choice]:
    """The start whose votes have the least held-out log-loss, with each shrinkage, the best first.

    One setting is chosen after the other: the number of clusters, which grows until two numbers in a row do not help;
    then the power; then whether features are standardised; then, if these changed, the number of clusters once more,
    among its neighbours. Each is judged with its best shrinkage. Training overfits with less shrinkage than the start
    alone does: let it choose among the first few. A power other than 1 is for non-negative features only.
    """

    def tried(power: float, scaled: bool, n_clusters: int) -> list[Choice]:
        spectra = [
            WithinClusters(*part, n_clusters, power=power, standardize=scaled, seed=folds.seed) for part in folds.parts
        ]
        found = []
        for shrinkage in shrinkages:
            starts = [spectrum.start(shrinkage, dim) for spectrum in spectra]
            parts = [start(part.x.double()) for start, part in zip(starts, folds.parts, strict=True)]
            held = [start(part.x.double()) for start, part in zip(starts, folds.held, strict=True)]
            scaling, loss = folds.judge(folds.cluster(parts, n_clusters, restarts=1), held)
            found.append(Choice(loss, power, scaled, shrinkage, n_clusters, scaling, parts, held))
        return sorted(found, key=lambda choice: choice.log_loss)

    negative = any(bool((part.x < 0).any()) for part in folds.parts)
    powers = [power for power in powers if power == 1 or not negative] or [1.0]
    best = tried(powers[0], standardize[0], clusters[0])
    misses = 0
    for n_clusters in clusters[1:]:
        more = tried(powers[0], standardize[0], n_clusters)
        misses = 0 if _log_loss(more) < _log_loss(best) else misses + 1
        best = min(best, more, key=_log_loss)
        if misses == 2:
            break
    place = clusters.index(best[0].n_clusters)
    for power in powers[1:]:
        best = min(best, tried(power, standardize[0], clusters[place]), key=_log_loss)
    for scaled in standardize[1:]:
        best = min(best, tried(best[0].power, scaled, clusters[place]), key=_log_loss)
    if best[0].power != powers[0] or best[0].standardize != standardize[0]:
        for n_clusters in (*clusters[max(0, place - 1) : place], *clusters[place + 1 : place + 2]):
            best = min(best, tried(best[0].power, best[0].standardize, n_clusters), key=_log_loss)
    return best


def _log_loss(choices: list[Choice]) -> float:
    return choices[0].log_loss


def choose_clusters(
    folds: Folds, parts: list[Tensor], held: list[Tensor], candidates: Iterable[int]
) -> tuple[int, float]:
    """How many clusters for each class, given representations; more are tried as long as they help.

    Returns:
        The number, and the scaling of the votes that suits it.
    """
    best: tuple[float, int, float] | None = None
    for n_clusters in candidates:
        scaling, loss = folds.judge(folds.cluster(parts, n_clusters), held)
        if best is not None and loss >= best[0]:
            break
        best = loss, n_clusters, scaling
    assert best is not None
    return best[1], best[2]


def choose_pull(
    folds: Folds,
    rules: Sequence[NearestClusters],
    indexes: Sequence[ClusterIndex],
    parts: Sequence[Tensor],
    held: Sequence[Tensor],
    *,
    or_means: bool = True,
) -> tuple[float | None, float]:
    """The pull of refined centres (see `NearestClusters.refined`) with the least held-out log-loss, and that log-loss.

    Weaker pulls are tried as long as they help. With ``or_means`` the pull is None where the means do better than all.

    Args:
        folds: what was held out.
        rules: kNC with plain means, of each fold.
        indexes: their clusters.
        parts, held: representations (n, k) of each fold.
    """
    labels = [examples.labels for examples in folds.held]
    trials = [VotingTrial(*each) for each in zip(indexes, held, labels, strict=True)]
    each = folds.class_weight[torch.cat(labels)]
    each = each / each.sum()
    weights = [cluster_weights(index.sizes, index.centre_labels, folds.class_weight) for index in indexes]
    best: tuple[float | None, float] | None = None
    if or_means:
        best = None, held_out_log_loss(rules, trials, each, weights)
    for pull in PULLS:
        refined = [
            rule.refined(r, part.labels, pull=pull, example_weights=folds.class_weight[part.labels])
            for rule, r, part in zip(rules, parts, folds.parts, strict=True)
        ]
        loss = held_out_log_loss(refined, trials, each, weights)
        if best is not None and loss >= best[1]:
            break
        best = pull, loss
    assert best is not None
    return best


def order_directions(representations: Tensor, labels: Tensor) -> Tensor:
    """A rotation (k, k) that puts the directions between the means of classes first, the strongest of them first.

    Args:
        representations: (N, k) float64.
        labels: (N,) class ids.
    """
    counts = torch.bincount(labels).double().clamp_min(1)
    means = representations.new_zeros(len(counts), representations.shape[1]).index_add(0, labels, representations)
    means = means / counts[:, None]
    centred = means - representations.mean(dim=0)
    between = (counts[:, None] * centred).T @ centred
    within = representations - means[labels]
    # What the classes do not tell apart is ordered by its variance: their part of the sum decides first.
    within_scatter = within.T @ within
    scale = float(between.trace()) or 1.0
    _, vectors = torch.linalg.eigh(between / scale + 1e-9 * within_scatter / (float(within_scatter.trace()) or 1.0))
    return vectors.flip(1).T.contiguous()
