"""A measurement: how two things are timed fairly (in turns, many times, as the median of ratios), what memory some
work adds, and the stamp that says where and with what it was measured; and results as a file, as a table on the
terminal, and in the documents.
"""

import ctypes
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.table import Table

from magnet import __version__
from magnet.errors import UserError
from magnet.files import read_json

PACKAGES = ("torch", "numpy", "scikit-learn", "faiss-cpu", "pytorch-metric-learning", "lightning-fabric")
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
Results = dict[str, dict[str, Any]]  # by part: where and when it was measured, and its "measurements"


@dataclass(frozen=True)
class Measurement:
    """One line of the table: ours against a baseline, and the bound of the ratio."""

    name: str  # short, unique within its part
    what: str  # the setting, in words: sizes, network, data
    ours: str  # our time or memory, with its unit: "1.9 ms"
    baseline: str  # time or memory of the baseline, and its name: "2.1 ms, SoftTriple"
    ratio: float  # ours / baseline, the median over the repeats
    low: float
    high: float
    repeats: int
    bound: float | None = None  # None: the number is for information only
    at_most: bool = True  # whether the bound is an upper bound
    unit: str = "x"  # of the ratio and the bound: "x", "%", "MB"
    note: str = ""

    @classmethod
    def of(cls, name: str, what: str, ours: str, baseline: str, values: Sequence[float], **more: Any) -> "Measurement":
        """The median of the values that the repeats found, their lowest and their highest."""
        return cls(name, what, ours, baseline, statistics.median(values), min(values), max(values), len(values), **more)

    @classmethod
    def of_memory(
        cls, name: str, what: str, added: Sequence[float], against: str, bound: int, note: str
    ) -> "Measurement":
        """Added bytes, in MB: the most is what counts, and the last is shown."""
        found = [size / 2**20 for size in added]
        return cls(
            name, what, f"{found[-1]:.0f} MB", against, max(found), min(found), max(found), len(found), bound=bound,
            unit="MB", note=note,
        )  # fmt: skip

    @property
    def holds(self) -> bool:
        """Whether the ratio keeps the bound (True where there is none)."""
        if self.bound is None:
            return True
        return self.ratio <= self.bound if self.at_most else self.ratio >= self.bound


@dataclass(frozen=True)
class Timed:
    """Seconds of one call of ours and of the baseline (medians), and the ratios of neighbouring blocks."""

    ours: float
    baseline: float
    ratios: list[float]

    def measurement(self, name: str, what: str, against: str, **more: Any) -> Measurement:
        """The line of the table for this timing; ``against`` names the baseline."""
        baseline = f"{duration(self.baseline)}, {against}"
        return Measurement.of(name, what, duration(self.ours), baseline, self.ratios, **more)

    @classmethod
    def of(cls, ours: Sequence[float], baseline: Sequence[float]) -> "Timed":
        """From the seconds of blocks that took turns."""
        ratios = [mine / theirs for mine, theirs in zip(ours, baseline, strict=True)]
        return cls(statistics.median(ours), statistics.median(baseline), ratios)


def compare_times(
    ours: Callable[[], object], baseline: Callable[[], object], *, repeats: int = 9, calls: int = 1, warm_up: int = 1
) -> Timed:
    """Time two callables in turns, so that other load on the machine slows both.

    Args:
        ours, baseline: what is compared.
        repeats: pairs of blocks; the ratio is taken within each pair.
        calls: in a block. Blocks should last some tens of milliseconds.
        warm_up: blocks of each before the first that counts.
    """
    if repeats < 5:
        raise ValueError(f"a ratio takes at least five repeats; found {repeats}")
    for _ in range(warm_up):
        seconds(ours, calls)
        seconds(baseline, calls)
    mine, theirs = [], []
    for turn in range(repeats):
        # The order within a pair alternates: what ran before leaves its mark on the caches.
        if turn % 2:
            theirs.append(seconds(baseline, calls))
        mine.append(seconds(ours, calls))
        if turn % 2 == 0:
            theirs.append(seconds(baseline, calls))
    return Timed.of(mine, theirs)


def seconds(function: Callable[[], object], calls: int = 1) -> float:
    """The time of one call, as the mean of a block of calls."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def run_child(module: str, *arguments: object, **environment: str) -> dict[str, Any]:
    """Run ``python -m module arguments`` and read the JSON object that it prints last.

    For measurements of memory: the child prints its own `peak_memory`, which nothing before has raised.
    """
    words = [sys.executable, "-m", module, *(str(word) for word in arguments)]
    done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[1:])} ended with code {done.returncode}:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def peak_memory() -> int:
    """The most memory that this process has held, in bytes."""
    # ru_maxrss of a child starts at what its parent held; Linux also counts from the start of this program.
    if _STATUS.exists():
        fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        if "VmHWM" in fields:
            return int(fields["VmHWM"].split()[0]) * 1024
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def added_memory(work: Callable[[], object]) -> int:
    """The peak of the memory while ``work`` runs, minus the memory held before, in bytes.

    Memory that was freed before must not hide what the work takes: the allocator first returns it to the system, and
    the system's record of the peak is reset.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
    held = resident()
    _RESET.write_text("5")
    if peak_memory() > held + 2**24:
        raise RuntimeError(f"the record of the peak was not reset: {peak_memory()} bytes, with {held} held now")
    work()
    return peak_memory() - held


def resident() -> int:
    """The memory that this process holds now, in bytes."""
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024


def duration(time: float) -> str:
    """Seconds as text, with a unit and three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if time >= size:
            return f"{time / size:.3g} {unit}" if time < 1000 * size else f"{time / size:.0f} {unit}"
    return f"{time * 1e6:.3g} µs"


def stamp() -> dict[str, Any]:
    """Date, versions, processor and threads."""
    import torch

    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": {"magnet": __version__} | {name: found for name in PACKAGES if (found := _version(name))},
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def read_results(path: Path) -> Results:
    """The results in a file; empty if the file does not exist."""
    if not path.exists():
        return {}
    try:
        found: Results = read_json(path)["parts"]
        for _ in measurements(found):
            pass
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} holds no measurements of magnet bench ({error}): give another --out") from error
    return found


def write_results(path: Path, results: Results) -> None:
    """Write all parts, each with its own date, versions and machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"parts": results}, indent=1, ensure_ascii=False) + "\n")


def measurements(results: Results) -> Iterator[tuple[str, Measurement]]:
    """Yield (part, measurement) for all measurements."""
    for part, record in results.items():
        for values in record["measurements"]:
            yield part, Measurement(**values)


def as_table(results: Results) -> Table:
    """One table of ratios."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("part", "measured", "ours", "against", "ratio", "range", "bound", ""):
        number = name in ("ratio", "range", "bound")
        made.add_column(name, justify="right" if number else "left", no_wrap=number or name == "part")
    before = ""
    for part, m in measurements(results):
        spread = f"{shown(m.low, '')}-{shown(m.high, '')}"
        cells = (m.name, m.ours, m.baseline, shown(m.ratio, m.unit), spread, bound(m), verdict(m))
        made.add_row(part if part != before else "", *cells, style="" if m.holds else "bold red")
        before = part
    return made


def write_tables(document: Path, results: Results) -> None:
    """Put the tables of parts between ``<!-- bench: PART -->`` and ``<!-- end -->`` in a Markdown document."""

    def fill(place: re.Match[str]) -> str:
        part = place[1]
        lines = _markdown(results[part]) if part in results else [f"Not measured yet: `magnet bench --only {part}`."]
        return "\n".join([f"<!-- bench: {part} -->", *lines, "<!-- end -->"])

    document.write_text(re.sub(r"<!-- bench: (\w+) -->.*?<!-- end -->", fill, document.read_text(), flags=re.DOTALL))


def _markdown(record: dict[str, Any]) -> list[str]:
    lines = [
        "| measured | ours | against | ratio | lowest to highest | bound | holds |",
        "|---|---|---|---|---|---|---|",
    ]
    for _, m in measurements({"": record}):
        spread = f"{shown(m.low, m.unit)} to {shown(m.high, m.unit)} ({m.repeats})"
        what = f"{m.name}: {m.what}" + (f" ({m.note})" if m.note else "")
        cells = (what, m.ours, m.baseline, shown(m.ratio, m.unit), spread, bound(m), verdict(m))
        lines.append("| " + " | ".join(cells) + " |")
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    stamp = (
        f"{record['date'][:10]}, {record['cpu']}, {record['threads']} threads, Python {record['python']}, {versions}"
    )
    return [*lines, "", f"{stamp}. In brackets after a range: the number of repeats."]


def shown(value: float, unit: str) -> str:
    """A number with its unit, in three digits or so."""
    number = f"{value:.2e}" if 0 < abs(value) < 1e-3 else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return number if unit == "x" else f"{number} {unit}".strip()


def bound(m: Measurement) -> str:
    """The bound of a measurement as text, such as "≤ 1.05"; "" without a bound."""
    return "" if m.bound is None else f"{'≤' if m.at_most else '≥'} {shown(m.bound, m.unit)}"


def verdict(m: Measurement) -> str:
    """ "yes" or "NO": whether the bound holds; "" without a bound."""
    return "" if m.bound is None else "yes" if m.holds else "NO"
