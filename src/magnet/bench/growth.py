"""Time and memory of the index, the sampler and evaluation as the data grows, and a run over five million vectors."""

import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from magnet.bench.measurement import Measurement, duration, peak_memory, run_child
from magnet.classify import NearestClusters, SoftNeighbours
from magnet.index import ClusterIndex
from magnet.sampler import NeighbourhoodSampler

SIZES = (100_000, 300_000, 1_000_000, 2_500_000, 5_000_000)
DIM, CLASSES, PER_CLASS, QUERIES, BATCHES, STEPS = 128, 10_000, 2, 1000, 100, 1000
TEST = 1000  # vectors of the run's file that are not trained on
PIECES = ("index", "sampler", "evaluation")
PEAK = "peak of a process of its own, with its libraries"


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """Exponents of time, the most memory above the data, and the run; each size once."""
    with TemporaryDirectory() as folder:
        progress(f"making {SIZES[-1]:,} vectors")
        write_vectors(Path(folder), SIZES[-1] + TEST)
        seen = []
        for size in SIZES:
            progress(f"{size:,} vectors")
            seen.append(run_child(__name__, "pieces", folder, size))
        progress(f"a run of {STEPS:,} steps over {SIZES[-1]:,} vectors")
        run = run_child(__name__, "run", folder)
    what = f"{SIZES[0]:,} to {SIZES[-1]:,} x {DIM} in {CLASSES:,} classes, from a memory-mapped file"
    found = []
    for piece in PIECES:
        times = [child[piece] for child in seen]
        exponent = slope(SIZES, times)
        steps = [slope(SIZES[i : i + 2], times[i : i + 2]) for i in range(len(SIZES) - 1)]
        found.append(
            Measurement(
                f"{piece}: exponent", what, duration(times[-1]), f"{duration(times[0])} for {SIZES[0]:,}", exponent,
                min(steps), max(steps), len(SIZES), bound=1.05, unit="",
                note="of the time as a power of N, fitted; from and to: between neighbouring sizes. "
                + ", ".join(duration(t) for t in times),
            )
        )  # fmt: skip
    above = [child["bytes"] - size * DIM * 4 for child, size in zip(seen, SIZES, strict=True)]
    return [*found, Measurement.of_memory("memory", what, above, "above the data block", 2048, PEAK), *_of_run(run)]


def _of_run(run: dict[str, Any]) -> list[Measurement]:
    what = f"two refreshes and {STEPS:,} steps of `magnet train`, {SIZES[-1]:,} x {DIM}, linear to 64"
    more, done = run["bytes"] - (SIZES[-1] + TEST) * DIM * 4, 100 * run["steps"] / STEPS
    return [
        Measurement.of(
            "a whole run", what, duration(run["seconds"]), "of the steps asked for", [done], bound=100, at_most=False,
            unit="%", note=run["spent"],
        ),
        Measurement.of_memory("a whole run: memory", what, [more], "above the data block", 2048, PEAK),
    ]  # fmt: skip


def slope(sizes: tuple[int, ...], times: list[float]) -> float:
    """The exponent of time as a power of size, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def write_vectors(folder: Path, count: int) -> None:
    """``x.npy`` (count, d) and ``y.npy`` of 10,000 classes of two overlapping modes, in pieces."""
    rng = np.random.default_rng(0)
    modes = 1.5 * rng.standard_normal((CLASSES * 2, DIM), np.float32)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (count, DIM))
    y = np.arange(count) % CLASSES
    for start in range(0, count, 100_000):
        labels = y[start : start + 100_000]
        piece = rng.standard_normal((len(labels), DIM), np.float32)
        x[start : start + len(labels)] = piece + modes[2 * labels + rng.integers(2, size=len(labels))]
    x.flush()
    np.save(folder / "y.npy", y)


def _pieces(folder: Path, size: int) -> dict[str, float]:
    x = torch.from_numpy(np.load(folder / "x.npy", mmap_mode="c")[:size])
    y = torch.from_numpy(np.load(folder / "y.npy")[:size])
    ClusterIndex.fit(x[:1000].clone(), torch.arange(1000) % 10, 2)  # warm
    seen: dict[str, float] = {}
    start = time.perf_counter()
    index = ClusterIndex.fit(x, y, PER_CLASS)
    seen["index"] = time.perf_counter() - start
    start = time.perf_counter()
    sampler = NeighbourhoodSampler(index, batches=BATCHES)
    for batch in sampler:
        sampler.update(batch, torch.ones(len(batch)))
    seen["sampler"] = time.perf_counter() - start
    start = time.perf_counter()
    queries = x[:QUERIES] + 1.0
    NearestClusters(index).predict(queries)
    SoftNeighbours(x, y, variance=index.variance).predict(queries)
    seen["evaluation"] = time.perf_counter() - start
    return seen | {"bytes": peak_memory()}


def _run(folder: Path) -> dict[str, object]:
    from magnet.training.config import TrainConfig
    from magnet.training.train import train

    x, y = np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy")
    np.savez(folder / "vectors.npz", X=x, y=y, test=np.arange(len(y)) >= len(y) - TEST)
    del x
    (folder / "x.npy").unlink()  # the copy is what the run reads
    config = TrainConfig(
        data=str(folder / "vectors.npz"), out=folder / "run", preset="paper/default", backbone="linear", dim=64,
        steps=STEPS, refresh_every=-(-STEPS // 2), clusters_per_class=PER_CLASS, evaluate=False, device="cpu",
    )  # fmt: skip
    start = time.perf_counter()
    run = train(config, silent=True)
    taken = time.perf_counter() - start
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    spent = next(record["seconds"] for record in records if record["kind"] == "time")
    text = ", ".join(f"{name} {duration(value)}" for name, value in spent.items())
    last = max(record["step"] for record in records if record["kind"] == "train")
    finite = all(math.isfinite(record["loss"]) for record in records if record["kind"] == "train")
    return {"seconds": taken, "bytes": peak_memory(), "steps": last if finite else 0, "spent": text}


if __name__ == "__main__":
    place = Path(sys.argv[2])
    print(json.dumps(_run(place) if sys.argv[1] == "run" else _pieces(place, int(sys.argv[3]))))
