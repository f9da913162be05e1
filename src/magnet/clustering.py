"""K-means++ and Lloyd's iterations for all classes at once.

Classes are independent, so they are stacked: classes of similar size are padded to one (G, n, d) block, and every
step below works on the whole block with batched products. Blocks are small enough to stay in the processor's cache
over all iterations. Random numbers are a function of the seed and the label, so that a class is clustered alike
whichever classes stand beside it, and classes can be shared out among processes.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from magnet._kmeans import cluster_block
from magnet.neighbours import check_ids, check_positive, check_representations, check_whole

Part = TypeVar("Part")
Result = TypeVar("Result")
ClustersPerClass = int | Sequence[int] | Mapping[int, int]

BLOCK_ELEMENTS = 2**20  # numbers in a padded block: 4 MB of float32
FEW = 8  # blocks; where there would be fewer, smaller ones are made, so that several threads end at about the same time
SORTED = 2**18  # ids that are sorted at a time
MOST_RESTARTS = 10_000
PADDING = 1.5  # how much larger the largest class of a block may be than its smallest

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

    Args:
        x: (N, d) all points.
        order: (N,) their ids, class by class.
        starts: (G,) where each class starts in it.
        sizes: (G,) and how many points it has.

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
    inference = torch.is_inference_mode_enabled()  # a mode is that of a thread, and its tensors cannot leave it
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

    Args:
        groups: (N,) the group of each row, 0..J-1.
        sizes: (J,) rows in each group.

    Returns:
        (N,) the rows, group by group, ascending within each; four bytes each where that is enough.
    """
    kind = torch.int32 if len(groups) < 2**31 else torch.long
    if _rising(groups):  # group by group already, as folders are listed
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


def _rising(groups: Tensor) -> bool:
    """Whether no group comes before the one ahead of it; looks no further than it must, a block at a time."""
    blocks = zip(groups[:-1].split(SORTED), groups[1:].split(SORTED), strict=True)
    return all(bool((before <= after).all()) for before, after in blocks)
