"""The embedding of the whole training set with fixed weights, and the index that a refresh fits to it.

If all representations would not fit into memory, the index is fitted by shards of whole classes.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from magnet.backbones import has_batchnorm, reestimate_batchnorm
from magnet.clustering import ClustersPerClass, KMeansResult, distinct, kmeans_per_class
from magnet.files import inside, write_tensors
from magnet.index import ClusterIndex
from magnet.training.inputs import Pass, batches, evaluating
from magnet.training.workbench import Learner, Workbench

STATISTICS = 4096  # examples that batch-norm statistics are estimated from
CHUNK = 256  # inputs that are averaged at a time
SHARD = 2**27  # numbers in the representations of a shard: 512 MB


def embed(learner: Learner, rows: Tensor, examples: Pass, *, test: bool = False, seed: int = 0) -> Tensor:
    """Representations (n, d), on the CPU, of the examples ``rows`` of the data.

    They are of the plain views, or with ``test`` the mean over the test views that ``seed`` draws (section 4).
    """
    views = examples.views
    representations: Tensor | None = None  # one block, filled as it comes: there is no second copy at the end
    with evaluating(learner):
        for places, raw in examples.over(rows):
            seen = views.test(raw, seed) if test else [views.plain(raw)]
            mean = torch.stack([learner.represent(view) for view in seen]).mean(dim=0)
            if representations is None:
                representations = torch.empty(len(rows), mean.shape[1])
            representations[int(places[0]) : int(places[-1]) + 1] = mean
    assert representations is not None, "nothing to embed"
    if test and learner.method.normalised:
        representations = torch.nn.functional.normalize(representations, dim=1)
    return representations


def settle_batchnorm(bench: Workbench, device: torch.device, seed: int) -> None:
    """Estimate batch-norm statistics anew from random training examples, before an embedding pass."""
    if not has_batchnorm(bench.learner.network):
        return
    order = torch.randperm(len(bench.train), generator=torch.Generator().manual_seed(seed))[:STATISTICS]
    drawn = [part.tolist() for part in order.split(64)]
    raws = (raw for _, raw in batches(bench.data, bench.train, drawn, bench.workers))
    reestimate_batchnorm(bench.learner.network, (bench.views.plain(raw.to(device)) for raw in raws))


def input_space(bench: Workbench, device: torch.device) -> Tensor:
    """The training examples (N, d): vectors as they are, images as the network sees them before its first step."""
    if bench.data.kind == "vectors":
        return bench.data.batch(bench.train)
    return embed(bench.learner, bench.train, bench.examples(device))


def mean_inputs(bench: Workbench, assignments: Tensor, count: int) -> Tensor:
    """The mean input (count, ...) of the training examples assigned (N,) to each of ``count`` places."""
    total, rows = None, range(len(bench.train))
    chunks = [list(rows[start : start + CHUNK]) for start in range(0, len(rows), CHUNK)]
    for places, raw in batches(bench.data, bench.train, chunks, bench.workers):
        inputs = bench.views.plain(raw)
        total = torch.zeros(count, *inputs.shape[1:]) if total is None else total
        total.index_add_(0, assignments[places], inputs)
    assert total is not None
    size = torch.bincount(assignments, minlength=count).clamp_min(1)
    return total / size.view(-1, *[1] * (total.ndim - 1))


def shards_of(examples: int, dim: int) -> int:
    """The number of shards for representations of shape (examples, dim)."""
    return -(-examples * dim // SHARD)


def index_by_shards(
    represent: Callable[[Tensor], Tensor], labels: Tensor, clusters_per_class: ClustersPerClass, seed: int, shards: int
) -> ClusterIndex:
    """The index that ``ClusterIndex.fit`` gives for all representations, which are never all in memory at once.

    Classes are embedded and clustered in turn (`ClusterIndex.joined`). The network must not change in between.

    Args:
        represent: gives the representations (n, d) of the examples at some places (n,).
        labels: (N,) classes of all examples.
        clusters_per_class, seed: of K-means.
        shards: how many; each has whole classes, and about as many examples.
    """
    _, class_of, sizes = distinct(labels)
    shard = ((sizes.cumsum(0) - 1) * shards // len(labels)).to(torch.int16)  # of each class, in their order
    shard_of = shard[class_of]

    def clustered(number: int) -> tuple[Tensor, KMeansResult]:
        places = (shard_of == number).nonzero().squeeze(1)
        return places, kmeans_per_class(represent(places), labels[places], clusters_per_class, seed=seed)

    return ClusterIndex.joined(map(clustered, shard.unique().tolist()), len(labels))


def keep_refresh(
    folder: Path, step: int, total: int, every: int, wanted: int, representations: Tensor, index: ClusterIndex
) -> None:
    """Write this refresh to ``refreshes/`` if it is one of the ``wanted`` refreshes, which are spread over the run."""
    count = max(1, -(-total // every))
    chosen = {round(i * (count - 1) / max(wanted - 1, 1)) for i in range(wanted)}
    if step // every not in chosen:
        return
    target = inside(folder, "refreshes") / f"step-{step:08d}.safetensors"
    write_tensors(target, {"representations": representations.to(torch.float16), **index.tensors()})
