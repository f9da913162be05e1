"""The recipe: a linear map trained with Magnet from its closed-form start, with settings chosen from the training data.

`MagnetClassifier` and `magnet train` on feature vectors follow it. A share of every class is held out (of small data
several times, each time another share, judged together). The log-loss of the votes (section 3.3) on the held-out
examples decides first the start (`magnet.start`: power, standardisation, shrinkage, length, and with them the number of
clusters); then, after training on the other examples, the length of the training, the scaling of the votes, and
whether centres are refined. Then the start is fitted and trained on all examples with these settings.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from magnet.index import ClusterIndex
from magnet.objective import MagnetLoss
from magnet.sampler import NeighbourhoodSampler
from magnet.start import (
    LANDMARKS,
    MOST_ROWS,
    POWERS,
    SHRINKAGES,
    WIDEST,
    WIDTHS,
    Choice,
    StartSettings,
    choose_start,
    in_kernel,
)
from magnet.votes import (
    CLUSTERS,
    ENOUGH_FOR_START,
    ENOUGH_HELD_OUT,
    PULL,
    Calibrated,
    Examples,
    Folds,
    cluster,
    folds_for,
    hold_out,
    stratified_part,
)

MOST = 20_000  # examples to choose settings by
LEAST_OF_CLASS = 10  # examples of each class to choose settings by
LEAST_STEPS = 25  # in an iteration, where a pass over the data is shorter
CLUSTERS_PER_BATCH, MOST_PER_BATCH = 48, 192  # M: as many as there are classes, between these
EXAMPLES_PER_CLUSTER = 4  # D; with fewer than 48 clusters it is larger, up to 16


class Trial(NamedTuple):
    """A training on the parts of the folds, after its best iteration."""

    iterations: int
    settings: StartSettings
    scaling: float  # of the votes
    log_losses: list[float]  # held out, after each iteration
    indexes: list[ClusterIndex]
    parts: list[Tensor]  # (n, k) of each fold
    held: list[Tensor]


class Chosen(NamedTuple):
    """What a recipe chose, or was given."""

    settings: StartSettings
    n_clusters: int
    training_scaling: float = 0.0  # of the objective
    scaling: float = 0.0  # of the votes
    pull: float | None = None  # of refined centres; None: means
    iterations: int = 0
    trial: Trial | None = None  # None: too few examples to hold any out


@dataclass(frozen=True)
class Recipe:
    """The settings of the start and of the training; None: chosen from the data."""

    dim: int = 512  # dimensions of the representation, at most
    power: float | None = None  # of the start, as the next four
    standardize: bool | None = None
    shrinkage: float | None = None
    kernel_width: float | None = None  # of Gaussian kernel features (`magnet.start.Landmarks`); 0: none
    unit_length: bool | None = None  # whether representations have one length
    n_clusters: int | None = None  # K, of a class of mean size; larger classes have more, in proportion
    start_clusters: int | None = None  # K of the whitening; chosen: the K of the training or 1
    scaling: float | None = None  # of the objective; chosen: half of what suits the votes at the start
    centres: Literal["auto", "means", "refined"] = "auto"  # auto: what has the least held-out log-loss
    alpha: float = 2.0  # the gap
    # M; chosen: as many as there are classes, from 48 to 192. Where classes are many, the gradient of a smaller
    # neighbourhood is noisier.
    clusters_per_batch: int | None = None
    examples_per_cluster: int | None = None  # D; chosen: 4, and up to 16 where there are few clusters
    learning_rate: float = 0.01  # of SGD with momentum, at its highest
    iterations: int = 10  # passes over the data (two at a time where one is less than 25 batches), at most
    early_stopping: bool = True  # whether the held-out examples choose the number of iterations
    patience: int = 3  # iterations without gain after which none is expected any more
    held_out: float = 0.2  # the share of each class
    neighbours: int = 128  # L
    device: str | torch.device = "cpu"

    def choose(self, data: Examples, class_weight: Tensor, seed: int, say: Callable[[str], None]) -> Chosen:
        """Choose all settings from training examples (float64) and the weight (C,) of an example of each class.

        ``say`` is called with a line about each choice. If fewer than 30 examples could be held out, settings that are
        not given get defaults: one cluster, power 1, shrinkage 0.4, standardised features, a scaling of k but at most
        10, and means.
        """
        folds = self.hold_out(data, class_weight, seed)
        if folds is None:
            scaling = float(min(10, self.dim_for(data.x)))
            settings = StartSettings(
                1.0 if self.power is None else self.power,
                True if self.standardize is None else self.standardize,
                0.4 if self.shrinkage is None else self.shrinkage,
                self.start_clusters or self.n_clusters or 1,
                self.kernel_width or 0.0,
                bool(self.unit_length),
            )
            training_scaling = scaling if self.scaling is None else self.scaling
            pull = PULL if self.centres == "refined" else None
            return Chosen(settings, self.n_clusters or 1, training_scaling, scaling, pull, self.iterations)
        choices = self.choose_start(folds, self.dim_for(data.x), say)
        folds = folds.first(folds_for(len(data.labels), self.held_out, ENOUGH_HELD_OUT))
        best = choices[0]
        training_scaling = best.votes.scaling / 2 if self.scaling is None else self.scaling
        # Training overfits more easily than the start alone: less shrinkage than the start's is not tried.
        enough = [choice for choice in choices if choice.settings.shrinkage >= best.settings.shrinkage]
        tried = [self._try(folds, choice, training_scaling, seed, say) for choice in enough]
        trial = min(tried, key=lambda trial: min(trial.log_losses))
        pull = None
        if self.centres != "means":
            or_means = self.centres == "auto"
            pull, log_loss = folds.choose_pull(trial.indexes, trial.parts, trial.held, trial.scaling, or_means=or_means)
            centres = "means" if pull is None else f"refined, pull {pull:g}"
            say(f"centres: {centres}; held-out log-loss {log_loss:.4f}")
        return Chosen(trial.settings, best.n_clusters, training_scaling, trial.scaling, pull, trial.iterations, trial)

    def part_to_choose_by(self, data: Examples, seed: int) -> Examples:
        """All examples; of more than 20,000, a stratified part of about that size, with ten or more of each class."""
        most = max(MOST, LEAST_OF_CLASS * (int(data.labels.max()) + 1))
        rows = stratified_part(data.labels, most, seed)
        return data if len(rows) == len(data.labels) else data.take(rows)

    def hold_out(self, data: Examples, class_weight: Tensor, seed: int) -> Folds | None:
        """The folds that the start is judged by; None if there are too few examples."""
        return hold_out(data, self.held_out, class_weight, self.neighbours, seed, ENOUGH_FOR_START)

    def choose_start(self, folds: Folds, dim: int, say: Callable[[str], None]) -> list[Choice]:
        """Choose the start: a choice for each shrinkage, the best first; with kernel features if clearly better."""
        shrinkages = SHRINKAGES if self.shrinkage is None else (self.shrinkage,)
        clusters = CLUSTERS if self.n_clusters is None else (self.n_clusters,)
        choices = choose_start(
            folds,
            powers=POWERS if self.power is None else (self.power,),
            standardize=(False, True) if self.standardize is None else (self.standardize,),
            shrinkages=shrinkages,
            clusters=clusters,
            start_clusters=self.start_clusters,
            unit_length=(True, False) if self.unit_length is None else (self.unit_length,),
            dim=dim,
        )
        power = choices[0].settings.power
        for width in WIDTHS if self.kernel_width is None else (self.kernel_width,) * (self.kernel_width > 0):
            found = choose_start(
                in_kernel(folds, power, width), powers=(1.0,), standardize=(False,), shrinkages=shrinkages,
                clusters=clusters, start_clusters=self.start_clusters, unit_length=(bool(self.unit_length),),
                dim=self.dim,
            )  # fmt: skip
            found = [
                each._replace(settings=each.settings._replace(power=power, standardize=True, kernel_width=width))
                for each in found
            ]
            if self.kernel_width or _plain(folds, found[0]).clearly_below(_plain(folds, choices[0])):
                choices = found
        best, start = choices[0], choices[0].settings
        say(
            f"start: power {start.power:g}, {best.n_clusters} cluster{'s' * (best.n_clusters > 1)} a class, whitened "
            f"within {'clusters' if start.start_clusters > 1 else 'classes'}, shrinkage {start.shrinkage:g}"
            f"{', standardised' if start.standardize else ''}"
            f"{f', kernel features of width {start.kernel_width:g}' if start.kernel_width else ''}"
            f"{', unit length' if start.unit_length else ''}; "
            f"held-out log-loss {best.votes.log_loss:.4f}"
        )
        return choices

    def bounded(self, x: Tensor) -> "Recipe":
        """The recipe without kernel features, unless they are given, if x (N, d) is so large that they take long."""
        much = x.shape[1] > WIDEST or len(x) > MOST_ROWS
        return replace(self, kernel_width=0.0) if much and self.kernel_width is None else self

    def dim_for(self, x: Tensor, kernel_width: float = 0.0) -> int:
        """k: at most the number of features (with a kernel: landmarks) and of examples in x (N, d)."""
        return min(self.dim, len(x), LANDMARKS if kernel_width else x.shape[1])

    def batches_for(self, clusters: int, classes: int) -> tuple[int, int]:
        """M and D for these numbers of clusters and classes: a batch of few clusters has more examples of each."""
        most = self.clusters_per_batch or min(max(CLUSTERS_PER_BATCH, classes), MOST_PER_BATCH)
        together = min(most, clusters)
        if self.examples_per_cluster is not None:
            return together, self.examples_per_cluster
        return together, min(max(EXAMPLES_PER_CLUSTER, EXAMPLES_PER_CLUSTER * most // together), 16)

    def steps_for(self, examples: int, clusters: int, classes: int) -> int:
        """The steps of one iteration."""
        together, drawn = self.batches_for(clusters, classes)
        epoch = math.ceil(examples / (together * drawn))
        return max(epoch, min(2 * epoch, LEAST_STEPS))

    def train(
        self, start: Tensor, labels: Tensor, class_weight: Tensor, n_clusters: int, scaling: float, seed: int
    ) -> Iterator[tuple[Tensor, float]]:
        """Train a linear map of the start's representations (N, k) with labels (N,) 0..C-1, from the identity on.

        An iteration is a refresh of the index and as many batches as cover the data (a few more on small data): the
        loop of section 3.2. SGD with momentum, its rate annealed to zero along a cosine over ``iterations``.

        Yields:
            After each iteration the map (k, k), float64, and the mean loss of its batches.
        """
        device = self.device
        weights = class_weight[labels]
        weights = (weights / weights.mean()).float().to(device)
        inputs, labels = start.float().to(device), labels.to(device)
        matrix = torch.eye(start.shape[1], device=device, requires_grad=True)
        objective = MagnetLoss(self.alpha, scaling, "leave-one-out")
        optimiser = torch.optim.SGD([matrix], lr=self.learning_rate, momentum=0.9, nesterov=True)
        index = cluster(inputs, labels, n_clusters, seed)
        classes = len(index.centre_labels.unique())
        together, drawn = self.batches_for(len(index), classes)
        steps = self.steps_for(len(inputs), len(index), classes)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.iterations * steps)
        sampler = NeighbourhoodSampler(
            index, clusters_per_batch=together, examples_per_cluster=drawn, batches=steps, seed=seed
        )
        for _ in range(self.iterations):
            total = 0.0
            for batch in sampler:
                rows = torch.tensor(batch, device=device)
                clusters = sampler.clusters(batch).to(device)
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
            sampler.refresh(cluster(inputs @ found.T, labels, n_clusters, seed))

    def _try(self, folds: Folds, choice: Choice, scaling: float, seed: int, say: Callable[[str], None]) -> Trial:
        """Train on the parts of the folds, and keep the iteration with the least held-out log-loss."""
        curve: list[float] = []
        best: Trial | None = None
        runs = (
            self.train(part, data.labels, folds.class_weight, choice.n_clusters, scaling, seed)
            for part, data in zip(choice.parts, folds.parts, strict=False)  # the start may be judged by more folds
        )
        for done, results in enumerate(zip(*runs, strict=True), 1):
            parts, held = (
                [r @ matrix.T for r, (matrix, _) in zip(group, results, strict=False)]
                for group in (choice.parts, choice.held)
            )
            indexes = folds.cluster(parts, choice.n_clusters)
            scaling_of_votes, held_loss, _ = folds.judge(indexes, held)
            better = not curve or held_loss < min(curve)
            curve.append(held_loss)
            loss = sum(loss for _, loss in results) / len(results)
            say(
                f"shrinkage {choice.settings.shrinkage:g}, trial iteration {done}: loss {loss:.4f}, "
                f"held-out log-loss {held_loss:.4f}"
            )
            if best is None or better or not self.early_stopping:
                best = Trial(done, choice.settings, scaling_of_votes, curve, indexes, parts, held)
            elif done - best.iterations >= self.patience:
                break
        assert best is not None
        return best


def _plain(folds: Folds, choice: Choice) -> Calibrated:
    """The log-loss of the votes of a choice without smoothed targets.

    What smoothed targets cost differs between representations, and on small data it is most of the log-loss that votes
    are calibrated by.
    """
    indexes = folds.cluster(choice.parts, choice.n_clusters, restarts=1)
    each = folds.log_losses(indexes, choice.held, choice.votes.scaling)
    return Calibrated(choice.votes.scaling, float(each.sum()), each)
