"""What a piece of work adds to the memory of a process (Linux)."""

import ctypes
from collections.abc import Callable
from pathlib import Path

from magnet.bench.measurement import peak_memory

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def added_memory(work: Callable[[], object]) -> int:
    """The peak while ``work`` runs above what was held before it, in bytes.

    What was freed on the way here must not hide what the work takes: memory that the allocator has kept for later is
    given back first, and the system's peak is set back.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
    held = resident()
    _RESET.write_text("5")
    if peak_memory() > held + 2**24:
        raise RuntimeError(f"the peak was not set back: {peak_memory()} bytes, with {held} held now")
    work()
    return peak_memory() - held


def resident() -> int:
    """The memory that this process holds now, in bytes."""
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024
