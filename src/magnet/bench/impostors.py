"""The nearest impostors of all clusters: exact and nearly exact, against exact search by faiss."""

import json
import sys
from collections.abc import Callable

import torch

from magnet.bench.measurement import Measurement, duration, peak_memory, run_child, seconds
from magnet.index import ClusterIndex

CLUSTERS, DIM, WANTED, PER_CLASS = 100_000, 128, 11, 10


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """Time, memory and recall at 100,000 centres; each once, since each takes long."""
    what = f"{CLUSTERS:,} centres x {DIM}, the {WANTED} nearest of other classes"
    progress("exact")
    exact = run_child(__name__, "exact")
    progress("nearly exact")
    nearly = run_child(__name__, "nearly")
    progress("faiss")
    flat = run_child(__name__, "flat")
    recall, megabytes = 100 * nearly["recall"], exact["bytes"] / 2**20
    ratio, gain = exact["seconds"] / flat["seconds"], nearly["seconds"] / exact["seconds"]
    return [
        Measurement(
            "exact", what, duration(exact["seconds"]), f"{duration(flat['seconds'])}, faiss flat",
            ratio, ratio, ratio, 1,
            note="faiss: as many more neighbours as a class has clusters, since it cannot leave a class out",
        ),
        Measurement(
            "exact: memory", what, f"{megabytes:.0f} MB", "above the centres", megabytes, megabytes, megabytes, 1,
            bound=1024, unit="MB", note="peak of a process of its own",
        ),
        Measurement(
            "nearly exact", what, duration(nearly["seconds"]), f"{duration(exact['seconds'])}, exact", gain, gain, gain,
            1, note=f"peak memory {nearly['bytes'] / 2**20:.0f} MB above the centres",
        ),
        Measurement(
            "nearly exact: recall", what, f"{recall:.2f} %", "of the exact ones", recall, recall, recall, 1, bound=99.0,
            at_most=False, unit="%", note=f"over {nearly['checked']:,} clusters",
        ),
    ]  # fmt: skip


def centres(count: int = CLUSTERS) -> ClusterIndex:
    """An index like that of many fine classes: 500 groups of classes, and a class of ten clusters in each place."""
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(count) // PER_CLASS
    classes = int(labels[-1]) + 1
    group = 2 * torch.randn(500, DIM, generator=g)
    place = group[torch.randint(500, (classes,), generator=g)] + torch.randn(classes, DIM, generator=g)
    where = place[labels] + 0.7 * torch.randn(count, DIM, generator=g)
    return ClusterIndex(where, labels, torch.arange(count), torch.ones(()))


def _child(which: str) -> None:
    index = centres()
    if which == "flat":
        import faiss

        flat = faiss.IndexFlatL2(DIM)
        flat.add(index.centres.numpy())
        print(json.dumps({"seconds": seconds(lambda: flat.search(index.centres.numpy(), WANTED + PER_CLASS))}))
        return
    index.nearest_impostors(2, torch.arange(64), exact=False)  # loads faiss: libraries are not what is measured
    before = peak_memory()
    found: list[torch.Tensor] = []
    time = seconds(lambda: found.append(index.nearest_impostors(WANTED, exact=which == "exact")))
    answer: dict[str, float] = {"seconds": time, "bytes": peak_memory() - before}
    if which == "nearly":
        some = torch.randperm(CLUSTERS, generator=torch.Generator().manual_seed(1))[:20_000]
        true = index.nearest_impostors(WANTED, some, exact=True)
        answer["recall"] = float((found[0][some][:, :, None] == true[:, None]).any(dim=2).double().mean())
        answer["checked"] = len(some)
    print(json.dumps(answer))


if __name__ == "__main__":
    _child(sys.argv[1])
