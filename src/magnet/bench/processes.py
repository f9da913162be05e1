"""Several processes on one machine: they hold the same index, and what share of the time they spend on telling it.

The time of a collective is from its start to its end on rank 0, so it includes waiting for the other ranks and what
overlaps with the backward pass: an upper bound.
"""

from collections.abc import Callable

from magnet.bench.measurement import Measurement, duration, run_child

COUNTS = (1, 2, 4)


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """1, 2 and 4 processes, each with a batch of its own."""
    found = []
    for count in COUNTS:
        several = f"{count} processes" if count > 1 else "1 process"
        progress(several)
        seen = run_child(
            "torch.distributed.run", "--standalone", "--nproc-per-node", count, "-m", "magnet.bench.rank",
            OMP_NUM_THREADS="1",
        )  # fmt: skip
        for what in ("step", "refresh"):
            times, waits = seen[what]["seconds"], seen[what]["collectives"]
            shares = sorted(100 * wait / time for wait, time in zip(waits, times, strict=True))
            middle = len(times) // 2
            found.append(
                Measurement(
                    f"{what}, {several}", f"mlp on 1280-d vectors, 48 a process; {seen[what]['calls']:g} "
                    "collectives; the same index on every rank: checked",
                    f"{duration(sorted(waits)[middle])} in collectives", f"{duration(sorted(times)[middle])} in all",
                    shares[middle], shares[0], shares[-1], len(times), unit="%",
                )
            )  # fmt: skip
    return found
