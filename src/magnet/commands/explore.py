"""magnet explore."""

import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from magnet.commands.terminal import RunFolders, plain, read_options, say_notes
from magnet.errors import UserError, check_at_least
from magnet.report.html import check_folder
from magnet.training.config import check_run

if TYPE_CHECKING:
    from magnet.report.explorer.build import Say
    from magnet.training.inputs import Report

HELP = """Look at what a run learnt: one HTML file that needs no network and no server, opened in the browser.

It opens on a summary: errors, the worst confusions, suspicious labels, unusual modes. It has the map of all examples
with their clusters, their neighbours, the modes of each class, labels to check and mark and, if `magnet train
--keep-refreshes N` kept some refreshes, the way there. Up to three runs on the same data stand side by side.

examples:
  magnet explore runs/photos
  magnet explore runs/magnet runs/softmax runs/triplet --out compare.html
  magnet explore runs/photos --table photos.parquet --no-open
  magnet explore runs/photos --out photos             # a folder: every example with a large picture or all features
"""


MUCH = 25_000_000  # bytes of a page, more than most mail takes


@dataclass(frozen=True)
class Explore:
    """The options of `magnet explore`."""

    runs: RunFolders
    out: Path = Path("explore.html")
    """The page; one that is there already is replaced. A name without .html is that of a folder, where one file would
    be too large: data and pictures lie beside its index.html, a large one for every example, or all features."""
    table: Path | None = None
    """Also write the data behind the page: a .csv, or a .parquet for FiftyOne, Embedding Atlas and the like."""
    examples: int = 10_000
    """How many examples to show at most. Of more, a sample of every class is drawn."""
    seed: int = 0
    """Of the sample and the maps."""
    checkpoint: Literal["best", "last"] = "best"
    """best: by validation, or the last where there was none."""
    open: bool = True
    """Open the page in the browser."""


@contextmanager
def steps() -> Iterator["Say"]:
    """A line on standard error that tells what is being done; nothing where nobody looks."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda what: lambda done, total: None
        return
    with console.status("opening") as status:

        def say(what: str) -> "Report":
            status.update(plain(what))
            return lambda done, total: status.update(plain(f"{what} {done}/{total}"))

        yield say


def main(arguments: Sequence[str]) -> None:
    """Write the page and open it."""
    options = read_options(Explore, "explore", HELP, arguments)
    if not options.runs:
        raise UserError("nothing to explore: give one to three run folders")
    check_at_least("examples", options.examples, 10)
    check_at_least("seed", options.seed, 0, 2**32 - 1)
    one_file = options.out.suffix.lower() in (".html", ".htm")
    if options.out.is_dir() if one_file else (options.out.suffix or options.out.is_file()):
        raise UserError(f"--out {options.out} must be a file that ends in .html, or a folder, whose name has no ending")
    if not one_file:
        check_folder(options.out)
    if options.table and options.table.suffix.lower() not in (".csv", ".parquet"):
        raise UserError(f"--table {options.table} must end in .csv or .parquet")
    for folder in options.runs:
        check_run(folder)

    from magnet.report.explorer.build import build_explorer
    from magnet.report.explorer.table import check_table, write_table
    from magnet.runs.run import Run

    if options.table:
        check_table(options.table)
    with steps() as say:
        runs = [Run(folder, which=options.checkpoint, report=say("embedding")) for folder in options.runs]
        say_notes(note for run in runs for note in run.notes)
        explorer = build_explorer(runs, examples=options.examples, seed=options.seed, say=say)
        page, left_out = explorer.write(options.out)
        if options.table:
            write_table(explorer, options.table)
    total = len(runs[0].data)
    shown = f"{len(explorer.rows)} of {total}" if len(explorer.rows) < total else f"all {total}"
    size = page.stat().st_size
    print(f"{page} ({size / 1e6:.1f} MB) shows {shown} examples")
    if left_out:
        print(f"{left_out}: --out {page.stem} writes a folder, which has them all")
    if size > MUCH:
        print(
            f"That is much for one file: --out {page.stem} writes a folder of smaller files, --examples N shows fewer"
        )
    if options.table:
        print(f"{options.table} holds the data behind it")
    if options.open and not webbrowser.open(page.resolve().as_uri()):
        print("no browser could be opened here: open the file yourself")
