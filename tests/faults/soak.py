"""The long version of the tests of faults: prints a table of what was tried and what a person would have met.

make soak                     (about two hours)
make soak SHARE=0.05          (a twentieth of the cases)
"""

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import magnet
from export.test_service import X, many_clients, start
from faults.calls import random_calls
from faults.changed import changed_data
from faults.damage import damaged_runs, make_run
from faults.divergence import constant, diverging
from faults.forged import forged
from faults.hostile import damaged_inputs, fuzzed_inputs, hostile_data
from faults.options import odd_options, odd_readers
from faults.outcomes import GOOD, SAID, SAME, SILENT, Outcome, command
from faults.processes import (
    broken_ranks,
    can_mount,
    full_disks,
    killed_runs,
    killed_workers,
    readers_beside_a_trainer,
    readers_of_full_disks,
)
from magnet.files import tensors_digest
from training.short_runs import run, write_vectors

Cases = Iterable[tuple[str, Outcome]]
MOST_COST = 0.1  # of the time of a run, for checksums and fsync


def rows(folder: Path, share: float, seed: int, data: str) -> dict[str, Cases]:
    """The rows of the table: what is tried, and its cases, made as they are asked for."""

    def part(cases: int) -> int:
        return max(1, round(cases * share))

    finished = make_run(folder)
    found: dict[str, Cases] = {
        "files of a run damaged, then a command": damaged_runs(finished, folder / "damage", part(10_000), seed),
        "forged files of runs, bundles and estimators": forged(finished, folder / "forged", part(2_000), seed),
        "forged files of an interrupted run, then --resume": forged(
            finished, folder / "resumed", part(500), seed, resumed=True
        ),
        "hostile data and settings": hostile_data(folder / "hostile"),
        "inputs that hypothesis makes": fuzzed_inputs(folder / "fuzzed", part(10_000), seed),
        "damaged data files": damaged_inputs(folder / "inputs", part(10_000), seed),
        "data or labels changed under a run, then a command": changed_data(folder / "changed", share, seed),
        "every option of train, odd values": odd_options(folder / "options", None if share >= 1 else part(800), seed),
        "options of the other commands, odd values": odd_readers(
            finished, folder / "readers", None if share >= 1 else part(900), seed
        ),
        "random calls of the public API": random_calls(folder / "calls", part(2_000), seed),
        "divergence, every method": diverging(folder / "divergence"),
        "inputs that say nothing": constant(folder / "constant"),
        "readers beside a trainer": readers_beside_a_trainer(folder / "beside", part(600)),
        "trainings killed and resumed": killed_runs(folder / "killed", part(200), seed),
        "a worker killed": killed_workers(folder / "workers"),
        "memory over a long training": flat_memory(folder / "memory", 3600 * share),
        "requests of fifty clients at once": fifty_clients(folder / "service", max(5.0, 60 * share)),
        "time for checksums and for reaching the disk": safety_cost(folder / "cost", data),
    }
    if hasattr(signal, "SIGSTOP") and Path("/proc/self/environ").exists():
        found["a rank stopped or killed"] = broken_ranks(folder / "ranks", part(8), seed)
    if can_mount():
        found["trainings on full disks"] = full_disks(folder / "full", [4 + 12 * i for i in range(part(32))])
        found["readers on full and read-only disks"] = readers_of_full_disks(folder / "disks", finished)
    return found


def flat_memory(folder: Path, seconds: float) -> Cases:
    """Training at 512 dimensions for so long: memory and open files are, at the end, what they were early on."""
    folder.mkdir(parents=True)
    data = write_vectors(folder / "x.npz", count=2000, classes=20)
    peaks, handles = [], []
    end = time.monotonic() + seconds
    while len(peaks) < 4 or time.monotonic() < end:
        run(folder / "run", data, dim=512, hidden=512, epochs=3, preset="paper/default")
        shutil.rmtree(folder / "run")
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        handles.append(len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0)
    flat = peaks[-1] <= 1.05 * peaks[1] and handles[-1] <= handles[1]
    words = (
        f"{len(peaks)} runs, {peaks[1] / 1024:.0f} to {peaks[-1] / 1024:.0f} MB, {handles[1]} to {handles[-1]} files"
    )
    yield words, Outcome(SAME if flat else SILENT, words)


def fifty_clients(folder: Path, seconds: float) -> Cases:
    """Clients of a service that ask for so long, one request after the other: each gets the answer to its own."""
    model = magnet.load(run(folder / "run", "digits", steps=20, start="random"))
    server, thread, port = start(model)
    made, wrong = many_clients(port, 50, sys.maxsize, seconds, model.classify(X).labels)
    server.should_exit = True
    thread.join(10)
    for number in range(made):
        yield f"request {number}", Outcome(SILENT, str(wrong[number])) if number < len(wrong) else Outcome(SAME, "")


def safety_cost(folder: Path, data: str) -> Cases:
    """A training with the default settings: the seconds for checksums and fsync, against all others."""
    spent = Counter[str]()

    def timed(what: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            begun = time.perf_counter()
            try:
                return work(*args)
            finally:
                spent[what] += time.perf_counter() - begun

        return run

    begun, processor = time.perf_counter(), time.process_time()
    with (
        patch("os.fsync", timed("fsync", os.fsync)),
        patch("magnet.files.tensors_digest", timed("checksums", tensors_digest)),
    ):
        outcome = command("train", "--data", data, "--out", folder / "run", "--quiet", "--no-evaluate", seconds=3600)
    total, processor = time.perf_counter() - begun, time.process_time() - processor
    share = spent.total() / (total - spent.total())
    parts = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in spent.items())
    words = f"{100 * share:.1f} % more time ({parts}; the run {total:.0f} s, {processor:.0f} s of the processor)"
    yield words, Outcome(SAME if outcome.kind == SAME and share <= MOST_COST else SILENT, words)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--share", type=float, default=1.0, help="of the cases of the whole soak")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--data", default="digits", help="to measure the time on")
    options.add_argument("--only", default="", help="rows whose name has this in it")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    bad = 0
    print("| tried | cases | as without the fault | said | not as a user should meet it | seconds |")
    print("|---|---|---|---|---|---|", flush=True)
    try:
        for name, cases in rows(folder, given.share, given.seed, given.data).items():
            if given.only not in name:
                continue
            start, kinds = time.monotonic(), Counter[str]()
            for what, outcome in cases:
                kinds[outcome.kind] += 1
                if outcome.kind not in GOOD or outcome.words == what:  # of one case, its measurement
                    more = "" if outcome.words == what else f": {outcome.words}"
                    print(f"{name}: {what}: {outcome.kind}{more}", file=sys.stderr, flush=True)
            wrong = sum(count for kind, count in kinds.items() if kind not in GOOD)
            bad += wrong
            took = time.monotonic() - start
            print(
                f"| {name} | {sum(kinds.values()):,} | {kinds[SAME]:,} | {kinds[SAID]:,} | {wrong} | {took:.0f} |",
                flush=True,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
