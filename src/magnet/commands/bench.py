"""magnet bench."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from magnet.bench import PARTS
from magnet.commands.terminal import read_options
from magnet.errors import UserError, did_you_mean
from magnet.files import read_json

HELP = """Measure the speed and memory of magnet against what people would use instead, and print one table of ratios.

A ratio is the median over repeats in turns, the range from the lowest to the highest. Use a quiet machine. All
parts together take about 25 minutes on two slow cores; each runs in a process of its own. What is measured is kept in
the file --out, each part with its date, versions and machine; parts that are not measured now stay there as they are.

examples:
  magnet bench
  magnet bench --only step loss
  magnet bench --only draw --docs docs/performance.md
"""


@dataclass(frozen=True)
class Bench:
    """The options of `magnet bench`."""

    only: tuple[str, ...] = ()
    """Parts to measure: step, loss, draw, compiled, processes, clusters, impostors, evaluation, growth."""
    out: Path = Path("docs/performance.json")
    """The file of all results."""
    docs: Path | None = None
    """A Markdown file whose tables are to be written anew from the results."""


def main(arguments: Sequence[str]) -> None:
    """Measure the parts, write the results and print the table."""
    options = read_options(Bench, "bench", HELP, arguments)
    unknown = [name for name in options.only if name not in PARTS]
    if unknown:
        hint = did_you_mean(unknown[0], PARTS)
        raise UserError(f"nothing to measure is called {unknown[0]!r}{hint} There are: {', '.join(PARTS)}")
    if options.docs is not None and not options.docs.is_file():
        raise UserError(f"--docs {options.docs} does not exist: it is a page with places for the tables")

    from magnet.bench.measurement import as_table, measurements, read_results, write_results, write_tables

    console = Console(highlight=False)
    results = read_results(options.out)
    failed, measured = [], []
    for part in options.only or PARTS:
        console.print(f"[bold]{part}[/]  [dim]{PARTS[part]}[/]")
        record = _measure(part, console)
        if record is None:
            failed.append(part)
            continue
        measured.append(part)
        results[part] = record
        results = {name: results[name] for name in PARTS if name in results}
        write_results(options.out, results)  # after each: an interrupted run keeps what it has
    shown = {part: results[part] for part in measured}
    console.print("", as_table(shown), "", sep="\n")
    bounds = [m for _, m in measurements(shown) if m.bound is not None]
    kept = sum(m.holds for m in bounds)
    console.print(f"{kept} of {len(bounds)} bounds hold; written to {options.out}", markup=False)
    if options.docs:
        write_tables(options.docs, results)
    if failed:
        console.print(f"not measured: {', '.join(failed)}", style="bold red")
        raise SystemExit(1)


def _measure(part: str, console: Console) -> dict[str, Any] | None:
    """Measure a part in a new process, and show its progress; None if it failed."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        words = [sys.executable, "-m", "magnet.bench", part, str(file)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                console.print(f"  {time.monotonic() - start:5.0f} s  {line.rstrip()}", style="dim", markup=False)
        if child.returncode:
            console.print(f"  {part} ended with code {child.returncode}", style="bold red")
            return None
        found: dict[str, Any] = read_json(file)
        return found
