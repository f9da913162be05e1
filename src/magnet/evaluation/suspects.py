"""Labels that are likely wrong: those to which the votes of other examples give a low probability.

By cross-validation in ten folds: the closed-form start (`magnet.start`) and the clusters are fitted to nine folds, and
vote for the labels of the tenth.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from magnet.recipe import Recipe, vote
from magnet.start import fit_start
from magnet.votes import Examples, choose_pull, cluster, hold_out, stratified_folds

FOLDS = 10
LEAST = 1e-12  # probability, so that the loss of a label without any vote is 27.6 and not infinite


class Doubts(NamedTuple):
    """The cross-validated votes for n examples."""

    loss: Tensor  # (n,) -log of the probability of the label
    suggestion: Tensor  # (n,) the likeliest class
    probability: Tensor  # (n,) of the suggestion

    @classmethod
    def of(cls, probabilities: Tensor, labels: Tensor) -> "Doubts":
        """From probabilities (n, C) and labels (n,)."""
        own = probabilities.gather(1, labels[:, None])[:, 0]
        best = probabilities.max(dim=1)
        return cls(-own.clamp_min(LEAST).log(), best.indices, best.values)


def doubt_labels(vectors: Tensor, labels: Tensor, *, recipe: Recipe | None = None, seed: int = 0) -> Doubts:
    """Doubts of labels (n,) 0..C-1 of vectors (n, d): features, or representations.

    What the recipe does not give of power, standardisation, shrinkage and clusters, and the centres, are chosen as
    `MagnetClassifier` chooses them, by the log-loss on held-out examples. An example that is the only one of its class
    cannot be doubted: its loss is 0.

    Examples:
        >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> x[:, 0] += 4 * y - 2
        >>> y[7] = 1 - y[7]
        >>> int(doubt_labels(x, y).loss.argmax())
        7
    """
    votes = _left_out_votes(Examples(vectors.double(), labels), (recipe or Recipe()).bounded(vectors), seed)
    doubts = Doubts.of(votes, labels)
    alone = torch.bincount(labels)[labels] == 1
    return Doubts(doubts.loss.masked_fill(alone, 0.0), doubts.suggestion.where(~alone, labels), doubts.probability)


def _left_out_votes(examples: Examples, recipe: Recipe, seed: int) -> Tensor:
    """Probabilities (n, C) of each example by votes of the other folds."""
    labels = examples.labels
    weight = torch.ones(int(labels.max()) + 1, dtype=torch.float64)
    chosen = _choose(recipe, examples, weight, seed)
    found = torch.zeros(len(labels), len(weight), dtype=torch.float64)
    fold = stratified_folds(labels, FOLDS, seed)
    for number in range(FOLDS):
        out = fold == number
        if not out.any():
            continue
        part = examples.take((~out).nonzero()[:, 0])
        start = fit_start(
            part, chosen.start_clusters, chosen.shrinkage, recipe.dim_for(examples.x, chosen.kernel_width),
            power=chosen.power, standardize=chosen.standardize, kernel_width=chosen.kernel_width, seed=seed,
        )  # fmt: skip
        known = start(part.x)
        rule = vote(cluster(known, part.labels, chosen.n_clusters, seed), weight, chosen.scaling, recipe.neighbours)
        if chosen.pull is not None:
            rule = rule.refined(known, part.labels, pull=chosen.pull)
        found[out.nonzero(), rule.classes] = rule.predict_proba(start(examples.x[out])).double()
    return found


class _Settings(NamedTuple):
    power: float
    standardize: bool
    shrinkage: float
    n_clusters: int
    start_clusters: int
    scaling: float
    pull: float | None
    kernel_width: float = 0.0


def _choose(recipe: Recipe, examples: Examples, weight: Tensor, seed: int) -> _Settings:
    """The start and the votes with the least held-out log-loss."""
    folds = hold_out(examples, recipe.held_out, weight, recipe.neighbours, seed)
    dim = recipe.dim_for(examples.x)
    if folds is None:  # too few examples to hold any out
        return _Settings(1.0, True, 0.4, 1, 1, float(min(10, dim)), None)
    best = recipe.choose_start(folds, dim, lambda line: None)[0]
    indexes = folds.cluster(best.parts, best.n_clusters)
    rules = [vote(index, weight, best.votes.scaling, recipe.neighbours) for index in indexes]
    pull, _ = choose_pull(folds, rules, indexes, best.parts, best.held, or_means=True)
    _, power, standardize, shrinkage, n_clusters, start_clusters, *_, width = best
    return _Settings(power, standardize, shrinkage, n_clusters, start_clusters, best.votes.scaling, pull, width)
