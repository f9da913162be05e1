"""Classifying and retrieval over a million vectors: time against exact search by faiss, and memory; kNC by the tree
over 100,000 centres against comparing with all of them.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from magnet.bench.impostors import centres, members_of, recall_of
from magnet.bench.measurement import Measurement, Timed, added_memory, compare_times, duration, run_child, seconds
from magnet.classify import NearestClusters, SoftNeighbours
from magnet.evaluation.errors import retrieval
from magnet.index import ClusterIndex

REFERENCES, DIM, CLASSES, CLUSTERS, QUERIES, NEIGHBOURS = 1_000_000, 128, 1000, 10_000, 10_000, 128


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """kNC against flat faiss, kNC by the tree, and the memory of soft kNN and of MAP@R."""
    found = [_speed(progress), *(row for kind in ("in groups", "8 dimensions") for row in _by_tree(kind, progress))]
    with TemporaryDirectory() as folder:
        x, _ = references()
        np.save(Path(folder) / "x.npy", x.numpy())
        del x
        for which, name in (("knn", "soft kNN: memory"), ("retrieval", "MAP@R: memory")):
            progress(name)
            seen = run_child(__name__, which, folder)
            what = f"{QUERIES:,} queries over {REFERENCES:,} x {DIM}"
            note = f"in {duration(seen['seconds'])}; {seen['result']}"
            found.append(Measurement.of_memory(name, what, [seen["bytes"]], "above the vectors", 2048, note))
    return found


def _speed(progress: Callable[[str], None]) -> Measurement:
    import faiss

    x, labels = references()
    q, _ = queries()
    # Any J centres cost the same: here each is an example.
    index = ClusterIndex(x[:CLUSTERS].clone(), labels[:CLUSTERS], torch.arange(CLUSTERS), torch.ones(()))
    rule = NearestClusters(index, NEIGHBOURS, variance=100.0)
    flat = faiss.IndexFlatL2(DIM)
    flat.add(x.numpy())
    del x
    progress("kNC, and faiss flat with a fifth of the queries, in turns")
    rule.predict(q)
    flat.search(q[:16].numpy(), NEIGHBOURS)
    ours, theirs = [], []
    for part in q.split(QUERIES // 5):
        ours.append(seconds(lambda: rule.predict(q)))
        theirs.append(5 * seconds(partial(flat.search, part.numpy(), NEIGHBOURS)))
    return Timed.of(ours, theirs).measurement(
        "kNC", f"{QUERIES:,} queries: {CLUSTERS:,} centres against {REFERENCES:,} examples, 128 neighbours",
        "faiss flat",
        bound=2 * CLUSTERS / REFERENCES, note="half of N / J is a ratio of 0.02",
    )  # fmt: skip


def _by_tree(kind: str, progress: Callable[[str], None]) -> list[Measurement]:
    """Time and recall of kNC by the tree, on examples that are no centres."""
    progress(f"kNC by the tree, {kind}")
    index = centres(kind)
    q, variance = members_of(kind, index, QUERIES)
    exact, near = (NearestClusters(index, NEIGHBOURS, variance=variance, exact=e) for e in (True, False))
    timed = compare_times(lambda: near.predict(q), lambda: exact.predict(q), repeats=5)
    found, true = near.nearest(q)[1], exact.nearest(q)[1]
    recall = [100 * recall_of(f, t) for f, t in zip(found.split(len(q) // 5), true.split(len(q) // 5), strict=True)]
    what = f"{QUERIES:,} queries: {len(index):,} centres x {index.centres.shape[1]}, {NEIGHBOURS} neighbours"
    return [
        timed.measurement(f"kNC, exact=False, {kind}: time", what, "exact", note="without making the tree"),
        Measurement.of(
            f"kNC, exact=False, {kind}: recall", what, f"{statistics.median(recall):.3f} %", "of the exact ones",
            recall, bound=99.0, at_most=False, unit="%",
        ),
    ]  # fmt: skip


def references() -> tuple[Tensor, Tensor]:
    """A million vectors of 1,000 classes, and their labels."""
    return _blobs(REFERENCES, seed=1)


def queries() -> tuple[Tensor, Tensor]:
    """Ten thousand others of the same classes."""
    return _blobs(QUERIES, seed=2)


def _blobs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    means = torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(0))
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=g)
    x = torch.randn(count, DIM, generator=g)
    for rows in torch.arange(count).split(100_000):
        x[rows] += means[labels[rows]]
    return x, labels


def _child(which: str, folder: str) -> None:
    q, truth = queries()
    labels = torch.randint(CLASSES, (REFERENCES,), generator=torch.Generator().manual_seed(1))
    x = torch.from_numpy(np.load(Path(folder) / "x.npy"))
    SoftNeighbours(x[:5000], labels[:5000], 10, variance=1.0).predict(q[:10])  # warm
    result = ""

    def work() -> None:
        nonlocal result
        if which == "knn":
            predicted = SoftNeighbours(x, labels, NEIGHBOURS, variance=100.0).predict(q)
            result = f"error {float((predicted != truth).double().mean()):.3f}"
        else:
            values = retrieval(q, truth, x, labels)
            result = f"MAP@R {values['map@r']:.3f}"

    start = time.perf_counter()
    added = added_memory(work)
    print(json.dumps({"seconds": time.perf_counter() - start, "bytes": added, "result": result}))


if __name__ == "__main__":
    _child(*sys.argv[1:])
