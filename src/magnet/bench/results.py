"""Measured parts as a file, as a table for people, and in the documents."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from magnet.bench.measurement import Measurement
from magnet.errors import UserError
from magnet.files import read_json

Results = dict[str, dict[str, Any]]  # by part: where and when it was measured, and its "measurements"


def read_results(path: Path) -> Results:
    """What was measured before; nothing if there is no such file."""
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
    """(part, measurement) of all."""
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
    """The bound of a measurement in signs."""
    return "" if m.bound is None else f"{'≤' if m.at_most else '≥'} {shown(m.bound, m.unit)}"


def verdict(m: Measurement) -> str:
    """Whether the bound holds, in a word."""
    return "" if m.bound is None else "yes" if m.holds else "NO"
