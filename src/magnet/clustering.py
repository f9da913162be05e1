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
from magnet.kmeans import cluster_block
from magnet.streams import streams

ClustersPerClass = int | Sequence[int] | Mapping[int, int]

BLOCK_ELEMENTS = 2**20  # numbers in a padded block: 4 MB of float32
PADDING = 1.5  # how much larger the largest class of a block may be than its smallest


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
    restarts = 1 if int(wanted.max()) == 1 else restarts  # one cluster is the mean, whatever the start
    for block in _blocks(sizes, wanted, x.shape[1], restarts):
        span = torch.arange(int(sizes[block].max()), device=x.device)
        real = span < sizes[block, None]  # (G, n): not padding
        rows = order[(starts[block, None] + span).clamp_max(len(x) - 1)]
        points = x.index_select(0, rows.flatten()).view(*rows.shape, -1)
        padded = not bool(real.all())
        if padded:
            points *= real[..., None]
        origin = points.sum(dim=1, keepdim=True) / sizes[block, None, None]
        points -= origin  # expanded squares stay accurate around the mean
        if padded:
            points *= real[..., None]
        keys = streams(seed, classes[block], restarts)
        with torch.autocast(x.device.type, enabled=False):
            best = cluster_block(points, real, wanted[block], keys, max_iterations)
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


def _blocks(sizes: Tensor, wanted: Tensor, d: int, restarts: int) -> Iterator[Tensor]:
    """Groups of classes (ids) to be stacked: alike in size, so that there is little padding."""
    by_size = sizes.argsort(stable=True)
    block: list[int] = []
    smallest = 0
    for c, n, k in zip(by_size.tolist(), sizes[by_size].tolist(), wanted[by_size].tolist(), strict=True):
        width = max(min(n, d), d // 8, restarts * k)  # of what is held of a point
        if block and (n > PADDING * smallest or (len(block) + 1) * n * width > BLOCK_ELEMENTS):
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
