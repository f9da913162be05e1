"""K-means++ and Lloyd's iterations for all classes at once.

Classes are independent, so they are stacked: classes of similar size are padded to one (G, n, d) block, and every
step below works on the whole block with batched products. Blocks are small enough to stay in the processor's cache
over all iterations. Random numbers are a function of the seed and the label, so that a class is clustered alike
whichever classes stand beside it, and classes can be shared out among processes.

Within a block there are G classes and R restarts of each. A centre is the mean of some points of its class, and is held
as who they are: ones and zeros (n,), and one over their number. All that is needed of it are its products with the
points. In a class with fewer points than dimensions those come from the products of the points with each other, made
once.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from magnet.neighbours import check_ids, check_positive, check_representations, check_whole

Part = TypeVar("Part")
Result = TypeVar("Result")
ClustersPerClass = int | Sequence[int] | Mapping[int, int]

BLOCK_ELEMENTS = 2**20  # numbers in a padded block: 4 MB of float32
FEW = 8  # blocks; where there would be fewer, smaller ones are made, so that several threads end at about the same time
SORTED = 2**18  # ids that are sorted at a time
MOST_RESTARTS = 10_000
PADDING = 1.5  # how much larger the largest class of a block may be than its smallest

# Below this share of |x|^2 the expanded |x|^2 + |mu|^2 - 2 x mu has lost digits, and differences are taken instead.
BLURRED = 1e-3

# The constants of splitmix64, as signed numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


class KMeansResult(NamedTuple):
    """Clusters of every class, ordered by class, then by size (largest first)."""

    centres: Tensor  # (J, d) means of their members
    centre_labels: Tensor  # (J,)
    assignments: Tensor  # (N,) ids into centres
    inertia: Tensor  # () sum of squared distances to the own centre
    iterations: int  # the most that any class needed


def clusters_by_size(labels: Tensor, mean: int, least_members: int = 1) -> dict[int, int]:
    """K of each class in proportion to its size: ``mean`` for a class of mean size, one at least; of a mean of 1, one.

    A class that holds several kinds has more examples than one that holds a single kind, as a rule; where all classes
    are of about the same size, all have the same K.

    Args:
        labels: (N,) classes.
        mean: K of a class of N / C examples.
        least_members: a class is not cut into clusters of fewer examples on average.

    Examples:
        >>> clusters_by_size(torch.tensor([0] * 30 + [1] * 10 + [2] * 20), mean=2)
        {0: 3, 1: 1, 2: 2}
    """
    classes, sizes = torch.unique(labels, return_counts=True)
    wanted = (min(mean, len(labels)) * len(classes) * sizes.double() / len(labels)).round().long()
    wanted = wanted.minimum(sizes // least_members).clamp(1, None if mean > 1 else 1)
    return dict(zip(classes.tolist(), wanted.tolist(), strict=True))


def kmeans_per_class(
    representations: Tensor,
    labels: Tensor,
    clusters_per_class: ClustersPerClass = 8,
    *,
    seed: int = 0,
    restarts: int = 3,
    max_iterations: int = 100,
) -> KMeansResult:
    """Split every class into K clusters that minimise ``sum |r - mu|^2`` (section 3.1), started by K-means++.

    A class with fewer distinct points than K gets one cluster for each of them. No cluster is empty.

    Args:
        representations: (N, d).
        labels: (N,) integers; they need not be contiguous.
        clusters_per_class: K for all classes, one K for each class in the order of its label, or {label: K}.
        seed: the same seed gives the same clusters.
        restarts: K-means++ starts; the best is kept, for each class by itself.
        max_iterations: of Lloyd's algorithm; it stops earlier in a class whose assignments no longer change.

    Examples:
        >>> points = torch.tensor([[0.0], [0.2], [5.0], [1.0], [9.0]])
        >>> found = kmeans_per_class(points, torch.tensor([3, 3, 3, 8, 8]), 2)
        >>> found.centres.flatten(), found.centre_labels
        (tensor([0.1000, 5.0000, 1.0000, 9.0000]), tensor([3, 3, 8, 8]))
        >>> found.assignments
        tensor([0, 0, 1, 2, 3])
    """
    check_representations(representations, whole=True)
    labels = check_ids(labels, len(representations), "labels")
    check_positive(restarts, "restarts", MOST_RESTARTS)
    restarts = check_whole(restarts, "restarts", 1)
    max_iterations = check_whole(max_iterations, "max_iterations", 0)
    seed = check_whole(seed, "seed", -(2**63), 2**63 - 1)
    x = representations.detach()
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    with threads(1) as total, torch.autocast(x.device.type, enabled=False):
        return _cluster(x, labels, clusters_per_class, seed, restarts, max_iterations, total)


def _cluster(
    x: Tensor, labels: Tensor, k: ClustersPerClass, seed: int, restarts: int, max_iterations: int, total: int
) -> KMeansResult:
    """`kmeans_per_class`, with ``total`` threads for the blocks."""
    classes, class_of, sizes = distinct(labels)
    wanted = _wanted(k, classes).to(x.device).minimum(sizes)
    order = order_by_group(class_of, sizes)  # examples, class by class
    starts = sizes.cumsum(0) - sizes
    restarts = 1 if int(wanted.max()) == 1 else restarts  # one cluster is the mean, whatever the start
    # Every block writes its own part of these.
    local = torch.empty_like(class_of)  # cluster of each example, within its class
    found = torch.zeros_like(sizes)
    inertia = torch.zeros_like(sizes, dtype=torch.float64)

    def cluster(block: Tensor) -> tuple[Tensor, Tensor, int]:
        """The centres (j, d) of the classes of a block, whose they are (j,), and the iterations it took."""
        points, real, rows, origin = _stack(x, order, starts[block], sizes[block])  # noqa: F821 (deleted when all is done)
        asked = wanted[block]
        trials = 2 + asked.log().long()
        draws = _uniform(_streams(seed, classes[block], restarts), int(asked.max()), int(trials.max()))
        best = cluster_block(points, real, asked, trials, draws, max_iterations)
        if bool(real.all()):
            local[rows.flatten()] = best.assignments.flatten()
        else:
            local[rows[real]] = best.assignments[real]
        found[block] = best.active.sum(dim=1)
        inertia[block] = best.inertia
        return (best.centres + origin)[best.active], block.repeat_interleave(found[block]), best.iterations

    blocks = list(_blocks(sizes, wanted, x.shape[1], restarts))[::-1]  # the largest classes first
    total = total if x.device.type == "cpu" else 1
    centres, owners, iterations = zip(*in_threads(cluster, blocks, total), strict=True)
    del order
    owner = torch.cat(owners)
    by_class = owner.argsort(stable=True)
    assignments = local.add_((found.cumsum(0) - found)[class_of])
    return KMeansResult(
        torch.cat(centres)[by_class], classes[owner[by_class]], assignments, inertia.sum(), max(iterations)
    )


def _stack(x: Tensor, order: Tensor, starts: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The points of G classes, each around its mean, padded with zeros.

    They are the points x (N, d) whose ids stand in ``order`` (N,) from ``starts`` (G,) on, ``sizes`` (G,) of them.

    Returns:
        The points (G, n, d), which of them are real (G, n), their ids (G, n), and the means (G, 1, d).
    """
    span = torch.arange(int(sizes.max()), device=x.device)
    real = span < sizes[:, None]
    padded = not bool(real.all())
    rows = order[(starts[:, None] + span).clamp_max_(len(x) - 1)]
    points = x.index_select(0, rows.flatten()).view(*rows.shape, x.shape[1])
    if padded:
        points *= real[..., None]
    origin = points.sum(dim=1, keepdim=True) / sizes[:, None, None]
    points -= origin  # expanded squares stay accurate around the mean
    if padded:
        points *= real[..., None]
    return points, real, rows, origin


def _blocks(sizes: Tensor, wanted: Tensor, d: int, restarts: int) -> Iterator[Tensor]:
    """Groups of classes (ids) to be stacked: alike in size, so that there is little padding."""
    by_size = sizes.argsort(stable=True)
    width = sizes.clamp_max(d).maximum(wanted * restarts).clamp_min(d // 8)  # of what is held of a point
    fair = int((sizes * width).sum()) // FEW
    most = min(BLOCK_ELEMENTS, max(fair, BLOCK_ELEMENTS // 4))
    block: list[int] = []
    smallest = 0
    for c, n, w in zip(by_size.tolist(), sizes[by_size].tolist(), width[by_size].tolist(), strict=True):
        if block and (n > PADDING * smallest or (len(block) + 1) * n * w > most):
            yield torch.tensor(block, device=sizes.device)
            block = []
        if not block:
            smallest = n
        block.append(c)
    yield torch.tensor(block, device=sizes.device)


def _wanted(clusters_per_class: ClustersPerClass, classes: Tensor) -> Tensor:
    """K for each class (C,)."""
    if isinstance(clusters_per_class, Mapping):
        missing = [c for c in classes.tolist() if c not in clusters_per_class]
        if missing:
            raise ValueError(f"clusters_per_class has no entry for {len(missing)} classes, the first {missing[0]}")
        wanted = [clusters_per_class[c] for c in classes.tolist()]
    elif isinstance(clusters_per_class, Sequence):
        wanted = list(clusters_per_class)
        if len(wanted) != len(classes):
            raise ValueError(f"clusters_per_class has {len(wanted)} entries for {len(classes)} classes")
    else:
        wanted = [clusters_per_class]
    wrong = [k for k in wanted if isinstance(k, bool) or not isinstance(k, Integral) or k < 1]
    if wrong:
        raise ValueError(f"clusters_per_class must be whole numbers >= 1; found {wrong[0]!r}")
    return torch.tensor([min(int(k), 2**31) for k in wanted]).expand(len(classes))


def _streams(seed: int, labels: Tensor, restarts: int) -> Tensor:
    """The keys of one random stream for each label (G,) and restart: (G, restarts)."""
    keys = _hash(labels + _hash(torch.tensor(seed, device=labels.device)))
    return _hash(keys[:, None] + torch.arange(restarts, device=keys.device))


def _uniform(keys: Tensor, steps: int, count: int) -> Tensor:
    """Numbers in [0, 1) of each stream (..., steps, count), float64: a function of the key, the step and the place."""
    places = torch.arange(count, device=keys.device) + (torch.arange(steps, device=keys.device)[:, None] << 20)
    return (_hash(keys[..., None, None] + _hash(places)) & (2**53 - 1)).double() * 2.0**-53


def _hash(x: Tensor) -> Tensor:
    """The finaliser of splitmix64 on int64 tensors; products wrap around, shifts fill with zeros."""
    x = x.long() + _GOLDEN
    for multiplier, shift in ((_FIRST, 30), (_SECOND, 27)):
        x = (x ^ (x >> shift & (1 << 64 - shift) - 1)) * multiplier
    return x ^ (x >> 31 & (1 << 33) - 1)


@contextmanager
def threads(count: int) -> Iterator[int]:
    """Inside, torch's operations of this thread take ``count`` threads each; gives the number outside.

    Around parts given to `in_threads`, small operations should take one thread: torch's threads wait for more work by
    spinning, and hold up the parts for milliseconds.
    """
    before = torch.get_num_threads()  # also settles it: a thread that never asked sets it anew at its first operation
    torch.set_num_threads(count)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


def in_threads(work: Callable[[Part], Result], parts: Iterable[Part], total: int) -> list[Result]:
    """``work(part)`` of every part, in any order, several at a time, with ``total`` threads in all.

    A second thread speeds up no operation of microseconds, but it can take a part of its own, which is many of them.
    Parts are taken from the first on, so the largest should come first. The result of a part does not depend on the
    number of threads, unless there are more of them than parts.

    >>> sorted(in_threads(lambda part: part * part, range(5), total=2))
    [0, 1, 4, 9, 16]
    """
    waiting, results = deque(parts), list[Result]()
    inference = torch.is_inference_mode_enabled()  # each thread has its own mode, and inference tensors cannot leave it
    count = max(1, min(total, len(waiting)))

    def take() -> None:
        with torch.inference_mode(inference), threads(total // count):
            while waiting:
                try:
                    part = waiting.popleft()
                except IndexError:  # another was faster
                    break
                results.append(work(part))

    with ThreadPoolExecutor(count) as pool:
        helpers = [pool.submit(take) for _ in range(count - 1)]
        try:
            take()
        finally:
            waiting.clear()
        for helper in helpers:
            helper.result()
    return results


def distinct(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The labels that occur (C,) in rising order, the place of each label among them (N,), and their numbers (C,).

    What ``torch.unique`` with inverse and counts gives. Labels that are ids 0..C-1 already, as most are, are their own
    places: then nothing is made that is as long as the data.

    >>> distinct(torch.tensor([7, 3, 7]))
    (tensor([3, 7]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    least, most = (int(label) for label in labels.aminmax())
    if least < 0 or most >= max(2 * len(labels), SORTED):  # counts of all ids up to the largest would take more
        classes, places, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
        return classes, places, sizes
    counts = torch.bincount(labels)
    found = counts.nonzero().squeeze(1)
    if len(found) == len(counts):
        return found.to(labels.dtype), labels.long(), counts
    return found.to(labels.dtype), ((counts > 0).cumsum(0) - 1)[labels.long()], counts[found]


def order_by_group(groups: Tensor, sizes: Tensor) -> Tensor:
    """``groups.argsort(stable=True)``, block by block: one sort of all would hold four more tables as long.

    From the group of each row (N,), 0..J-1, and the sizes of the groups (J,), it gives the rows (N,), group by group,
    ascending within each; four bytes each where that is enough.
    """
    kind = torch.int32 if len(groups) < 2**31 else torch.long
    pairs = zip(groups[:-1].split(SORTED), groups[1:].split(SORTED), strict=True)
    if all(bool((before <= after).all()) for before, after in pairs):  # group by group already, as folders are listed
        return torch.arange(len(groups), dtype=kind, device=groups.device)
    order = torch.empty(len(groups), dtype=kind, device=groups.device)
    free = sizes.cumsum(0) - sizes  # where the next row of each group goes
    block = max(SORTED, len(sizes))
    for start in range(0, len(groups), block):
        ordered, rows = groups[start : start + block].sort(stable=True)
        counts = torch.bincount(ordered, minlength=len(sizes))
        shift = free - (counts.cumsum(0) - counts)  # from the place within the sorted block
        order[shift[ordered] + torch.arange(len(rows), device=rows.device)] = (rows + start).to(kind)
        free += counts
    return order


class Block(NamedTuple):
    """The clusters of G classes; the clusters of a class are ordered by size, the largest first."""

    centres: Tensor  # (G, K, d)
    active: Tensor  # (G, K) bool; the active ones come first
    assignments: Tensor  # (G, n)
    inertia: Tensor  # (G,) float64
    iterations: int


class Points(NamedTuple):
    """The points of G classes, each class around its mean. Padding is zeros: it adds nothing to any sum."""

    rows: Tensor  # (G, n, d)
    real: Tensor  # (G, n) bool, False for padding
    sizes: Tensor  # (G,) how many are real
    others: Tensor  # (G, n, n) the products of the points, if n <= d; else (G, d, n), the rows again: transposed
    norms: Tensor  # (G, n) squared
    padded: bool  # whether there is any padding


def points_of(rows: Tensor, real: Tensor) -> Points:
    """From rows (G, n, d) that are zero where ``real`` (G, n) is False."""
    sizes, padded = real.sum(dim=1), not bool(real.all())
    if rows.shape[1] <= rows.shape[2]:
        products = rows @ rows.transpose(1, 2)
        return Points(rows, real, sizes, products, products.diagonal(dim1=1, dim2=2).contiguous(), padded)
    norms = torch.linalg.vector_norm(rows, dim=2).square_()
    # Turned as one matrix, which takes a sixth of the time that a stack of large ones takes.
    turned = rows.flatten(0, 1).t().contiguous().view(rows.shape[2], *rows.shape[:2]).transpose(0, 1)
    return Points(rows, real, sizes, turned, norms, padded)


def _multiplied(x: Points) -> bool:
    """Whether the products of the points with each other are there."""
    return x.others.shape[1] == x.rows.shape[1]


def _only(x: Points, some: Tensor) -> Points:
    """The points of some of the classes (ids); rows that the products stand for are not copied."""
    rows = x.rows if _multiplied(x) else x.rows.index_select(0, some)
    real, sizes = x.real.index_select(0, some), x.sizes.index_select(0, some)
    return Points(rows, real, sizes, x.others.index_select(0, some), x.norms.index_select(0, some), x.padded)


def cluster_block(
    rows: Tensor, real: Tensor, wanted: Tensor, trials: Tensor, draws: Tensor, max_iterations: int
) -> Block:
    """The best of R K-means++ starts, chosen for each class by itself.

    Args:
        rows: (G, n, d) the points of G classes, each class around its mean; zero where they are padding.
        real: (G, n) bool, False for padding.
        wanted: (G,) clusters of each class.
        trials: (G,) the points that are tried for each next centre.
        draws: (G, R, K, T) random numbers in [0, 1), for as many centres and trials as any class has.
        max_iterations: of Lloyd's algorithm.
    """
    x = points_of(rows, real)
    member, active = _plus_plus(x, wanted, trials, draws)
    member, scores, iterations = lloyd(x, member, active, max_iterations)
    own = scores.add_(x.norms[:, None]).masked_fill_(~real[:, None], 0)
    inertia = own.sum(dim=2, dtype=torch.float64)
    # The first of the restarts that differ by rounding only: their clusters are the same in another order.
    good = inertia <= inertia.amin(dim=1, keepdim=True) + 1e-6 * x.norms.sum(dim=1, keepdim=True)
    best = torch.arange(len(rows), device=rows.device) * draws.shape[1] + good.to(torch.int8).argmax(dim=1)
    own, member = own.flatten(0, 1).index_select(0, best), member.flatten(0, 1).index_select(0, best)
    # Largest cluster first, so that ids do not depend on the order of the draws, and empty ones last.
    counts, rank = member.sum(dim=2).sort(dim=1, descending=True, stable=True)
    rank += torch.arange(len(rows), device=rows.device)[:, None] * rank.shape[1]
    member = member.flatten(0, 1).index_select(0, rank.flatten()).view_as(member)
    assignments = (torch.arange(rank.shape[1], device=rows.device, dtype=rows.dtype) @ member).long()
    means = (member @ rows).mul_(counts.clamp_min(1).reciprocal()[..., None])
    g, i = (own < BLURRED * x.norms).nonzero().unbind(1)
    own[g, i] = (rows[g, i] - means[g, assignments[g, i]]).square_().sum(dim=1)
    return Block(means, counts > 0, assignments, own.sum(dim=1, dtype=torch.float64), iterations)


def _plus_plus(x: Points, wanted: Tensor, trials: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Greedy K-means++: the point of each centre (G, R, K, n), and which centres are used (G, R, K).

    Each next centre is the best of a few points drawn in proportion to their squared distance from the centres so
    far. A class that has no point left at a distance gets no further centre.
    """
    groups, n, _ = x.rows.shape
    _, restarts, most, _ = draws.shape
    member = x.rows.new_zeros(groups, restarts, most, n)
    active = torch.zeros(groups, restarts, most, dtype=torch.bool, device=x.rows.device)
    starts = torch.arange(groups, device=x.rows.device)[:, None, None] * n
    slots = torch.arange(groups * restarts, device=x.rows.device)
    real = x.real[:, None].to(x.rows.dtype)
    distance = real.expand(-1, restarts, -1)  # the first centre: uniform over the points of the class
    near = BLURRED * x.norms[:, None]
    # A class has its own number of trials, whoever stands beside it.
    unasked = torch.arange(draws.shape[3], device=draws.device) >= trials[:, None, None]
    for k in range(most):
        mass = distance.cumsum(dim=2, dtype=torch.float64)
        # Of the points with mass, the first whose cumulated mass exceeds the draw.
        wish = (draws[:, :, k] if k > 0 else draws[:, :, 0, :1]) * mass[..., -1:]
        drawn = torch.searchsorted(mass, wish, right=True).clamp_max_(n - 1)  # (G, R, T)
        reached = _distances(x, starts + drawn)
        if k > 0:
            potential = torch.minimum(reached, distance[:, :, None]).sum(dim=3).masked_fill_(unasked, math.inf)
            best = potential.argmin(dim=2, keepdim=True)
            drawn = drawn.gather(2, best)
            best = best.flatten() + slots * reached.shape[2]
            reached = reached.flatten(0, 2).index_select(0, best).view(groups, restarts, n)
        else:
            reached = reached.squeeze(2).mul_(real)
        reached.scatter_(2, drawn, math.inf)
        close = reached < near
        if bool(close.any()):  # exact where it is small: a duplicate of a centre is at a distance of zero
            g, r, i = close.nonzero().unbind(1)
            reached[g, r, i] = (x.rows[g, i] - x.rows[g, drawn[g, r, 0]]).square_().sum(dim=1)
        reached.scatter_(2, drawn, 0.0)
        # A mass of zero means that all points of the class sit on centres already.
        use = (distance.gather(2, drawn) > 0) & (wanted[:, None, None] > k)
        used = int(use.sum())
        if used == 0:
            break
        closer = torch.minimum(reached, distance) if k > 0 else reached
        distance = closer if used == len(slots) else torch.where(use, closer, distance)
        member[:, :, k].scatter_(2, drawn, use.to(member.dtype))
        active[:, :, k] = use.squeeze(2)
    return member, active


def lloyd(x: Points, member: Tensor, active: Tensor, max_iterations: int) -> tuple[Tensor, Tensor, int]:
    """Lloyd's iterations until no point changes its centre.

    An emptied cluster restarts at the worst-served point of its class.

    Args:
        x: the points.
        member: (G, R, K, n) ones for the points whose mean each centre is at first; it is overwritten.
        active: (G, R, K) bool, which centres are used.
        max_iterations: after which it ends in any case.

    Returns:
        The members of the clusters (G, R, K, n) as ones and zeros, the squared distance of each point to its own mean
        less its norm (G, R, n), and how many iterations the slowest class took.
    """
    groups, restarts, _, n = member.shape
    members, own = torch.empty_like(member).flatten(0, 1), member.new_empty(groups * restarts, n)
    live = torch.arange(len(own), device=own.device).view(groups, restarts)  # those still under way
    share = member.sum(dim=3).clamp_min(1).reciprocal()
    rows, least, iteration = x.rows, own, 0
    held = member  # whose means the centres are: the members, but for centres that were put elsewhere
    for iteration in range(max_iterations + 1):
        before = member
        member, counts, least = _nearest(x, _scores(x, held, share, active))
        moved = torch.ne(member, before, out=before).flatten(2).amax(dim=2) > 0  # (G, R)
        held, share = member, counts.clamp_min(1).reciprocal()
        empty = active & (counts == 0)
        if bool(empty.any()):
            held, active = member.clone(), active.clone()
            for g, r in empty.any(dim=2).nonzero().tolist():
                _refill(rows[live[g, r] // restarts], held[g, r], share[g, r], active[g, r], empty[g, r])
                moved[g, r] = True
        if not bool(moved.any()):
            break
        if iteration == max_iterations:  # the means are newer than the scores
            least = (_scores(x, member, share, counts >= 0) * member).sum(dim=2)
            break
        of_class = moved.sum(dim=1)
        some, most = of_class.nonzero().squeeze(1), int(of_class.max())
        if 4 * len(some) > 3 * len(live) and most == live.shape[1]:
            continue
        # Go on with the classes that moved alone, and with as many of their restarts as moved in any of them.
        members[live.flatten()], own[live.flatten()] = member.flatten(0, 1), least.flatten(0, 1)
        x = _only(x, some) if len(some) < len(live) else x
        places = moved.byte().argsort(dim=1, descending=True, stable=True)[:, :most] + (
            torch.arange(len(live), device=live.device)[:, None] * live.shape[1]
        )
        places = places.index_select(0, some).flatten()
        live, share, active = _at(live, places, most), _at(share, places, most), _at(active, places, most)
        member, held = _at(member, places, most), _at(held, places, most)
    members[live.flatten()], own[live.flatten()] = member.flatten(0, 1), least.flatten(0, 1)
    return members.unflatten(0, (groups, restarts)), own.view(groups, restarts, n), iteration


def _at(part: Tensor, places: Tensor, most: int) -> Tensor:
    """Some of the restarts (G, R, ...) of some classes: (g, most, ...)."""
    chosen: Tensor = part.flatten(0, 1).index_select(0, places).unflatten(0, (-1, most))
    return chosen


def _scores(x: Points, member: Tensor, share: Tensor, active: Tensor) -> Tensor:
    """``|mu|^2 - 2 x mu``, the squared distance less the point's norm, (G, R, K, n), to the means mu of members."""
    flat, share, active = member.flatten(1, 2), share.flatten(1)[..., None], active.flatten(1)[..., None]
    if _multiplied(x):
        products = flat @ x.others
        bias = (flat * products).sum(dim=2, keepdim=True).mul_(share.square()).masked_fill_(~active, math.inf)
        return torch.addcmul(bias, products, share, value=-2).view_as(member)
    centres = (flat @ x.rows).mul_(share)
    bias = torch.linalg.vector_norm(centres, dim=2, keepdim=True).square_().masked_fill_(~active, math.inf)
    return torch.baddbmm(bias, centres, x.others, alpha=-2).view_as(member)


def _nearest(x: Points, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One for the nearest centre of each point, zero for the others (G, R, K, n), and the number of ones (G, R, K).

    Of equally near centres it is the first. The third is its score (G, R, n), NaN for padding.
    """
    least = scores.amin(dim=2, keepdim=True)
    if x.padded:
        least.masked_fill_(~x.real[:, None, None], math.nan)  # which equals nothing: padding belongs nowhere
    # An argmin would take many times as long as a minimum and a comparison.
    member = torch.eq(scores, least, out=torch.empty_like(scores))
    counts = member.sum(dim=3)
    if bool((counts.sum(dim=2) != x.sizes[:, None]).any()):
        member *= member.cumsum(dim=2) == 1
        counts = member.sum(dim=3)
    return member, counts, least.squeeze(2)


def _distances(x: Points, ids: Tensor) -> Tensor:
    """Squared distances (G, R, T, n) of some points of each class, (G, R, T) ids into all rows, to all of it."""
    flat = ids.flatten()
    norms = x.norms.flatten()[flat].view(len(ids), -1, 1) + x.norms[:, None]
    if _multiplied(x):
        products = x.others.flatten(0, 1).index_select(0, flat).view_as(norms)
        return norms.sub_(products, alpha=2).view(*ids.shape, -1)
    picked = x.rows.flatten(0, 1).index_select(0, flat).view(len(ids), -1, x.rows.shape[2])
    return torch.baddbmm(norms, picked, x.others, alpha=-2).view(*ids.shape, -1)


def _refill(points: Tensor, member: Tensor, share: Tensor, active: Tensor, empty: Tensor) -> None:
    """Put the empty ones of K centres of a class at its worst-served points (n, d).

    Where every point sits on its centre there is nothing to gain: those centres are given up.
    """
    own = (points - member.T @ ((member @ points) * share[:, None])).square_().sum(dim=1)  # zero for padding
    places = empty.nonzero().squeeze(1)
    worst = own.argsort(descending=True, stable=True)[: len(places)]
    worst = worst[own[worst] > 0]
    active[places] = False
    active[places[: len(worst)]] = True
    member[places[: len(worst)], worst] = 1.0
