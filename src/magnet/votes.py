"""The settings of kNC and soft kNN (section 3.3), chosen by the log-loss on held-out examples.

Whatever trained the representation, these classifiers have settings of their own: the scaling of the votes, how many
neighbours vote, the number of clusters of a class, and whether centres are the means of their members or refined.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from magnet.classify import NearestClusters, SoftNeighbours
from magnet.clustering import clusters_by_size
from magnet.index import ClusterIndex
from magnet.neighbours import nearest

LEAST_MEMBERS = 4  # a class is not cut into clusters of fewer examples
CLUSTERS = (1, 2, 4, 8, 16)
LEAST_HELD_OUT = 30  # with fewer, what looks best is chance
ENOUGH_HELD_OUT = 500  # to judge a training by
ENOUGH_FOR_START = 2000  # to judge a start by, which costs no training
MOST_FOLDS = 3
MOST_HELD_OUT = 4000  # of a fold: more examples to judge by would change no choice, and take their time
PULLS = (1.0, 0.3, 0.1, 0.03, 0.01)  # candidates: how strongly refined centres are held to their means
PULL = 0.1  # if no examples are held out to choose it by
A_FEW = 8  # steps of refining that show what it is worth
MOST_TO_REFINE = 5e9  # examples x clusters x dimensions; refining more would take minutes, so means vote
LEAST = 1e-12  # smaller probabilities count as this one in a log-loss
SCALINGS = (2.0**-3, 2.0**10)  # the range in which the scaling of the votes is searched
NEIGHBOURS = (4, 8, 16, 32, 64, 128)  # candidates for soft kNN


def cluster(representations: Tensor, labels: Tensor, n_clusters: int, seed: int, restarts: int = 3) -> ClusterIndex:
    """Cluster representations (N, k): ``n_clusters`` for a class of mean size, for others in proportion to their size.

    Clusters have four examples or more on average.
    """
    wanted = clusters_by_size(labels, n_clusters, LEAST_MEMBERS)
    if max(wanted.values()) == 1:  # the means of the classes: nothing to search for
        sizes = torch.bincount(labels)
        classes = sizes.nonzero().flatten()
        rows = torch.searchsorted(classes, labels)
        sums = representations.new_zeros(len(classes), representations.shape[1]).index_add(0, rows, representations)
        centres = sums / sizes[classes].to(sums.dtype)[:, None]
        variance = (representations - centres[rows]).square().sum() / max(len(labels) - 1, 1)
        return ClusterIndex(centres, classes, rows, variance)
    return ClusterIndex.fit(representations, labels, wanted, seed=seed, restarts=restarts)


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


class Calibrated(NamedTuple):
    """The scaling of the votes with the least log-loss on held-out examples."""

    scaling: float
    log_loss: float
    each: Tensor  # (n,) the share of each example in the log-loss

    def clearly_below(self, other: "Calibrated") -> bool:
        """Whether the log-loss on the same examples is lower than the other's by more than one standard error."""
        gain = other.each - self.each
        return float(gain.sum()) > math.sqrt(len(gain)) * float(gain.std())


def calibrate_votes(trials: Sequence[VotingTrial], class_weight: Tensor, *, neighbours: int = 128) -> Calibrated:
    """The scaling of kNC's votes with the least log-loss on held-out examples.

    Clusters vote with the weight of their members. Targets are smoothed by the weight of one example, spread over the
    classes in proportion to their frequency (as in Platt scaling): without it, held-out examples that are all
    classified correctly would ask for infinite scaling.

    Args:
        trials: one or more, judged together.
        class_weight: (C,) the weight of an example of each class.
        neighbours: how many nearest clusters vote.
    """
    losses_at = _vote_losses(trials, class_weight, neighbours)

    def losses(log_scaling: float) -> Tensor:
        return losses_at(math.exp(log_scaling), True)

    bounds = (math.log(SCALINGS[0]), math.log(SCALINGS[1]))
    found = minimize_scalar(
        lambda at: float(losses(at).sum()), bounds=bounds, method="bounded", options={"xatol": 0.05}
    )
    return Calibrated(math.exp(float(found.x)), float(found.fun), losses(float(found.x)))


def _vote_losses(
    trials: Sequence[VotingTrial], class_weight: Tensor, neighbours: int
) -> Callable[[float, bool], Tensor]:
    """A function of the scaling that gives the log-loss (n,) of each held-out example, with smoothed targets or not."""
    class_weight = class_weight.double()
    each = class_weight[torch.cat([trial.labels for trial in trials])]
    each = each / each.sum()
    weights = [cluster_weights(trial.clusters.sizes, trial.clusters.centre_labels, class_weight) for trial in trials]
    ballots = [_Ballot.of(trial, weight, neighbours) for trial, weight in zip(trials, weights, strict=True)]

    def losses(scaling: float, smoothed: bool) -> Tensor:
        share = 1 / (len(each) + 1) if smoothed else 0.0
        return -each * torch.cat([ballot.expected_log(scaling, share) for ballot in ballots])

    return losses


class _Ballot(NamedTuple):
    """The votes of a trial before they are scaled, with a place for each class of a voter, not for every class."""

    gaps: Tensor  # (n, L) squared distances beyond the nearest, over 2 sigma^2, with a minus
    log_weights: Tensor  # (n, L)
    column: Tensor  # (n, L) the place of the voter's class among the classes of the row
    prior: Tensor  # (n, L) the share of the class at each place; 0 at places without one
    own: Tensor  # (n,) the place of the true class; L if no voter is of it

    @classmethod
    def of(cls, trial: VotingTrial, weight: Tensor, neighbours: int) -> "_Ballot":
        index, held, labels = trial
        distances, ids = nearest(held.to(index.centres.dtype), index.centres, min(neighbours, len(index)))
        variance = max(float(index.variance), torch.finfo(index.centres.dtype).tiny)
        gaps = (distances[:, :1] - distances).double() / (2 * variance)
        voters = index.centre_labels[ids]
        by_class, order = voters.sort(dim=1, stable=True)
        place = torch.cat([torch.zeros_like(by_class[:, :1]), (by_class.diff(dim=1) != 0).long()], dim=1).cumsum(dim=1)
        column = torch.empty_like(place).scatter_(1, order, place)
        classes = torch.full_like(voters, -1).scatter_(1, column, voters)  # at each place
        share = weight.new_zeros(int(index.centre_labels.max()) + 1)
        share.index_add_(0, index.centre_labels, weight / weight.sum())
        prior = share[classes.clamp_min(0)].masked_fill(classes < 0, 0.0)
        is_own = classes == labels[:, None]
        own = torch.where(is_own.any(dim=1), is_own.long().argmax(dim=1), ids.shape[1])
        return cls(gaps, weight.log()[ids], column, prior, own)

    def expected_log(self, scaling: float, spread: float) -> Tensor:
        """The log-probability (n,) of targets: the true class, and a share ``spread`` of all classes by frequency."""
        votes = torch.softmax(self.gaps * scaling + self.log_weights, dim=1)
        tally = votes.new_zeros(len(votes), votes.shape[1] + 1).scatter_add_(1, self.column, votes)
        log = tally.clamp_min(LEAST).log()
        right = log.gather(1, self.own[:, None])[:, 0]
        others = math.log(LEAST) * (1 - self.prior.sum(dim=1))  # classes without a vote
        return (1 - spread) * right + spread * ((log[:, :-1] * self.prior).sum(dim=1) + others)


def vote(index: ClusterIndex, class_weight: Tensor, scaling: float, neighbours: int) -> NearestClusters:
    """kNC over clusters that vote with the weight of their members, by the weight (C,) of an example of each class."""
    weights = cluster_weights(index.sizes, index.centre_labels, class_weight)
    return NearestClusters(index, neighbours, scaling=scaling, weights=weights)


class Votes(NamedTuple):
    """The settings of a rule: of kNC, or of soft kNN."""

    scaling: float
    neighbours: int  # L
    clusters: int = 0  # kNC: of each class
    pull: float | None = None  # kNC: of refined centres; None: means

    def of_clusters(self, index: ClusterIndex) -> NearestClusters:
        """kNC over the means of these clusters, which vote with the weight of their members."""
        return NearestClusters(index, self.neighbours, scaling=self.scaling, weights=index.sizes.clamp_min(1))

    def of_examples(self, references: Tensor, labels: Tensor, variance: Tensor) -> SoftNeighbours:
        """Soft kNN over representations (N, d) with labels (N,); ``variance`` is the variance of their clusters."""
        variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
        return SoftNeighbours(references, labels, self.neighbours, variance=variance, scaling=self.scaling)


def choose_knc(folds: "Folds", candidates: Sequence[int], centres: str) -> Votes:
    """Choose the settings of kNC: the number of clusters of a class, the scaling, and refined centres or means.

    Args:
        folds: representations x (n, k).
        candidates: numbers of clusters, ascending.
        centres: "means", "refined", or "auto" for the kind with the least held-out log-loss.
    """
    clusters, scaling = folds.choose_clusters(candidates)
    pull = None
    if centres != "means":
        parts, held = folds.vectors
        pull, _ = folds.choose_pull(folds.cluster(parts, clusters), parts, held, scaling, or_means=centres == "auto")
    return Votes(scaling, folds.neighbours, clusters, pull)


def choose_knn(folds: "Folds", variances: Sequence[Tensor]) -> Votes:
    """Choose the settings of soft kNN: the number of neighbours and the scaling.

    Args:
        folds: as for `choose_knc`.
        variances: of the clusters of each part; the scaling multiplies distances in units of it.
    """
    prior = torch.ones(len(folds.class_weight), dtype=torch.float64)
    gaps, labels = [], []
    for part, held, variance in zip(folds.parts, folds.held, variances, strict=True):
        distances, ids = nearest(held.x, part.x, min(folds.neighbours, len(part.x)))
        unit = 2 * max(float(variance), torch.finfo(torch.float32).tiny)
        gaps.append((distances[:, :1] - distances).double() / unit)
        labels.append(part.labels[ids])
        prior += torch.bincount(part.labels, minlength=len(prior))
    log_prior, truth = (prior / prior.sum()).log(), torch.cat([held.labels for held in folds.held])
    spread = 1 / (len(truth) + 1)

    def loss(log_scaling: float, count: int) -> float:
        total = 0.0
        for gap, column, held in zip(gaps, labels, folds.held, strict=True):
            shares = torch.softmax(gap[:, :count] * math.exp(log_scaling), dim=1)
            right = (shares * (column[:, :count] == held.labels[:, None])).sum(dim=1)
            # A class without a neighbour has the share of one example in the training part.
            mixed = (1 - spread) * right + spread * log_prior.exp()[held.labels]
            total -= float(mixed.clamp_min(LEAST).log().sum())
        return total / len(truth)

    bounds = (math.log(SCALINGS[0]), math.log(SCALINGS[1]))
    best: tuple[float, Votes] | None = None
    for count in [n for n in NEIGHBOURS if n < folds.neighbours] + [folds.neighbours]:
        found = minimize_scalar(loss, args=(count,), bounds=bounds, method="bounded", options={"xatol": 0.05})
        if best is None or found.fun < best[0]:
            best = float(found.fun), Votes(math.exp(float(found.x)), count)
    assert best is not None
    return best[1]


class Folds(NamedTuple):
    """Folds of labelled examples: in each, clusters are fitted to a part and judged on the examples held out of it."""

    parts: list[Examples]
    held: list[Examples]
    class_weight: Tensor  # (C,) the weight of an example of each class
    neighbours: int  # that vote
    seed: int

    @property
    def vectors(self) -> tuple[list[Tensor], list[Tensor]]:
        """The representations (n, k) of each part, and of the examples held out of it."""
        return [part.x for part in self.parts], [held.x for held in self.held]

    def first(self, count: int) -> "Folds":
        """The first ``count`` folds."""
        return self._replace(parts=self.parts[:count], held=self.held[:count])

    def judge(self, indexes: Iterable[ClusterIndex], held: Iterable[Tensor]) -> Calibrated:
        """Calibrate the votes of an index of each part on the held-out representations (n, k)."""
        return calibrate_votes(self.trials(indexes, held), self.class_weight, neighbours=self.neighbours)

    def trials(self, indexes: Iterable[ClusterIndex], held: Iterable[Tensor]) -> list[VotingTrial]:
        """The index of each part together with the held-out representations (n, k)."""
        labels = (examples.labels for examples in self.held)
        return [VotingTrial(*each) for each in zip(indexes, held, labels, strict=True)]

    def refined_losses(
        self,
        indexes: Sequence[ClusterIndex],
        parts: Sequence[Tensor],
        held: Iterable[Tensor],
        scaling: float,
        pull: float | None,
        iterations: int = 30,
    ) -> Tensor:
        """The share (n,) of each held-out example in the log-loss, with smoothed targets.

        The centres are refined on the parts (n, k); they are the means of their members where ``pull`` is None.
        """
        each = self.class_weight[torch.cat([examples.labels for examples in self.held])]
        spread, logs = 1 / (len(each) + 1), list[Tensor]()
        for index, r, part, queries, out in zip(indexes, parts, self.parts, held, self.held, strict=True):
            rule = vote(index, self.class_weight, scaling, self.neighbours)
            if pull is not None:
                weights = self.class_weight[part.labels]
                rule = rule.refined(r, part.labels, pull=pull, example_weights=weights, iterations=iterations)
            proba = rule.predict_proba(queries).double()
            tally = proba.new_zeros(len(proba), max(int(out.labels.max()), int(rule.classes.max())) + 1)
            tally[:, rule.classes] = proba
            log = tally.clamp_min(LEAST).log()
            weight = cluster_weights(index.sizes, index.centre_labels, self.class_weight)
            prior = log.new_zeros(log.shape[1]).index_add(0, index.centre_labels, weight / weight.sum())
            logs.append((1 - spread) * log[torch.arange(len(log)), out.labels] + spread * (log @ prior))
        return -each / each.sum() * torch.cat(logs)

    def judge_refined(self, parts: Sequence[Tensor], held: Sequence[Tensor], n_clusters: int) -> Calibrated:
        """As `judge`, for centres that were refined a little, where that takes little time."""
        indexes = self.cluster(parts, n_clusters, restarts=1)
        votes = self.judge(indexes, held)
        if not can_refine(indexes[0], parts[0]):
            return votes
        each = self.refined_losses(indexes, parts, held, votes.scaling, PULL, A_FEW)
        return Calibrated(votes.scaling, float(each.sum()), each)

    def choose_clusters(self, candidates: Iterable[int]) -> tuple[int, float]:
        """Choose the number of clusters of a class; the next candidate is tried while the last one clearly helped.

        Returns:
            The number of clusters, and the calibrated scaling of their votes.
        """
        parts, held = self.vectors
        best: tuple[int, Calibrated] | None = None
        for n_clusters in candidates:
            found = self.judge(self.cluster(parts, n_clusters), held)
            if best is not None and not found.clearly_below(best[1]):
                break
            best = n_clusters, found
        assert best is not None
        return best[0], best[1].scaling

    def choose_pull(
        self,
        indexes: Sequence[ClusterIndex],
        parts: Sequence[Tensor],
        held: Sequence[Tensor],
        scaling: float,
        *,
        or_means: bool = True,
    ) -> tuple[float | None, float]:
        """The pull of refined centres (`NearestClusters.refined`) with the least held-out log-loss, and that log-loss.

        Weaker pulls are tried while they help. With ``or_means``, the pull is None if means have a lower log-loss than
        all refined centres, or if refining would take minutes.

        Args:
            indexes: the clusters of each fold.
            parts, held: representations (n, k) of each fold.
            scaling: of the votes.
            or_means: see above.
        """
        losses = partial(self.refined_losses, indexes, parts, held, scaling)
        best: tuple[float | None, float] | None = None
        if or_means:
            best = None, float(losses(None).sum())
            if not can_refine(indexes[0], parts[0]):
                return best
        for pull in PULLS:
            loss = float(losses(pull).sum())
            if best is not None and loss >= best[1]:
                break
            best = pull, loss
        assert best is not None
        return best

    def log_losses(self, indexes: Iterable[ClusterIndex], held: Iterable[Tensor], scaling: float) -> Tensor:
        """The share of each held-out example (n, k) in the log-loss of votes of this scaling, targets not smoothed."""
        return _vote_losses(self.trials(indexes, held), self.class_weight, self.neighbours)(scaling, False)

    def cluster(self, parts: Iterable[Tensor], n_clusters: int, restarts: int = 3) -> list[ClusterIndex]:
        """The clusters of the representations (n, k) of each part."""
        labels = [examples.labels for examples in self.parts]
        return [cluster(part, own, n_clusters, self.seed, restarts) for part, own in zip(parts, labels, strict=True)]


def hold_out(
    examples: Examples, fraction: float, class_weight: Tensor, neighbours: int, seed: int, enough: int = ENOUGH_HELD_OUT
) -> Folds | None:
    """Hold out about ``fraction`` of every class, in up to three folds while they have fewer than ``enough`` examples.

    The only example of a class is never held out. None if fewer than 30 examples would be held out. A fold is judged
    by 4,000 of its examples at most; the others have no part in it.
    """
    if fraction == 0:
        return None
    period = max(2, round(min(1 / fraction, len(examples.labels) + 1)))
    fold = stratified_folds(examples.labels, period, seed)
    count = folds_for(len(fold), fraction, enough)
    if int(((fold >= 0) & (fold < count)).sum()) < LEAST_HELD_OUT:
        return None
    parts = [examples.take((fold != number).nonzero().flatten()) for number in range(count)]
    generator = torch.Generator().manual_seed(seed)
    held = []
    for number in range(count):
        rows = (fold == number).nonzero().flatten()
        if len(rows) > MOST_HELD_OUT:
            rows = rows[torch.randperm(len(rows), generator=generator)[:MOST_HELD_OUT].sort().values]
        held.append(examples.take(rows))
    return Folds(parts, held, class_weight.double(), neighbours, seed)


def folds_for(examples: int, fraction: float, enough: int) -> int:
    """The number of folds that hold out ``enough`` examples, each about ``fraction`` of all; at most three."""
    period = max(2, round(min(1 / fraction, examples + 1)))
    return min(period, MOST_FOLDS, math.ceil(enough * period / examples))


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


def stratified_part(labels: Tensor, most: int, seed: int) -> Tensor:
    """Places (n,) of at most about ``most`` examples, in order: all, or one fold and every example alone in its class.

    >>> stratified_part(torch.tensor([0, 0, 0, 0, 1, 1, 2]), most=4, seed=0)
    tensor([0, 2, 4, 6])
    """
    if len(labels) <= most:
        return torch.arange(len(labels))
    return (stratified_folds(labels, -(-len(labels) // most), seed) <= 0).nonzero().flatten()


def can_refine(index: ClusterIndex, representations: Tensor) -> bool:
    """Whether refining the centres on representations (n, k) takes seconds only, and the clusters have any variance."""
    return len(representations) * index.centres.numel() <= MOST_TO_REFINE and float(index.variance) > 0
