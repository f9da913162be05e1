"""magnet report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from magnet.commands.terminal import RunFolders, line_console, plain, progress, read_options, say_notes
from magnet.errors import UserError
from magnet.training.config import check_run

HELP = """One page on one or several runs, side by side: a single HTML file that needs no network and no server.

It has the errors under each classifier, the curves of training, the confusion matrix with pictures of the mistakes and
of each class, the worst confused classes with their nearest impostor clusters, attribute precision where the data has
attributes, the time spent, and the configurations with what differs marked. The figures are also written as PNG, into a
folder named like the page. A run is evaluated on its test part the first time; the result is kept in the run.

examples:
  magnet report runs/photos
  magnet report runs/magnet runs/softmax runs/triplet --out compare.html
"""


@dataclass(frozen=True)
class ReportOptions:
    """The options of `magnet report`."""

    runs: RunFolders
    out: Path = Path("report.html")
    """The page; one that is there already is replaced."""


def main(arguments: Sequence[str]) -> None:
    """Look at the runs, measure what is not known yet, write the page."""
    options = read_options(ReportOptions, "report", HELP, arguments)
    if not options.runs:
        raise UserError("nothing to report on: give one or more run folders")
    if options.out.suffix.lower() not in (".html", ".htm") or options.out.is_dir():
        raise UserError(f"--out {options.out} must be a file that ends in .html")
    for folder in options.runs:
        check_run(folder)

    from rich.markup import escape

    from magnet.report.plots import pyplot
    from magnet.report.summary.findings import measure, read_runs
    from magnet.report.summary.page import write_report

    pyplot()  # refuses a missing matplotlib before the runs are evaluated
    runs = read_runs(options.runs)
    for run in runs:
        with progress(escape(f"evaluating {run.name}")) as report:
            measure(run, report)
    say_notes(note for run in runs for note in run.notes)
    *pictures, page = write_report(runs, options.out)
    say_notes(f"{run.name} was not evaluated: {run.trouble}" for run in runs if run.trouble)
    line_console().print(
        plain(f"The report is in {page}, its {len(pictures)} figures as PNG in {page.with_suffix('')}")
    )
