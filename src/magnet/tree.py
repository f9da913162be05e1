"""A tree over centres: hierarchical K-means, and the nearest centres from its nearest leaves alone.

Where there are 100,000 centres and more, comparing each with all of them takes most of a refresh. Here they are divided
by K-means into branches, the branches into leaves of about a hundred, and a query is compared with the centres of the
leaves nearest to it. How many leaves that must be is measured, not guessed: some queries are compared with all centres
too, and so many leaves are looked into as hold 99.5 % of their neighbours. Where that takes as long as comparing with
all centres, as in noise of many dimensions, the answer is that the tree does not pay, and its callers search exactly.
"""

import math

import torch
from torch import Tensor

from magnet.clustering import distinct, in_threads, kmeans_per_class, order_by_group, threads
from magnet.neighbours import check_representations, check_whole, nearest, nearest_of_chunk, smallest, split_rows

LEAF = 128  # points in a leaf, at most
FILLED = 0.75  # of a leaf, on average
DRAWN = 256  # points for each branch, from which the branches are found
ITERATIONS = 10  # of K-means: more of them divide little better
SAMPLE = 1024  # queries that are compared with all points, to see how many leaves it takes
RECALL = 0.995  # of their neighbours: a little above the 99 % that are promised, since they are a sample
WORTH = 5  # one leaf in so many, at most: with more of them, products of whole blocks are as fast
FEWEST = 2**13  # points; below, comparing with all of them takes no longer than making a tree
TABLE = 2**23  # distances held at a time


class CentreTree:
    """Points divided by hierarchical K-means. The same points give the same tree, and a query the same answer.

    Args:
        points: (J, d), float32 or float64.
        seed: of K-means.

    Examples:
        >>> points = torch.randn(20_000, 4, generator=torch.Generator().manual_seed(0))
        >>> tree = CentreTree(points)
        >>> tree  # doctest: +ELLIPSIS
        CentreTree(20000 points in ... leaves)
        >>> beam = tree.beam(points[:100], 5)
        >>> distances, ids = tree.nearest(points[7:8], 5, beam)
        >>> int(ids[0, 0])
        7
    """

    def __init__(self, points: Tensor, *, seed: int = 0) -> None:
        check_representations(points, "points")
        seed = check_whole(seed, "seed", -(2**63), 2**63 - 1)
        self.points = points
        points = points.detach()
        self._leaf, self._sizes = _divide(points, seed)
        self._starts = self._sizes.cumsum(0) - self._sizes
        self._order = order_by_group(self._leaf, self._sizes).long()  # the points, leaf by leaf
        self.centres = torch.zeros_like(points[: len(self._sizes)]).index_add_(0, self._leaf, points)
        self.centres /= self._sizes[:, None]
        # Taken from the centre of their leaf, expanded squares lose no digits.
        self._offsets = points[self._order] - self.centres[self._leaf[self._order]]
        self._squares = self._offsets.square().sum(dim=1)
        # Among very many leaves the nearest are found by a tree over their centres.
        self._above = CentreTree(self.centres, seed=seed) if len(self.centres) >= FEWEST else None

    def __repr__(self) -> str:
        return f"CentreTree({len(self.points)} points in {len(self.centres)} leaves)"

    def beam(
        self, queries: Tensor, count: int, labels: Tensor | None = None, point_labels: Tensor | None = None
    ) -> list[int] | None:
        """How many leaves hold 99.5 % of the ``count`` nearest points of the queries; None where exact search pays.

        Args:
            queries: (n, d) a sample, which is compared with all points.
            count: neighbours wanted.
            labels: (n,) of the queries; with them, points of the query's own label do not count.
            point_labels: (J,) of the points.

        Returns:
            The number of leaves, followed by the same for the tree that finds these leaves, if there is one.
        """
        self._check(queries, count)
        most = len(self.centres) // WORTH
        if count > most * LEAF * FILLED:
            return None
        ranks, needed = torch.arange(most, device=self.centres.device), []
        for rows in split_rows(torch.arange(len(queries), device=queries.device), len(self.points)):
            own = None if labels is None else labels[rows]
            distances, true = nearest_of_chunk(queries[rows], self.points.detach(), count, own, point_labels)
            _, near = nearest(queries[rows], self.centres, most)
            rank = near.new_full((len(rows), len(self.centres)), most).scatter_(1, near, ranks.expand_as(near))
            needed.append(rank.gather(1, self._leaf[true])[distances.isfinite()])
        found = torch.cat(needed).sort().values
        leaves = 1 + int(found[math.ceil(RECALL * len(found)) - 1]) if len(found) else most + 1
        if leaves > most:
            return None
        return [leaves, *((self._above and self._above.beam(queries, leaves)) or [])]

    def nearest(
        self,
        queries: Tensor,
        count: int,
        beam: list[int],
        labels: Tensor | None = None,
        point_labels: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The nearest points of each query among those in its nearest leaves, nearest first.

        A query whose leaves hold fewer than ``count`` points is compared with all of them.

        Args:
            queries: (n, d).
            count: neighbours wanted; at most J are given.
            beam: what `beam` gave.
            labels: (n,) of the queries; with them, points of the query's own label do not count.
            point_labels: (J,) of the points.

        Returns:
            Squared distances (n, k) and ids (n, k), with k = min(count, J); infinite and -1 where there are fewer.
        """
        self._check(queries, count)
        queries = queries.to(self.points)
        with torch.no_grad():
            ids = self._search(queries.detach(), min(count, len(self.points)), beam, labels, point_labels)
        rows = max(1, TABLE // max(1, ids.shape[1] * queries.shape[1]))
        pairs = zip(queries.split(rows), ids.split(rows), strict=True)
        distances = torch.cat([(q[:, None] - self.points[near]).square().sum(dim=2) for q, near in pairs])
        distances, order = distances.masked_fill(ids < 0, torch.inf).sort(dim=1, stable=True)
        return distances, ids.gather(1, order)

    def _check(self, queries: Tensor, count: int) -> None:
        """Raise unless these are queries of the width of the points, and a number of neighbours."""
        check_representations(queries, "queries", finite=False)
        if queries.shape[1] != self.points.shape[1]:
            raise ValueError(f"queries have {queries.shape[1]} dimensions; the points have {self.points.shape[1]}")
        check_whole(count, "count", 1)

    def _search(
        self, queries: Tensor, count: int, beam: list[int], labels: Tensor | None, point_labels: Tensor | None
    ) -> Tensor:
        """The ids (n, count) of `nearest`, in about the right order."""
        near = self._nearest_leaves(queries, beam)
        leaves = near.shape[1]
        found = near.new_full((len(queries), count), -1)
        ordered = None if point_labels is None else point_labels[self._order]
        starts, sizes = self._starts.tolist(), self._sizes.tolist()

        def search(rows: Tensor) -> None:
            """Queries (n,) that are near each other: one product for each leaf, with all of them that look into it."""
            mine, own, into = queries[rows], None if labels is None else labels[rows], near[rows]
            table = mine.new_full((len(rows) * leaves, LEAF), torch.inf)
            which, pairs = into.flatten().sort(stable=True)
            entered, counts = which.unique_consecutive(return_counts=True)
            for leaf, pair in zip(entered.tolist(), pairs.split(counts.tolist()), strict=True):
                inside, who = slice(starts[leaf], starts[leaf] + sizes[leaf]), pair // leaves
                q = mine[who] - self.centres[leaf]
                distances = torch.addmm(self._squares[inside], q, self._offsets[inside].T, alpha=-2)
                distances += q.square().sum(dim=1, keepdim=True)
                if own is not None and ordered is not None:
                    distances.masked_fill_(own[who, None] == ordered[inside], torch.inf)
                table[:, : sizes[leaf]].index_copy_(0, pair, distances)
            values, at = smallest(table.view(len(rows), -1), min(count, leaves * LEAF))
            place = self._starts[into.gather(1, at // LEAF)] + at % LEAF
            ids = self._order[place.clamp_max_(len(self._order) - 1)]
            found[rows, : ids.shape[1]] = ids.masked_fill_(values.isinf(), -1)

        with threads(1) as total, torch.autocast(queries.device.type, enabled=False):
            chunks = near[:, 0].argsort(stable=True).split(max(1, TABLE // (leaves * LEAF)))
            in_threads(search, chunks, total if queries.device.type == "cpu" else 1)
        for rows in split_rows((found < 0).any(dim=1).nonzero().squeeze(1), len(self.points)):
            own = None if labels is None else labels[rows]
            distances, ids = nearest_of_chunk(queries[rows], self.points.detach(), count, own, point_labels)
            found[rows] = ids.masked_fill(distances.isinf(), -1)
        return found

    def _nearest_leaves(self, queries: Tensor, beam: list[int]) -> Tensor:
        """The nearest leaves (n, beam[0]) of each query."""
        if self._above is not None and len(beam) > 1:
            return self._above._search(queries, beam[0], beam[1:], None, None)
        return nearest(queries, self.centres, beam[0])[1]


def sample_of(points: Tensor, seed: int = 0) -> Tensor:
    """The ids (n,) of the points that a tree is measured with."""
    drawn = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    return drawn.to(points.device)


def _divide(points: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """The leaf (J,) of each point, and how many points each leaf has (L,)."""
    wanted = LEAF * FILLED
    branches = max(1, math.isqrt(int(len(points) / wanted)))
    drawn = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))[: branches * DRAWN]
    some = points[drawn.to(points.device)]
    together = torch.zeros(len(some), dtype=torch.long, device=points.device)
    centres = kmeans_per_class(some, together, branches, seed=seed, restarts=1, max_iterations=ITERATIONS).centres
    _, branch, sizes = distinct(nearest(points, centres, 1)[1][:, 0])
    parts = (sizes / wanted).ceil().long().tolist()
    centres = kmeans_per_class(points, branch, parts, seed=seed, restarts=1, max_iterations=ITERATIONS).centres
    # A leaf of another branch may be nearer than the leaves of the point's own branch.
    leaf = _nearest_one(points, centres, seed)
    # Leaves that have too many points, as where some lie dense and others wide apart, are divided again.
    while True:
        _, leaf, sizes = distinct(leaf)
        rows = (sizes > LEAF)[leaf].nonzero().squeeze(1)
        if len(rows) == 0:
            return leaf, sizes
        parts = (sizes[sizes > LEAF] / wanted).ceil().long().tolist()
        again = kmeans_per_class(points[rows], leaf[rows], parts, seed=seed, restarts=1, max_iterations=ITERATIONS)
        if len(again.centres) == len(parts):  # equal points
            return _cut(leaf, sizes)
        leaf = leaf.index_copy(0, rows, again.assignments + len(sizes))


def _cut(leaf: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The same leaves (J,), in pieces where they have too many points; and how many points each then has."""
    order = order_by_group(leaf, sizes).long()
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)  # among the points, leaf by leaf
    place -= (sizes.cumsum(0) - sizes)[leaf]
    pieces = (sizes + LEAF - 1) // LEAF
    leaf = (pieces.cumsum(0) - pieces)[leaf] + place * pieces[leaf] // sizes[leaf]
    return leaf, torch.bincount(leaf)


def _nearest_one(points: Tensor, centres: Tensor, seed: int) -> Tensor:
    """The nearest centre (J,) of each point; with very many centres approximately, by a tree over them."""
    if len(centres) >= FEWEST:
        tree = CentreTree(centres, seed=seed)
        beam = tree.beam(points[sample_of(points, seed)], 1)
        if beam is not None:
            return tree._search(points, 1, beam, None, None)[:, 0]
    return nearest(points, centres, 1)[1][:, 0]
