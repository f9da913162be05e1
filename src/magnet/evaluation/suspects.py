"""Labels that are likely wrong: those to which the votes of other examples give a low probability.

By cross-validation in ten folds: the closed-form start (`magnet.start`) and the clusters are fitted to nine folds, and
vote for the labels of the tenth. Of more than 50,000 examples all are judged, by the votes of so many.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from magnet.recipe import LEAST_OF_CLASS, Chosen, Recipe
from magnet.start import StartSettings
from magnet.votes import Examples, cluster, hold_out, stratified_folds, vote

FOLDS = 10
MOST_VOTERS = 50_000  # that vote on a fold, or ten of each class: the votes of a million examples would take an hour
BLOCK = 2**24  # votes that are in memory at once
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


def doubt_labels(
    vectors: Tensor,
    labels: Tensor,
    *,
    only: Tensor | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    report: Callable[[int, int], None] | None = None,
) -> Doubts:
    """Doubts of labels (n,) 0..C-1 of vectors (n, d): features, or representations.

    With ``only`` (m,), the doubts of these rows alone, in this order: the same numbers in less time.

    What the recipe does not give of power, standardisation, shrinkage and clusters, and the centres, are chosen as
    `MagnetClassifier` chooses them, by the log-loss on held-out examples. An example that is the only one of its class
    cannot be doubted: its loss is 0. ``report`` is called with the number of examples judged and the total.

    Examples:
        >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> x[:, 0] += 4 * y - 2
        >>> y[7] = 1 - y[7]
        >>> int(doubt_labels(x, y).loss.argmax())
        7
    """
    recipe = (recipe or Recipe()).bounded(vectors)
    classes = int(labels.max()) + 1
    chosen = _choose(recipe, Examples(vectors, labels), classes, seed)
    found = Doubts(torch.zeros(len(labels), dtype=torch.float64), labels.clone(), torch.zeros(len(labels)).double())
    fold = stratified_folds(labels, FOLDS, seed)
    judged = torch.ones(len(labels), dtype=torch.bool)
    if only is not None:
        judged = torch.zeros(len(labels), dtype=torch.bool).index_fill(0, only, True)
    for number in range(FOLDS):
        out = (judged & (fold == number)).nonzero()[:, 0]
        if not len(out):
            continue
        others = (fold != number).nonzero()[:, 0]
        kept = others[some_of_each(labels[others], MOST_VOTERS, seed)]
        part = Examples(vectors[kept].double(), labels[kept])
        start = chosen.settings.fit(part, recipe.dim_for(vectors, chosen.settings.kernel_width), seed)
        known = start(part.x)
        stand, voting = (torch.bincount(labels[rows], minlength=classes) for rows in (others, kept))
        weight = stand.double() / voting.clamp_min(1)  # an example has the votes of all that it stands for
        rule = vote(cluster(known, part.labels, chosen.n_clusters, seed), weight, chosen.scaling, recipe.neighbours)
        if chosen.pull is not None:
            rule = rule.refined(known, part.labels, pull=chosen.pull)
        for rows in out.split(max(1, BLOCK // classes)):
            votes = rule.predict_proba(start(vectors[rows].double())).double()
            every = votes.new_zeros(len(votes), classes).index_copy(1, rule.classes, votes)
            new = Doubts.of(every, labels[rows])
            for values, some in zip(found, new, strict=True):
                values[rows] = some
        if report is not None:
            report(int((judged & (fold <= number)).sum()), int(judged.sum()))
    return found if only is None else Doubts(*(values[only] for values in found))


def some_of_each(labels: Tensor, most: int, seed: int) -> Tensor:
    """Places (m,) of all labels (n,), in order; of more than ``most`` the same share of each class, at least ten.

    >>> labels = torch.tensor([0] * 990 + [1] * 4 + [2] * 30)
    >>> labels[some_of_each(labels, most=100, seed=0)].bincount()
    tensor([97,  4, 10])
    """
    if len(labels) <= most:
        return torch.arange(len(labels))
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[labels[shuffled].argsort(stable=True)]
    sizes = torch.bincount(labels)
    place = torch.arange(len(labels)) - (sizes.cumsum(0) - sizes)[labels[by_class]]  # inside its class
    share = (sizes * most / len(labels)).ceil().clamp_min(LEAST_OF_CLASS)
    return by_class[place < share[labels[by_class]]].sort().values


def _choose(recipe: Recipe, examples: Examples, classes: int, seed: int) -> Chosen:
    """The start and the votes with the least held-out log-loss; large data are represented by a subset."""
    examples = recipe.part_to_choose_by(examples, seed)
    examples = Examples(examples.x.double(), examples.labels)
    weight = torch.ones(classes, dtype=torch.float64)
    folds = hold_out(examples, recipe.held_out, weight, recipe.neighbours, seed)
    dim = recipe.dim_for(examples.x)
    if folds is None:  # too few examples to hold any out
        return Chosen(StartSettings(1.0, True, 0.4), n_clusters=1, scaling=float(min(10, dim)))
    best = recipe.choose_start(folds, dim, lambda line: None)[0]
    scaling = best.votes.scaling
    pull, _ = folds.choose_pull(folds.cluster(best.parts, best.n_clusters), best.parts, best.held, scaling)
    return Chosen(best.settings, best.n_clusters, scaling=scaling, pull=pull)
