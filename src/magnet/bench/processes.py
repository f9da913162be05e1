"""Training by several processes on one machine: whether they hold the same index, and the time of communication.

Under torchrun this file is one rank of a short training run, and rank 0 prints the measurements. The time of a
collective is from its start to its end on rank 0. It includes waiting for other ranks and overlap with the backward
pass, so it is an upper bound.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from magnet.bench.measurement import Measurement, duration, run_child
from magnet.bench.step import vectors
from magnet.training.config import TrainConfig
from magnet.training.display import Display
from magnet.training.distribution import Ranks
from magnet.training.loop import Trainer
from magnet.training.train import make_fabric
from magnet.training.workbench import complete, make_workbench

COUNTS = (1, 2, 4)
BLOCKS = {"step": (5, 10), "refresh": (5, 1)}  # repeats, and calls in each


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """1, 2 and 4 processes, each with a batch of its own."""
    found = []
    for count in COUNTS:
        several = f"{count} processes" if count > 1 else "1 process"
        progress(several)
        seen = run_child(
            "torch.distributed.run", "--standalone", "--nproc-per-node", count, "-m", "magnet.bench.processes",
            OMP_NUM_THREADS="1",
        )  # fmt: skip
        for what in ("step", "refresh"):
            times, waits = seen[what]["seconds"], seen[what]["collectives"]
            shares = [100 * wait / time for wait, time in zip(waits, times, strict=True)]
            found.append(
                Measurement.of(
                    f"{what}, {several}", f"mlp on 1280-d vectors, 48 a process; {seen[what]['calls']:g} "
                    "collectives; the same index on every rank: checked",
                    f"{duration(median(waits))} in collectives", f"{duration(median(times))} in all", shares, unit="%",
                )
            )  # fmt: skip
    return found


def train_a_little() -> None:
    """One rank: train some steps, time them, and compare the index with the other ranks."""
    data = vectors(2000)
    with tempfile.TemporaryDirectory() as folder:
        config = TrainConfig(data="random", backbone="mlp", out=Path(folder), steps=10**6, workers=0, device="cpu")
        config = complete(config, data)
        fabric = make_fabric(config)
        fabric.launch()
        bench = make_workbench(config, data=data, ranks=Ranks(fabric.global_rank, fabric.world_size))
        trainer = Trainer(bench, fabric, Display("", silent=True), Path(folder), resume=False)
        trainer.learner.train()
        trainer.refresh()
        for _ in range(10):
            trainer._step()
        work = {"step": trainer._step, "refresh": trainer.refresh}
        found = {name: watch(work[name], *BLOCKS[name]) for name in work}
        check_index(trainer)
        if fabric.is_global_zero:
            print(json.dumps(found), flush=True)
        fabric.barrier()


def watch(function: Callable[[], None], repeats: int, calls: int) -> dict[str, Any]:
    """The seconds that a call takes, the seconds of it spent in collectives, and the number of collectives."""
    times, waits, count = [], [], 0
    for _ in range(repeats):
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            start = time.perf_counter()
            for _ in range(calls):
                function()
            times.append((time.perf_counter() - start) / calls)
        collectives = [event for event in seen.events() or [] if event.name.startswith("gloo:")]
        waits.append(sum(event.time_range.elapsed_us() for event in collectives) / 1e6 / calls)
        count += len(collectives)
    return {"seconds": times, "collectives": waits, "calls": count / (repeats * calls)}


def check_index(trainer: Trainer) -> None:
    """Raise unless every rank holds the same index as rank 0."""
    assert trainer.index is not None
    if trainer.world > 1:
        for name, tensor in trainer.index.tensors().items():
            first = tensor.clone()
            dist.broadcast(first, 0)
            if not torch.equal(first, tensor):
                raise RuntimeError(f"rank {dist.get_rank()} and rank 0 hold different {name}")


if __name__ == "__main__":
    train_a_little()
