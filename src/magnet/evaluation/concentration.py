"""Attribute concentration: how many neighbours of an example share its attributes, which are known beside its class.

The paper's attribute precision: for each example and each attribute that it has, the fraction of its k nearest
neighbours that have it too, as a function of k. Means are taken over the examples with an attribute, then over the
attributes, so that a frequent attribute does not drown the others.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from magnet.neighbours import CHUNK_ELEMENTS, nearest_of_chunk, split_rows

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Concentration:
    """Precision of A attributes at S neighbourhood sizes, and the precision of random neighbours.

    An attribute that no counted example has is nan, and left out of all means.
    """

    sizes: tuple[int, ...]
    counts: np.ndarray  # (A,) examples that have the attribute and were counted
    per_attribute: np.ndarray  # (A, S) mean fraction of their neighbours that have it too
    chance: np.ndarray  # (A,) the same fraction among all examples that could have been neighbours
    per_example: np.ndarray | None = None  # (n, S) where asked for: values of the n annotated examples, for a bootstrap

    @property
    def precision(self) -> np.ndarray:
        """Mean attribute precision (S,); nan where no attribute was counted."""
        found = self.per_attribute[self.counts > 0]
        return found.mean(axis=0) if len(found) else np.full(len(self.sizes), np.nan)

    @property
    def base(self) -> float:
        """The precision of random neighbours."""
        found = self.chance[self.counts > 0]
        return float(found.mean()) if len(found) else float("nan")

    @property
    def lift(self) -> np.ndarray:
        """Precision divided by the base (S,): 1 is chance."""
        return self.precision / self.base if self.base else np.full(len(self.sizes), np.nan)


def attribute_concentration(
    representations: Tensor,
    attributes: Any,
    *,
    sizes: tuple[int, ...] = SIZES,
    labels: Tensor | None = None,
    others_only: bool = False,
    per_example: bool = False,
) -> Concentration:
    """The fraction of the k nearest neighbours of an example that share an attribute with it.

    Args:
        representations: (N, d). Each example is left out of its own neighbours.
        attributes: (N, A), 1: has the attribute, 0: does not, nan: unknown. Neighbours of which an attribute is unknown
            do not count for it; examples without any known attribute are left out.
        sizes: the k, ascending. Where there are fewer neighbours than k, all are taken.
        labels: (N,) classes, for ``others_only``.
        others_only: count only neighbours of other classes. For attributes of whole classes, which all neighbours of
            the own class share.
        per_example: give the values of single examples too, whose mean is the precision.

    >>> points = torch.tensor([[0.0], [1.0], [1.5], [9.0], [9.5]])
    >>> found = attribute_concentration(points, [[1], [1], [0], [1], [1]], sizes=(1, 2))  # section 4.2
    >>> found.precision, found.base
    (array([0.75, 0.5 ]), 0.75)
    """
    if others_only and labels is None:
        raise ValueError("others_only needs labels: which neighbours are of other classes?")
    known, has, rows = _read(representations, attributes)
    representations = representations[rows]
    # Members of the query's own group are not its neighbours. The group is its class, or only the query itself.
    group = labels[rows].cpu() if others_only and labels is not None else torch.arange(len(rows))
    known_rest, has_rest = known.sum(0) - _group_sums(known, group), has.sum(0) - _group_sums(has, group)
    tally = _Tally(sizes, has.shape[1], per_example)
    tally.search(torch.arange(len(rows)), representations, group, (known, has, has, has_rest, known_rest))
    return tally.result(len(rows))


def concentration_within_classes(
    representations: Tensor,
    attributes: Any,
    labels: Tensor,
    *,
    sizes: tuple[int, ...] = SIZES,
    per_example: bool = False,
) -> Concentration:
    """As `attribute_concentration`, with neighbours of the example's own class only.

    ``chance`` is then the base rate of the classes themselves, the example left out, and ``lift`` says how much the
    space orders a class by its attributes, independently of how well classes are separated. An example counts for an
    attribute that some others of its class have and some do not: otherwise there is nothing to order.
    """
    known, has, rows = _read(representations, attributes)
    representations, labels = representations[rows], labels[rows].cpu()
    tally = _Tally(sizes, has.shape[1], per_example)
    for label in labels.unique():
        members = (labels == label).nonzero().squeeze(1)
        space, knows, owns = representations[members], known[members], has[members]
        known_rest, has_rest = knows.sum(0) - knows.long(), owns.sum(0) - owns.long()
        counted = owns & (has_rest > 0) & (has_rest < known_rest)
        tally.search(members, space, torch.arange(len(members)), (knows, owns, counted, has_rest, known_rest))
    return tally.result(len(rows))


class _Tally:
    """Sums over examples of the fractions, for each attribute and neighbourhood size."""

    def __init__(self, sizes: tuple[int, ...], attributes: int, per_example: bool) -> None:
        if list(sizes) != sorted(set(sizes)) or not sizes or sizes[0] < 1:
            raise ValueError(f"sizes must be ascending and at least 1; found {sizes}")
        self.sizes = sizes
        self.counts = torch.zeros(attributes, len(sizes), dtype=torch.long)
        self.fractions = torch.zeros(attributes, len(sizes), dtype=torch.double)
        self.asked = torch.zeros(attributes, dtype=torch.long)
        self.chance = torch.zeros(attributes, dtype=torch.double)
        # Of each pair of an example (p,) and an attribute (p,) that it has: the fractions (p, S), nan where unknown.
        self.pairs: list[tuple[Tensor, Tensor, Tensor]] | None = [] if per_example else None

    def search(self, rows: Tensor, space: Tensor, group: Tensor, tables: tuple[Tensor, ...]) -> None:
        """Add the examples ``rows`` (n,), which lie at ``space`` (n, d); those of one ``group`` (n,) are no neighbours.

        The tables are (n, A): what is known, what an example has, what of it counts, how many of its possible
        neighbours have it, and of how many this is known.
        """
        known, has, counted, has_rest, known_rest = tables
        group = group.to(space.device)
        for chunk in split_rows(torch.arange(len(rows)), len(rows)) if len(rows) else ():
            # Distances and attributes both fit into the memory budget.
            for some in chunk.split(max(1, CHUNK_ELEMENTS // (8 * (self.sizes[-1] + has.shape[1])))):
                distances, ids = nearest_of_chunk(space[some], space, self.sizes[-1], group[some], group)
                ids = ids.masked_fill(distances.isinf(), len(rows)).cpu()
                self._add(rows[some], ids, known, has, counted[some], has_rest[some].double() / known_rest[some])

    def _add(self, rows: Tensor, ids: Tensor, known: Tensor, has: Tensor, counted: Tensor, chance: Tensor) -> None:
        """Add the examples ``rows`` (n,), with the ids (n, k) of their neighbours, nearest first.

        Ids are rows of ``known`` and ``has`` (N, A); N stands for no neighbour. ``counted`` and ``chance`` are (n, A).
        """
        nobody = torch.zeros(1, has.shape[1])
        tables = [torch.cat([table.float(), nobody]) for table in (known, has)]
        seen, shared = (torch.zeros(len(ids), has.shape[1]) for _ in tables)
        done, fractions = 0, []
        for place, size in enumerate(self.sizes):
            if ids[:, done:size].numel():
                ring = ids[:, done:size]  # the neighbours beyond the previous size
                for total, table in zip((seen, shared), tables, strict=True):
                    total += embedding_bag(ring, table, mode="sum")
            done = size
            defined = counted & (seen > 0)  # the attribute is known of some neighbours
            self.counts[:, place] += defined.sum(0)
            fraction = shared.double() / seen
            self.fractions[:, place] += fraction.masked_fill(~defined, 0).sum(0)
            fractions.append(fraction[counted])
        if self.pairs is not None:
            examples, columns = counted.nonzero(as_tuple=True)
            self.pairs.append((rows[examples], columns, torch.stack(fractions, dim=1)))
        possible = counted & chance.isfinite()
        self.asked += possible.sum(0)
        self.chance += chance.masked_fill(~possible, 0).sum(0)

    def result(self, examples: int) -> Concentration:
        """The means, over so many examples of which attributes are known."""
        precision = self.fractions / self.counts  # 0 / 0 is nan
        # An attribute counts if its precision is defined at every size; the smallest size has the fewest neighbours.
        counts = self.counts[:, 0]
        chance = (self.chance / self.asked).numpy()
        values = None if self.pairs is None else self._values(examples, precision, counts > 0).numpy()
        return Concentration(self.sizes, counts.numpy(), precision.numpy(), chance, values)

    def _values(self, examples: int, precision: Tensor, counted: Tensor) -> Tensor:
        """Values (n, S) of n examples, whose mean is the mean precision of the attributes that are ``counted`` (A,).

        The precision P = 1/A sum_a p_a is a mean of ratios p_a = sum_i f_ia / n_a (f_ia: the fraction of the neighbours
        of i that have a too), and their denominators change as well when examples are resampled. To first order
        example i moves it by 1/A sum_a (f_ia - p_a) / n_a. The values v_i = P + n/A sum_a (f_ia - p_a) / n_a have the
        mean P, and the mean of resampled v_i moves as P does.
        """
        values = torch.zeros(examples, len(self.sizes), dtype=torch.double)
        for rows, columns, fractions in self.pairs or []:
            moved = (fractions - precision[columns]) / self.counts[columns]
            values.index_add_(0, rows, moved.masked_fill(fractions.isnan() | ~counted[columns, None], 0.0))
        return precision[counted].mean(dim=0) + values * examples / counted.sum()


def _read(representations: Tensor, attributes: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The examples with a known attribute: which are known (n, A), which they have (n, A), and their ids (n,)."""
    values = torch.as_tensor(attributes)
    if values.ndim != 2 or len(values) != len(representations):
        raise ValueError(
            f"attributes have shape {tuple(values.shape)}, expected ({len(representations)}, A): one row an example"
        )
    known = ~values.isnan() if values.is_floating_point() else torch.ones_like(values, dtype=torch.bool)
    rows = known.any(dim=1).nonzero().squeeze(1)
    return known[rows].cpu(), (values == 1)[rows].cpu(), rows


def _group_sums(table: Tensor, group: Tensor) -> Tensor:
    """For each row the sum over the rows of its group (n, A)."""
    _, place = group.unique(return_inverse=True)
    sums = torch.zeros(int(place.max()) + 1 if len(place) else 0, table.shape[1], dtype=torch.long)
    return sums.index_add_(0, place, table.long())[place]
