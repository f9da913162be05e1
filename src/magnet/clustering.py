"""K-means++ and Lloyd's iterations for all classes at once.

Classes are independent, so they are stacked: classes of similar size are padded to one (G, n, d) block, and every
step below works on the whole block with batched products. Blocks are small enough to stay in the processor's cache
over all iterations. Random numbers are a function of the seed and the label, so that a class is clustered alike
whichever classes stand beside it, and classes can be shared out among processes.
"""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from magnet.checks import check_ids, check_positive, check_representations

# The constants of splitmix64, as signed numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64

ClustersPerClass = int | Sequence[int] | Mapping[int, int]

BLOCK_ELEMENTS = 2**20  # numbers in a padded block: 4 MB of float32


class KMeansResult(NamedTuple):
    """Clusters of every class, ordered by class, then by size (largest first)."""

    centres: Tensor  # (J, d) means of their members
    centre_labels: Tensor  # (J,)
    assignments: Tensor  # (N,) ids into centres
    inertia: Tensor  # () sum of squared distances to the own centre
    iterations: int  # the most that any class needed


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
    """
    check_representations(representations)
    check_ids(labels, len(representations), "labels")
    check_positive(restarts, "restarts")
    x = representations.detach()
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    classes, class_of, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    wanted = _wanted(clusters_per_class, classes).to(x.device).minimum(sizes)
    order = class_of.argsort(stable=True)  # examples, class by class
    starts = sizes.cumsum(0) - sizes

    local = torch.empty_like(class_of)  # cluster of each example, within its class
    found = torch.zeros_like(sizes)
    centres: list[Tensor] = []
    owners: list[Tensor] = []
    inertia = x.new_zeros((), dtype=torch.float64)
    iterations = 0
    for block in _blocks(sizes, wanted, x.shape[1]):
        span = torch.arange(int(sizes[block].max()), device=x.device)
        real = span < sizes[block, None]  # (G, n): not padding
        rows = order[(starts[block, None] + span).clamp_max(len(x) - 1)]
        points = x[rows].masked_fill_(~real[..., None], 0.0)
        origin = points.sum(dim=1, keepdim=True) / sizes[block, None, None]  # expanded squares stay accurate around it
        points = (points - origin).masked_fill_(~real[..., None], 0.0)
        with torch.autocast(x.device.type, enabled=False):
            best = _cluster_block(points, real, wanted[block], _keys(seed, classes[block]), restarts, max_iterations)
        local[rows[real]] = best.assignments[real]
        found[block] = best.active.sum(dim=1)
        centres.append((best.centres + origin)[best.active])
        owners.append(block[:, None].expand_as(best.active)[best.active])
        inertia += best.inertia.sum()
        iterations = max(iterations, best.iterations)

    by_class = torch.cat(owners).argsort(stable=True)
    assignments = local + (found.cumsum(0) - found)[class_of]
    return KMeansResult(
        torch.cat(centres)[by_class], classes[torch.cat(owners)[by_class]], assignments, inertia, iterations
    )


class _Block(NamedTuple):
    centres: Tensor  # (G, K, d)
    active: Tensor  # (G, K) bool; the active ones come first
    assignments: Tensor  # (G, n)
    inertia: Tensor  # (G,) float64
    iterations: int


def _cluster_block(
    points: Tensor,
    real: Tensor,
    wanted: Tensor,
    keys: Tensor,
    restarts: int,
    max_iterations: int,
) -> _Block:
    """The best of some K-means++ starts, chosen for each of the G classes by itself."""
    best: _Block | None = None
    trivial = bool((wanted == 1).all())  # one cluster: the mean, whatever the start
    for restart in range(1 if trivial else restarts):
        run = _lloyd(points, real, _plus_plus(points, real, wanted, _hash(keys + restart)), max_iterations)
        if best is None:
            best = run
            continue
        better = run.inertia < best.inertia
        best = _Block(
            torch.where(better[:, None, None], run.centres, best.centres),
            torch.where(better[:, None], run.active, best.active),
            torch.where(better[:, None], run.assignments, best.assignments),
            torch.where(better, run.inertia, best.inertia),
            max(run.iterations, best.iterations),
        )
    assert best is not None
    return best


def _plus_plus(points: Tensor, real: Tensor, wanted: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Greedy K-means++: centres (G, K, d), and which of them are used (G, K).

    Each next centre is the best of a few points drawn in proportion to their squared distance from the centres so
    far. A class that has no point left at a distance gets no further centre.
    """
    groups, _, d = points.shape
    most = int(wanted.max())
    trials = 2 + most.bit_length()
    centres = points.new_zeros(groups, most, d)
    active = real.new_zeros(groups, most)
    norms = points.square().sum(dim=2)
    distance = real.to(points.dtype)  # the first centre: uniform over the points of the class
    at = torch.arange(groups, device=points.device)
    for k in range(most):
        mass = distance.double().cumsum(dim=1)
        total = mass[:, -1:]
        draws = _uniform(keys, k, trials if k else 1)
        # Of the points with mass, the first whose cumulated mass exceeds the draw.
        candidates = torch.searchsorted(mass, draws * total, right=True).clamp_max(points.shape[1] - 1)
        if k:
            picked = points.gather(1, candidates[..., None].expand(-1, -1, d))  # (G, T, d)
            to_picked = norms[:, None] - 2 * picked @ points.transpose(1, 2) + picked.square().sum(2, keepdim=True)
            potential = torch.minimum(to_picked.clamp_min_(0), distance[:, None]).sum(dim=2)  # padding has none
            chosen = candidates.gather(1, potential.argmin(dim=1, keepdim=True)).squeeze(1)
        else:
            chosen = candidates.squeeze(1)
        # A mass of zero means that all points of the class sit on centres already.
        use = (total.squeeze(1) > 0) & (k < wanted) & (distance[at, chosen] > 0)
        centre = points[at, chosen]
        # Differences, not expanded squares: a duplicate of a centre is at a distance of exactly zero.
        reached = (points - centre[:, None]).square_().sum(dim=2).masked_fill_(~real, 0.0)
        distance = torch.where(use[:, None], reached if k == 0 else torch.minimum(distance, reached), distance)
        centres[:, k] = torch.where(use[:, None], centre, centres[:, k])
        active[:, k] = use
        if not bool(use.any()):
            break
    return centres, active


def _lloyd(points: Tensor, real: Tensor, start: tuple[Tensor, Tensor], max_iterations: int) -> _Block:
    """Lloyd's iterations until no assignment changes; an emptied cluster restarts at the worst-served point."""
    centres, active = start
    d = points.shape[2]
    most = centres.shape[1]
    assignments = real.new_full(real.shape, -1, dtype=torch.long)
    iterations = 0
    while True:
        scores = centres.square().sum(dim=2)[:, None] - 2 * points @ centres.transpose(1, 2)
        scores.masked_fill_(~active[:, None], torch.inf)
        nearest = scores.argmin(dim=2)
        settled = bool(((nearest == assignments) | ~real).all())
        assignments = nearest
        counts, sums = _members(points, real, assignments, most)
        empty = active & (counts == 0)
        if settled or iterations == max_iterations:
            break
        iterations += 1
        centres = torch.where(counts[..., None] > 0, sums / counts.clamp_min(1)[..., None], centres)
        if bool(empty.any()):
            served = (points - centres.gather(1, assignments[..., None].expand(-1, -1, d))).square_().sum(dim=2)
            worst = served.masked_fill_(~real, -1.0).topk(min(most, real.shape[1]), dim=1)
            turn = (empty.cumsum(dim=1) - 1).clamp(0, worst.indices.shape[1] - 1)
            refuge = points.gather(1, worst.indices.gather(1, turn)[..., None].expand(-1, -1, d))
            # Nothing to gain where every point already sits on its centre: that cluster is given up.
            gain = worst.values.gather(1, turn) > 0
            centres = torch.where((empty & gain)[..., None], refuge, centres)
            active = active & (gain | ~empty)
    centres = torch.where(counts[..., None] > 0, sums / counts.clamp_min(1)[..., None], 0.0)

    # Largest cluster first, so that ids do not depend on the order of the draws, and empty ones last.
    rank = counts.argsort(dim=1, descending=True, stable=True)
    assignments = rank.argsort(dim=1).gather(1, assignments)
    centres = centres.gather(1, rank[..., None].expand(-1, -1, d))
    active = counts.gather(1, rank) > 0
    own = (points - centres.gather(1, assignments[..., None].expand(-1, -1, d))).square_().sum(dim=2)
    return _Block(centres, active, assignments, own.masked_fill_(~real, 0.0).sum(1, dtype=torch.float64), iterations)


def _members(points: Tensor, real: Tensor, assignments: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """How many points each cluster has (G, K), and their sum (G, K, d)."""
    member = assignments[:, None] == torch.arange(most, device=points.device)[:, None]  # (G, K, n)
    member = (member & real[:, None]).to(points.dtype)
    return member.sum(dim=2), member @ points


def _blocks(sizes: Tensor, wanted: Tensor, d: int) -> Iterator[Tensor]:
    """Groups of classes (ids) to be stacked: alike in size, so that padding at most doubles a block."""
    by_size = sizes.argsort(stable=True)
    block: list[int] = []
    smallest = 0
    for c, n, k in zip(by_size.tolist(), sizes[by_size].tolist(), wanted[by_size].tolist(), strict=True):
        if block and (n > 2 * smallest or (len(block) + 1) * n * max(d, 4 * k) > BLOCK_ELEMENTS):
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
        wanted = [clusters_per_class] * len(classes)
    wrong = [k for k in wanted if isinstance(k, bool) or not isinstance(k, Integral) or k < 1]
    if wrong:
        raise ValueError(f"clusters_per_class must be whole numbers >= 1; found {wrong[0]!r}")
    return torch.tensor([int(k) for k in wanted])


def _keys(seed: int, labels: Tensor) -> Tensor:
    """One random stream for each label (G,)."""
    return _hash(labels + _hash(torch.tensor(seed, device=labels.device)))


def _uniform(keys: Tensor, step: int, count: int) -> Tensor:
    """Numbers in [0, 1) of each stream (G, count), float64: a function of the key, the step and the place."""
    places = torch.arange(count, device=keys.device) + (step << 20)
    return (_hash(keys[:, None] + _hash(places)) & (2**53 - 1)).double() * 2.0**-53


def _hash(x: Tensor) -> Tensor:
    """The finaliser of splitmix64 on int64 tensors; products wrap around, shifts fill with zeros."""
    x = x.long() + _GOLDEN
    for multiplier, shift in ((_FIRST, 30), (_SECOND, 27)):
        x = (x ^ (x >> shift & (1 << 64 - shift) - 1)) * multiplier
    return x ^ (x >> 31 & (1 << 33) - 1)
