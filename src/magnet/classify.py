"""Labels from representations: soft votes of the nearest clusters (kNC) or of the nearest examples (soft kNN).

Both give class c the share of the L nearest references of that class, each weighted by its similarity,

    p(c | r) = sum_{l : C(mu_l) = c} exp(-s |r - mu_l|^2 / (2 sigma^2)) / sum_l exp(-s |r - mu_l|^2 / (2 sigma^2))

(section 3.3); they differ in what the references are.
"""

from collections.abc import Iterator
from copy import copy
from typing import Self

import torch
from torch import Tensor

from magnet.errors import RangeError
from magnet.index import ClusterIndex
from magnet.neighbours import (
    SIZES,
    check_ids,
    check_positive,
    check_representations,
    check_variance,
    check_whole,
    nearest,
    nearest_of_chunk,
    split_rows,
)
from magnet.tree import FEWEST, CentreTree, sample_of

TALLY_ELEMENTS = 2**22  # votes for classes that are held at a time
BESIDE = 8  # neighbouring centres, in whose directions examples are thought to lie
SHARPEST = 1e30  # votes per squared distance that can be computed with in single precision
STAYS_KNOWN = 0.99  # the share of known examples that the limit of novelty is not to refuse


class SoftNeighbours:
    """Soft k-nearest-neighbour classification (section 3.3).

    Args:
        representations: (N, d) references.
        labels: (N,) their classes.
        neighbours: L, how many nearest references vote; all of them where there are fewer.
        variance: sigma^2, the lengthscale of the votes.
        scaling: the factor on normalised squared distances that the representations were trained with.

    Attributes:
        classes: (C,) the labels in ascending order: column c of `predict_proba` is label ``classes[c]``.

    Examples:
        >>> r, labels = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
        >>> rule = SoftNeighbours(r, labels, 3, variance=1.0)
        >>> rule.predict(torch.tensor([[0.6], [4.2]]))
        tensor([0, 1])
        >>> rule.predict_proba(torch.tensor([[2.4]]))
        tensor([[0.6081, 0.3919]])
    """

    _log_weights: Tensor | None = None  # (N,) of the references in the votes

    def __init__(
        self,
        representations: Tensor,
        labels: Tensor,
        neighbours: int = 128,
        *,
        variance: Tensor | float,
        scaling: float = 1.0,
    ) -> None:
        check_representations(representations, whole=True)
        labels = check_ids(labels, len(representations), "labels")
        check_positive(neighbours, "neighbours")
        neighbours = check_whole(neighbours, "neighbours", 1)
        check_positive(scaling, "scaling")
        check_variance(variance)
        if variance is None:
            raise TypeError("variance must be a number, the lengthscale of the votes; found None")
        self.references = representations if representations.dtype == torch.float64 else representations.float()
        self.classes, self._columns = torch.unique(labels, return_inverse=True)
        self.neighbours = min(neighbours, len(representations))
        self.variance, self.scaling = float(variance), scaling

    def nearest(self, representations: Tensor) -> tuple[Tensor, Tensor]:
        """Similarity (n, L), which sums to one, and id (n, L) of the nearest references, nearest first."""
        self._check(representations)
        parts = [self._logits(r) for r in split_rows(representations, len(self.references))]
        return torch.cat([self._votes(logits) for logits, _ in parts]), torch.cat([ids for _, ids in parts])

    def predict_proba(self, representations: Tensor) -> Tensor:
        """The probability of each class (n, C); rows sum to one."""
        self._check(representations)
        return torch.cat(list(self._tallies(representations)))

    def predict_log_proba(self, representations: Tensor) -> Tensor:
        """The logarithm of the probability of each class (n, C), float64; -inf only for a class without a vote.

        It ranks the classes that have a vote, however far behind the nearest they are; their probabilities may vanish.
        """
        self._check(representations)
        columns, parts = self._columns.to(representations.device), []
        for logits, ids in self._chunks(representations):
            logs, column = torch.log_softmax(logits, dim=1), columns[ids]
            best = logs.new_full((len(logs), len(self.classes)), -torch.inf).scatter_reduce_(1, column, logs, "amax")
            shares = torch.zeros_like(best).scatter_add_(1, column, (logs - best.gather(1, column)).exp_())
            parts.append(best.add_(shares.log_()))
        return torch.cat(parts)

    def class_votes(self, representations: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """`predict_log_proba` without the classes that have no vote, some rows at a time: there may be many classes.

        Gives columns (b, L), ascending, and the logarithms (b, L) of their probabilities, float64; a row with fewer
        classes than L ends in columns that are -1, at -inf.

        Examples:
            >>> r, labels = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
            >>> columns, logs = next(SoftNeighbours(r, labels, 3, variance=1.0).class_votes(torch.tensor([[2.4]])))
            >>> columns, logs.exp()
            (tensor([[ 0,  1, -1]]), tensor([[0.6081, 0.3919, 0.0000]], dtype=torch.float64))
        """
        self._check(representations)
        columns = self._columns.to(representations.device)
        for r in split_rows(representations, len(self.references)):
            logits, ids = self._logits(r)
            logs = torch.log_softmax(logits, dim=1)
            column, order = columns[ids].sort(dim=1, stable=True)
            logs = logs.gather(1, order)
            first = torch.ones_like(column, dtype=torch.bool)
            first[:, 1:] = column[:, 1:] != column[:, :-1]
            place = first.cumsum(dim=1) - 1  # of each vote among the classes of its row
            best = torch.full_like(logs, -torch.inf).scatter_reduce_(1, place, logs, "amax")
            shares = torch.zeros_like(best).scatter_add_(1, place, (logs - best.gather(1, place)).exp_())
            found = torch.full_like(column, -1).scatter_(1, place, column)
            yield found, best.add_(shares.log_())

    def predict(self, representations: Tensor) -> Tensor:
        """The most probable label of each row (n,)."""
        self._check(representations)
        best = [tally.argmax(dim=1) for tally in self._tallies(representations)]
        classes: Tensor = self.classes.to(representations.device)
        return classes[torch.cat(best)]

    def _logits(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms (n, L) of the similarities, up to a constant, and the ids (n, L) of the nearest references."""
        distances, ids = self._nearest_references(r.to(self.references.dtype))
        # In double, from the nearest on and with finite products, so that a lengthscale far below the distances leaves
        # a hard vote and not NaN.
        most = torch.finfo(torch.float64).max / max(1.0, float(distances.detach().max()))
        logits = (distances[:, :1] - distances).double() * min(self.scaling / (2 * self.variance), most)
        if self._log_weights is not None:
            logits = logits + self._log_weights.to(ids.device)[ids]
        return logits, ids

    def _nearest_references(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances (n, L) and ids (n, L) of the nearest references, nearest first."""
        return nearest_of_chunk(r, self.references, self.neighbours)

    def _votes(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits, dim=1).to(self.references.dtype)

    def _chunks(self, representations: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """`_logits` of so many rows at a time that a table of all classes is small."""
        rows = max(1, TALLY_ELEMENTS // len(self.classes))
        for r in split_rows(representations, len(self.references)):
            yield from zip(*(part.split(rows) for part in self._logits(r)), strict=True)

    def _tallies(self, representations: Tensor) -> Iterator[Tensor]:
        """The votes for each class, (n, C) in chunks."""
        columns = self._columns.to(representations.device)
        for logits, ids in self._chunks(representations):
            votes = self._votes(logits)
            yield votes.new_zeros(len(votes), len(self.classes)).scatter_add_(1, columns[ids], votes)

    def _check(self, representations: Tensor) -> None:
        check_representations(representations)
        limit = SIZES[self.references.dtype][1]
        if representations.dtype == torch.float64 and float(representations.detach().abs().max()) > limit:
            raise RangeError(f"representations must not exceed {limit:g}: the references are {self.references.dtype}")
        if representations.shape[1] != self.references.shape[1]:
            raise ValueError(
                f"representations have {representations.shape[1]} dimensions; "
                f"the classifier was made with {self.references.shape[1]}"
            )


class NearestClusters(SoftNeighbours):
    """k-nearest-cluster classification (kNC, section 3.3, equation 6): the references are the centres of an index.

    Args:
        index: the clusters of the training set.
        neighbours: L, how many nearest clusters vote.
        variance: sigma^2, the running average of the batch estimates (`MagnetLoss.variance`); the index's own
            variance when not given.
        scaling: the factor used in training.
        weights: (J,) positive factors on the votes of the clusters, for instance their numbers of members; None: all
            clusters vote alike, as in the paper.
        exact: False finds nearly all of the nearest clusters (99 %) in a fraction of the time where there are tens of
            thousands of clusters with enough structure for that (`magnet.tree`). Measured on points as far from the
            centres as the variance says; of queries far from all clusters it may find fewer.

    Examples:
        >>> index = ClusterIndex.fit(torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1]), 1)
        >>> NearestClusters(index).predict(torch.tensor([[1.5], [3.5]]))
        tensor([0, 1])
    """

    def __init__(
        self,
        index: ClusterIndex,
        neighbours: int = 128,
        *,
        variance: Tensor | float | None = None,
        scaling: float = 1.0,
        weights: Tensor | None = None,
        exact: bool = True,
    ) -> None:
        if not isinstance(index, ClusterIndex):
            raise TypeError(f"index must be a ClusterIndex; found {type(index).__name__}")
        if variance is None:
            # Zero when each cluster is one point: the limit is a hard vote of the nearest cluster.
            variance = max(float(index.variance), torch.finfo(index.centres.dtype).tiny)
        super().__init__(index.centres, index.centre_labels, neighbours, variance=variance, scaling=scaling)
        if weights is not None:
            _check_weights(weights, len(index), "weights")
            self._log_weights = weights.double().log()
        self.exact = exact
        self._grow()

    def _grow(self) -> None:
        """Make the tree over the centres, if one is asked for and pays."""
        self._tree: CentreTree | None = None
        self._beam: list[int] | None = None
        centres = self.references.detach()
        if self.exact or len(centres) < FEWEST:
            return
        tree, sample = CentreTree(self.references), sample_of(centres)
        # In place of examples: as far from their centres as examples are, in the direction of a centre beside it.
        _, near = nearest(centres[sample], centres, BESIDE + 1)
        turns = torch.arange(len(sample), device=near.device) % BESIDE + 1
        aside = centres[near[torch.arange(len(near), device=near.device), turns]] - centres[sample]
        queries = centres[sample] + torch.nn.functional.normalize(aside, dim=1) * self.variance**0.5
        self._beam = tree.beam(queries, self.neighbours)
        self._tree = None if self._beam is None else tree

    def _nearest_references(self, r: Tensor) -> tuple[Tensor, Tensor]:
        if self._tree is None or self._beam is None:
            return super()._nearest_references(r)
        return self._tree.nearest(r, self.neighbours, self._beam)

    def refined(
        self,
        representations: Tensor,
        labels: Tensor,
        *,
        pull: float = 0.1,
        example_weights: Tensor | None = None,
        iterations: int = 30,
    ) -> Self:
        """The same classifier with its centres moved to where their votes are right more often.

        Means are not the best centres. The refined ones minimise, from the means mu0 on,

            mean_n -log p(y_n | r_n)  +  pull * s / (2 sigma^2) * sum_j share_j |mu_j - mu0_j|^2

        over all clusters, with p of equation 6 and share_j = 1 / J. With one cluster a class this is logistic
        regression pulled towards the class means. Deterministic: L-BFGS with the gradient written out.

        Args:
            representations: (N, d) of the training set.
            labels: (N,) their classes, all of them known to the index.
            pull: how strongly the centres are held at their means.
            example_weights: (N,) of the examples in the mean; None: all alike.
            iterations: of L-BFGS, at most.
        """
        self._check(representations)
        labels = check_ids(labels, len(representations), "labels")
        check_positive(pull, "pull")
        iterations = check_whole(iterations, "iterations", 1)
        if example_weights is not None:
            _check_weights(example_weights, len(representations), "example_weights", least=0)
        if not self.scaling / (2 * self.variance) * max(1.0, pull) < SHARPEST:
            raise RangeError(
                f"votes with a variance of {self.variance:.3g} and a scaling of {self.scaling:.3g} are those of the "
                "nearest cluster alone: there is nothing to refine"
            )
        columns = torch.searchsorted(self.classes, labels.to(self.classes.device)).clamp_max(len(self.classes) - 1)
        if not torch.equal(self.classes[columns], labels.to(self.classes.device)):
            raise ValueError("the labels hold a class that has no cluster in the index")
        return self.moved_to(self._refine(representations, columns, pull, example_weights, iterations))

    def moved_to(self, centres: Tensor) -> Self:
        """The same classifier with its centres (J, d) at other places, such as refined ones that were saved."""
        check_representations(centres, "centres")
        if centres.shape != self.references.shape:
            raise ValueError(f"centres must be {tuple(self.references.shape)}; found {tuple(centres.shape)}")
        other = copy(self)
        other.references = centres.to(self.references)
        other._grow()
        return other

    def _refine(self, r: Tensor, columns: Tensor, pull: float, each: Tensor | None, iterations: int) -> Tensor:
        means, dtype = self.references, self.references.dtype
        share = r.new_full((len(r),), 1 / len(r)) if each is None else each.to(r) / each.sum()
        factor = self.scaling / (2 * self.variance)
        bias = self._log_weights.to(dtype) if self._log_weights is not None else means.new_zeros(len(means))
        # Around the mean of the centres, products lose no digits.
        middle = means.mean(dim=0)
        start = means - middle
        centres = start.clone()
        optimiser = torch.optim.LBFGS([centres], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe")

        def objective() -> Tensor:
            loss = pull * factor * (centres - start).square().sum() / len(centres)
            gradient = (2 * pull * factor / len(centres)) * (centres - start)
            base = bias - factor * centres.square().sum(dim=1)
            for rows in torch.arange(len(r)).split(max(1, TALLY_ELEMENTS // len(centres))):
                x, weight = r[rows].to(dtype) - middle, share[rows].to(dtype)[:, None]
                logits = torch.addmm(base, x, centres.T, alpha=2 * factor)
                own = logits.masked_fill(self._columns[None, :] != columns[rows, None], -torch.inf)
                loss = loss + (weight[:, 0] * (logits.logsumexp(dim=1) - own.logsumexp(dim=1))).sum()
                pushed = (logits.softmax(dim=1) - own.softmax(dim=1)) * weight  # d loss / d logits
                gradient.addmm_(pushed.T, x, alpha=2 * factor)
                gradient.sub_(pushed.sum(dim=0)[:, None] * centres, alpha=2 * factor)
            centres.grad = gradient
            return loss

        optimiser.step(objective)
        found = centres.detach() + middle
        return found if bool(found.isfinite().all()) else means


def _check_weights(weights: Tensor, count: int, what: str, least: float = torch.finfo(torch.float32).tiny) -> None:
    if not isinstance(weights, Tensor):
        raise TypeError(f"{what} must be a torch.Tensor of shape ({count},); found {type(weights).__name__}")
    whole = weights.shape == (count,) and weights.device.type != "meta" and weights.layout == torch.strided
    if not whole or weights.is_complex() or not bool((weights >= least).all() and 0 < weights.sum() < torch.inf):
        raise ValueError(f"{what} must be ({count},) positive numbers; found {tuple(weights.shape)}")


def novelty(representations: Tensor, centres: Tensor, variance: float) -> Tensor:
    """The distance (n,) to the nearest of the centres (J, k), in units of sigma.

    >>> novelty(torch.tensor([[0.5], [8.0]]), torch.tensor([[0.5], [4.5]]), variance=0.25)
    tensor([0., 7.])
    """
    distances, _ = nearest(representations, centres, 1)
    return (distances[:, 0] / max(variance, torch.finfo(torch.float64).tiny)).sqrt()


def novelty_left_out(representations: Tensor, index: ClusterIndex) -> Tensor:
    """As `novelty` for the index's own examples (N,), each of them left out of the mean of its cluster."""
    own = (representations - index.centres[index.assignments]).square().sum(dim=1).sqrt()
    size = index.sizes[index.assignments].double()
    deviation: float = max(float(index.variance), torch.finfo(torch.float64).tiny) ** 0.5
    return own * size / (size - 1).clamp_min(1) / deviation
