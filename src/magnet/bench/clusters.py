"""K-means of all classes at once against a loop over classes with scikit-learn and with faiss."""

import itertools
import statistics
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from magnet.bench.measurement import Measurement, Timed, duration, seconds
from magnet.clustering import kmeans_per_class

REPEATS = 11
RESTARTS, MAX_ITERATIONS = 3, 100
SEPARATION = {"well separated": 4.0, "overlapping": 0.2}  # spread of a class's modes, in standard deviations of a mode
NOTE = (
    "all: K-means++, 3 restarts, until no centre moves (scikit-learn: tol=0; faiss: until its objective no longer "
    "falls), at most 100 iterations, no subsampling; inertia beside ours: "
)


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """Ours against the faster of the two whose inertia is at most 1 % above ours."""
    zipf = 1 / np.arange(1, 1001)
    shapes = {
        "1,000 classes": ([100] * 1000, 128, 4, 1 / 3),
        "Zipf-sized classes": (np.maximum(4, 100_000 * zipf / zipf.sum()).astype(int).tolist(), 128, 4, 1 / 3),
        "10 classes": ([6000] * 10, 64, 8, 1.0),
    }
    found = []
    for (name, (sizes, d, k, bound)), (how, spread) in itertools.product(shapes.items(), SEPARATION.items()):
        progress(f"{name}, {how}")
        x, labels = blobs(sizes, d, k, spread)
        what = f"{len(x):,} x {d} in {len(sizes):,} classes x {k} clusters, {how}"
        found.append(_compare(f"{name}, {how}", what, x, labels, k, bound))
    return found


def _compare(name: str, what: str, x: Tensor, labels: Tensor, k: int, bound: float) -> Measurement:
    inertia: dict[str, float] = {}
    contenders = {"magnet": _ours, "scikit-learn": _by_scikit_learn, "faiss": _by_faiss}

    def run(who: str) -> float:
        return seconds(lambda: inertia.update({who: contenders[who](x, labels, k)}))

    for who in contenders:  # warm
        run(who)
    times = {who: [] for who in contenders}  # type: dict[str, list[float]]
    for _ in range(REPEATS):  # in turns, so that other load on the machine slows all of them
        for who in contenders:
            times[who].append(run(who))
    ours = inertia["magnet"]
    # Speed is compared at equal quality: a larger inertia is less work.
    equal = [who for who in ("scikit-learn", "faiss") if inertia[who] <= 1.01 * ours]
    rival = min(equal, key=lambda who: statistics.median(times[who]))
    others = ", ".join(
        f"{who} {inertia[who] / ours:.3f} in {duration(statistics.median(times[who]))}"
        for who in ("scikit-learn", "faiss")
    )
    return Timed.of(times["magnet"], times[rival]).measurement(name, what, rival, bound=bound, note=NOTE + others)


def blobs(sizes: list[int], d: int, modes: int, spread: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Classes of the given sizes, each a mixture of Gaussians, and their labels."""
    g = torch.Generator().manual_seed(seed)
    parts = []
    for size in sizes:
        centres = torch.randn(modes, d, generator=g) * spread
        parts.append(centres[torch.randint(modes, (size,), generator=g)] + torch.randn(size, d, generator=g))
    return torch.cat(parts), torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


def _ours(x: Tensor, labels: Tensor, k: int) -> float:
    return float(kmeans_per_class(x, labels, k, restarts=RESTARTS, max_iterations=MAX_ITERATIONS).inertia)


def _by_scikit_learn(x: Tensor, labels: Tensor, k: int) -> float:
    from sklearn.cluster import KMeans

    total = 0.0
    for points in _classes(x, labels):
        model = KMeans(min(k, len(points)), n_init=RESTARTS, max_iter=MAX_ITERATIONS, tol=0, random_state=0)
        total += float(model.fit(points).inertia_)
    return total


def _by_faiss(x: Tensor, labels: Tensor, k: int) -> float:
    import faiss

    total = 0.0
    for points in _classes(x, labels):
        model = faiss.Kmeans(
            x.shape[1], min(k, len(points)), nredo=RESTARTS, niter=MAX_ITERATIONS, early_stop_threshold=1e-10,
            init_method=faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS, min_points_per_centroid=1,
            max_points_per_centroid=len(points), seed=1,
        )  # fmt: skip
        model.train(points)
        total += float(model.assign(points)[0].sum())  # with the assignments, which the other two compute as well
    return total


def _classes(x: Tensor, labels: Tensor) -> Iterator[np.ndarray]:
    """The points of each class, contiguous, as a loop over classes would have them."""
    ordered = x[labels.argsort(stable=True)].numpy()
    yield from np.split(ordered, np.cumsum(np.bincount(labels.numpy()))[:-1])
