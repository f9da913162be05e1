"""magnet suspects."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from magnet.commands.terminal import RunFolder, open_run, plain, read_options, table
from magnet.errors import UserError, check_at_least
from magnet.files import check_file, writing
from magnet.training.config import check_run

HELP = """The examples whose labels are likely wrong, worst first.

Training examples are judged by votes that they had no part in, a tenth of them at a time: vectors as they are given,
images by their representations. Examples of other parts are judged by the rule of the run's method. Of more than 50,000
all are judged, by the votes of so many. The table has path, label, suggestion, loss (-log of the probability of the
label), probability (of the suggestion), split and row.

examples:
  magnet suspects runs/photos
  magnet suspects runs/photos --out suspects.csv
  magnet suspects runs/photos --out suspects.csv --part all --count 500
"""
SHOWN = 20


@dataclass(frozen=True)
class Suspects:
    """The options of `magnet suspects`."""

    run: RunFolder
    out: Path | None = None
    """The .csv to write; without it the worst are shown."""
    part: Literal["train", "validation", "test", "all"] = "train"
    """Which part of the data."""
    count: int = 0
    """How many to write at most (0: all that have a likelier class than their label)."""
    force: bool = False
    """Overwrite the file."""


def main(arguments: Sequence[str]) -> None:
    """Find, then write or show."""
    options = read_options(Suspects, "suspects", HELP, arguments)
    check_at_least("count", options.count, 0)
    if options.out is not None:
        check_file(options.out, force=options.force, kinds=(".csv",))
    check_run(options.run)

    from magnet.runs.suspects import find_suspects

    with open_run(options.run, "judging") as run:
        found = find_suspects(run, options.part)
    if not found:
        raise UserError(f"{run.data.spec} has no {options.part} part; choose another with --part")
    judged = len(found)
    found = found[: options.count] if options.count else [row for row in found if row["suggestion"] != row["label"]]
    if options.out is None:
        _show(found, judged, Console(highlight=False))
        return
    write_csv(options.out, found)
    print(f"{len(found)} of {judged} examples are in {options.out}, the likeliest wrong label first")


def _show(found: list[dict[str, Any]], judged: int, console: Console) -> None:
    console.print(
        plain(f"{len(found)} of {judged} examples look more like another class than like their label", "bold")
    )
    shown = table("loss", "label", "looks like", "", "example", right=("loss",), whole=("label", "looks like"))
    for row in found[:SHOWN]:
        share = f"{row['probability']:.0%}"
        shown.add_row(f"{row['loss']:.1f}", plain(row["label"]), plain(row["suggestion"]), share, plain(row["path"]))
    console.print(shown)
    if len(found) > SHOWN:
        console.print(f"and {len(found) - SHOWN} more: --out suspects.csv writes all of them", style="dim")


def write_csv(path: Path, found: list[dict[str, Any]]) -> None:
    """Write the table whole or not at all."""
    from magnet.report.explorer.table import safe_cell

    with writing(path) as draft, draft.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "label", "suggestion", "loss", "probability", "split", "row"])
        writer.writerows([safe_cell(value) for value in row.values()] for row in found)
