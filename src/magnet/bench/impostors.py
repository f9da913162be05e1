"""The nearest impostors of all clusters: exact, against exact search by faiss; and by the tree, against exact search
and against inverted lists of faiss that find as many.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from magnet.bench.measurement import Measurement, Timed, added_memory, compare_times, duration, run_child, seconds
from magnet.index import ClusterIndex
from magnet.tree import RECALL, CentreTree, sample_of

Made = TypeVar("Made")

CLUSTERS, DIM, WANTED, PER_CLASS, TIMED, CHECKED, REPEATS = 100_000, 128, 11, 10, 5_000, 4_000, 5
KINDS = {  # in the first two few leaves find 99 %; in the third it takes many; in the last, more than would pay
    "in groups": "in 500 groups, no farther apart than the classes in them",
    "8 dimensions": "a cloud of 8 hidden dimensions",
    "16 dimensions": "a cloud of 16 hidden dimensions",
    "32 dimensions": "a cloud of 32 hidden dimensions",
}


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """Speed in turns on some of the rows; memory and the time of all rows once, in a process of its own; recall."""
    what = f"{CLUSTERS:,} centres x {DIM}, the {WANTED} nearest of other classes"
    progress("exact, and faiss flat, in turns")
    found = [_speed(what)]
    progress("exact, all rows")
    exact = run_child(__name__, "exact", "16 dimensions")
    note = f"all rows, in {duration(exact['seconds'])}"
    found.append(Measurement.of_memory("exact: memory", what, [exact["bytes"]], "above the centres", 1024, note))
    for kind, how in KINDS.items():
        progress(f"by the tree, {kind}")
        seen = run_child(__name__, "tree", kind)
        recall = [100 * value for value in seen["recall"]]
        path = (
            f"{seen['leaves']} of {seen['of']} leaves" if seen["leaves"] else "the tree does not pay: searched exactly"
        )
        found.append(
            Measurement.of(
                f"exact=False, {kind}: recall", f"{what}; {how}", f"{statistics.median(recall):.3f} %",
                "of the exact ones", recall, bound=99.0, at_most=False, unit="%",
                note=f"over {len(recall)} x {CHECKED:,} clusters; {path}; all rows in {duration(seen['seconds'])}, "
                f"{seen['bytes'] / 2**20:.0f} MB above the centres",
            )
        )  # fmt: skip
        for against, ratios in seen["ratios"].items():
            timed = Timed(seen["ours"], seen["theirs"][against], ratios)
            found.append(timed.measurement(f"exact=False, {kind}: time", f"{what}; {how}", against))
    return found


def _speed(what: str) -> Measurement:
    import faiss

    index = centres("16 dimensions")
    flat = faiss.IndexFlatL2(DIM)
    flat.add(index.centres.numpy())
    rows = torch.randperm(CLUSTERS, generator=torch.Generator().manual_seed(1))[:TIMED]
    some = index.centres[rows].numpy()
    timed = compare_times(
        lambda: index.nearest_impostors(WANTED, rows), lambda: flat.search(some, WANTED + PER_CLASS), repeats=5
    )
    return timed.measurement(
        "exact", f"{what}, for {TIMED:,} of them", "faiss flat",
        note="faiss looks for as many more as a class has clusters, since it cannot leave a class out",
    )  # fmt: skip


def centres(kind: str) -> ClusterIndex:
    """An index of classes with ten clusters each; see KINDS."""
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(CLUSTERS) // PER_CLASS
    classes = int(labels[-1]) + 1
    if kind == "in groups":
        group = torch.randn(500, DIM, generator=g)  # as far apart as the classes in them
        place = group[torch.randint(500, (classes,), generator=g)] + torch.randn(classes, DIM, generator=g)
        where = place[labels] + 0.7 * torch.randn(CLUSTERS, DIM, generator=g)
    else:
        d = int(kind.split()[0])
        hidden = torch.randn(classes, d, generator=g)[labels] + 0.7 * torch.randn(CLUSTERS, d, generator=g)
        where = hidden @ _directions(d) + 0.1 * torch.randn(CLUSTERS, DIM, generator=g)
    return ClusterIndex(where, labels, torch.arange(CLUSTERS), torch.ones(()))


def members_of(kind: str, index: ClusterIndex, count: int) -> tuple[Tensor, float]:
    """Examples (count, d) of some clusters, around them as clusters are around their class; and their variance."""
    g = torch.Generator().manual_seed(2)
    own = index.centres[torch.randint(len(index), (count,), generator=g)]
    if kind == "in groups":
        aside = 0.7 * torch.randn(count, DIM, generator=g)
    else:
        d = int(kind.split()[0])
        aside = 0.7 * torch.randn(count, d, generator=g) @ _directions(d)
    return own + aside, float(aside.square().sum(dim=1).mean())


def _directions(d: int) -> Tensor:
    return torch.randn(d, DIM, generator=torch.Generator().manual_seed(3))


def _child(which: str, kind: str) -> None:
    index = centres(kind)
    index.nearest_impostors(2, torch.arange(64))  # warm
    tables: list[Tensor] = []
    times: list[float] = []

    def work() -> None:
        times.append(seconds(lambda: tables.append(index.nearest_impostors(WANTED, exact=which == "exact"))))

    answer: dict[str, object] = {"bytes": added_memory(work), "seconds": times[0]}
    if which == "tree":
        drawn = torch.randperm(CLUSTERS, generator=torch.Generator().manual_seed(1))
        answer["recall"] = [
            recall_of(tables[0][some], index.nearest_impostors(WANTED, some))
            for some in drawn[: 5 * CHECKED].split(CHECKED)
        ]
        tree, sample, labels = CentreTree(index.centres), sample_of(index.centres), index.centre_labels
        # A search that turned out exact has all of them, and says nothing of the tree.
        beam = tree.beam(index.centres[sample], WANTED, labels[sample], labels)
        answer |= {"leaves": beam[0] if beam else None, "of": len(tree.centres), "ratios": {}}
        if beam is not None:
            answer |= _in_turns(index, beam, drawn)
    print(json.dumps(answer))


def _in_turns(index: ClusterIndex, beam: list[int], drawn: Tensor) -> dict[str, object]:
    """The time for all rows, by the tree and its rivals: building it, and searching some rows, scaled up to all."""
    points, labels, sample = index.centres, index.centre_labels, sample_of(index.centres)
    many, few = drawn[: 4 * TIMED], drawn[:TIMED]
    ours, theirs = [], {"exact": list[float](), "faiss lists": list[float]()}
    for _ in range(REPEATS):
        made, tree = _timed(lambda: CentreTree(points))
        made += seconds(partial(tree.beam, points[sample], WANTED, labels[sample], labels))
        search = seconds(partial(tree.nearest, points[many], WANTED, beam, labels[many], labels))
        ours.append(made + search * len(index) / len(many))
        theirs["exact"].append(seconds(lambda: index.nearest_impostors(WANTED, few)) * len(index) / len(few))
        made, by_lists = _timed(lambda: lists(index))
        theirs["faiss lists"].append(made + seconds(partial(by_lists, few)) * len(index) / len(few))
    return {
        "ours": statistics.median(ours),
        "theirs": {name: statistics.median(times) for name, times in theirs.items()},
        "ratios": {name: [a / b for a, b in zip(ours, times, strict=True)] for name, times in theirs.items()},
    }


def _timed(make: Callable[[], Made]) -> tuple[float, Made]:
    start = time.perf_counter()
    made = make()
    return time.perf_counter() - start, made


def lists(index: ClusterIndex) -> Callable[[Tensor], Tensor]:
    """A search (n,) -> (n, m) in inverted lists of faiss, in as many as find the same share of a sample as the tree."""
    import faiss

    points, labels = index.centres, index.centre_labels
    number = max(1, int(2 * len(points) ** 0.5))
    file = faiss.IndexIVFFlat(faiss.IndexFlatL2(DIM), DIM, number)
    file.cp.seed, file.cp.niter = 1, 10
    file.cp.min_points_per_centroid, file.cp.max_points_per_centroid = 1, 64
    file.train(points.numpy())
    file.add(points.numpy())

    def search(rows: Tensor) -> Tensor:
        # faiss cannot leave a class out: as many more are looked for as a class has clusters.
        near = torch.from_numpy(file.search(points[rows].numpy(), WANTED + PER_CLASS)[1])
        other = (near >= 0) & (labels[near] != labels[rows, None])
        first = (~other).to(torch.int8).argsort(dim=1, stable=True)[:, :WANTED]  # impostors first, in their order
        return near.gather(1, first).masked_fill_(~other.gather(1, first), -1)

    sample = sample_of(points)
    true = index.nearest_impostors(WANTED, sample)
    file.nprobe = 4
    while file.nprobe < number and recall_of(search(sample), true) < RECALL:
        file.nprobe = min(number, file.nprobe * 3 // 2)
    return search


def recall_of(found: Tensor, true: Tensor) -> float:
    """The share of the true neighbours (n, m) that were found (n, m)."""
    return float((found[:, :, None] == true[:, None]).any(dim=1).double().mean())


if __name__ == "__main__":
    _child(sys.argv[1], sys.argv[2])
