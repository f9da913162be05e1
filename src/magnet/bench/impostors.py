"""The nearest impostors of all clusters: exact and nearly exact, against exact search by faiss."""

import json
import statistics
import sys
from collections.abc import Callable

import torch

from magnet.bench.measurement import Measurement, added_memory, compare_times, duration, run_child, seconds
from magnet.index import ClusterIndex, impostors_by_lists

CLUSTERS, DIM, WANTED, PER_CLASS, TIMED, CHECKED = 100_000, 128, 11, 10, 5_000, 4_000
KINDS = {  # in the first two a search of few lists misses impostors; in the last, one of any number that would pay
    "in groups": "in 500 groups, no farther apart than the classes in them",
    "8 dimensions": "a cloud of 8 hidden dimensions",
    "16 dimensions": "a cloud of 16 hidden dimensions",
}


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """Speed in turns on some of the rows; memory and the time of all rows once, in a process of its own; recall."""
    what = f"{CLUSTERS:,} centres x {DIM}, the {WANTED} nearest of other classes"
    progress("exact, and faiss flat, in turns")
    found = [_speed(what)]
    progress("exact, all rows")
    exact = run_child(__name__, "exact", "16 dimensions")
    megabytes = exact["bytes"] / 2**20
    found.append(
        Measurement(
            "exact: memory", what, f"{megabytes:.0f} MB", "above the centres", megabytes, megabytes, megabytes, 1,
            bound=1024, unit="MB", note=f"all rows, in {duration(exact['seconds'])}",
        )
    )  # fmt: skip
    for kind, how in KINDS.items():
        progress(f"nearly exact, {kind}")
        seen = run_child(__name__, "nearly", kind)
        recall = [100 * value for value in seen["recall"]]
        middle = statistics.median(recall)
        path = "lists were used" if seen["lists"] else "lists would not pay: searched exactly"
        found.append(
            Measurement(
                f"exact=False, {kind}: recall", f"{what}; {how}", f"{middle:.3f} %", "of the exact ones",
                middle, min(recall), max(recall), len(recall), bound=99.0, at_most=False, unit="%",
                note=f"over {len(recall)} x {CHECKED:,} clusters; {path}; all rows in {duration(seen['seconds'])}, "
                f"{seen['bytes'] / 2**20:.0f} MB above the centres",
            )
        )  # fmt: skip
    return found


def _speed(what: str) -> Measurement:
    import faiss

    index = centres("16 dimensions")
    flat = faiss.IndexFlatL2(DIM)
    flat.add(index.centres.numpy())
    rows = torch.randperm(CLUSTERS, generator=torch.Generator().manual_seed(1))[:TIMED]
    some = index.centres[rows].numpy()
    timed = compare_times(
        lambda: index.nearest_impostors(WANTED, rows),
        lambda: flat.search(some, WANTED + PER_CLASS),
        repeats=5,
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
        where = hidden @ torch.randn(d, DIM, generator=g) + 0.1 * torch.randn(CLUSTERS, DIM, generator=g)
    return ClusterIndex(where, labels, torch.arange(CLUSTERS), torch.ones(()))


def _child(which: str, kind: str) -> None:
    index = centres(kind)
    index.nearest_impostors(2, torch.arange(64))  # warm
    if which == "nearly":
        import faiss  # its libraries are not what is measured

        faiss.IndexFlatL2(DIM)
    tables: list[torch.Tensor] = []
    times: list[float] = []

    def work() -> None:
        times.append(seconds(lambda: tables.append(index.nearest_impostors(WANTED, exact=which == "exact"))))

    answer: dict[str, object] = {"bytes": added_memory(work), "seconds": times[0]}
    if which == "nearly":
        drawn = torch.randperm(CLUSTERS, generator=torch.Generator().manual_seed(1))
        answer["recall"] = [_recall(index, tables[0], some) for some in drawn[: 5 * CHECKED].split(CHECKED)]
        # A search that turned out exact has all of them, and says nothing of the lists.
        answer["lists"] = impostors_by_lists(index.centres, index.centre_labels, drawn[:1], WANTED) is not None
    print(json.dumps(answer))


def _recall(index: ClusterIndex, table: torch.Tensor, some: torch.Tensor) -> float:
    """The share of the exact impostors of some clusters that the table (J, m) has."""
    true = index.nearest_impostors(WANTED, some)
    return float((table[some][:, :, None] == true[:, None]).any(dim=1).double().mean())


if __name__ == "__main__":
    _child(sys.argv[1], sys.argv[2])
