"""magnet evaluate."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console

from magnet.commands.terminal import RunFolder, percent, plain, progress, read_options, say_notes, table
from magnet.data.sources import find_source
from magnet.errors import UserError
from magnet.training.config import check_run

HELP = """Errors of a run on the test part of its own data, or on other data.

Other data must be of the same kind; its classes are matched with those of the run by name. Without a test part of its
own, the same share is split off as in training: give --part all to evaluate all of it.

examples:
  magnet evaluate runs/photos
  magnet evaluate runs/photos --data more-photos/ --part all
  magnet evaluate runs/photos --json | jq .knc.error
"""

NAMES = {"knc": "kNC", "knn": "soft kNN", "head": "own head"}


@dataclass(frozen=True)
class Evaluate:
    """The options of `magnet evaluate`."""

    run: RunFolder
    data: str = ""
    """Other data than the run's own, written as for `magnet train`."""
    label: str = ""
    """The column of the labels in the other data (default: that of the run)."""
    part: Literal["train", "validation", "test", "all"] = "test"
    """Which part of the data."""
    checkpoint: Literal["best", "last"] = "best"
    """best: by validation, or the last where there was none."""
    test_draws: int = 0
    """Augmented views to average for each image (0: as many as the run says; 1: the plain view)."""
    json: bool = False
    """Print JSON, errors as fractions."""


def main(arguments: Sequence[str]) -> None:
    """Evaluate a run and show the result."""
    options = read_options(Evaluate, "evaluate", HELP, arguments)
    check_run(options.run)
    if options.data:
        find_source(options.data, label=options.label)
    elif options.label:
        raise UserError("--label names a column of other data: give --data too")

    from magnet.runs.evaluate import evaluate, open_like
    from magnet.runs.run import Run

    with progress("embedding") as report:
        run = Run(
            options.run,
            which=options.checkpoint,
            test_draws=options.test_draws,
            need_data=not options.data,
            report=report,
        )
        say_notes(run.notes)
        other = open_like(run, options.data, options.label) if options.data else None
        result = evaluate(run, other, options.part)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show(result, Console(highlight=False))


def show(result: dict[str, Any], console: Console) -> None:
    """Print the result of an evaluation."""
    console.print(
        plain(f"{result['n']} examples of {result['data']} ({result['split']})", "bold"),
        plain(f"  {result['method']}, {result['checkpoint']}, {result['run']}", "dim"),
        sep="\n",
    )
    if result["seen"]:
        console.print(
            f"  {result['seen']} of them are training examples, which the classifiers are made of", style="yellow"
        )
    if result["left_out"]:
        names = ", ".join(result["unknown"][:3]) + (", ..." if len(result["unknown"]) > 3 else "")
        console.print(
            plain(
                f"  {result['left_out']} more were left out: their classes are unknown to the run ({names})", "yellow"
            )
        )
    columns = {"error": "error", "error@5": "error@5", "ECE": "ece", "calibrated": "ece_calibrated"}
    several = result["views"] > 1
    errors = table("", *columns, *(["plain view"] * several), right=(*columns, "plain view"))
    for key, name in NAMES.items():
        if key in result:
            judged = "bold" if key == result["rule"] else ""  # the rule that the method is judged by
            shown = [result[key][n] for n in columns.values()] + [result["plain"][key]["error"]] * several
            errors.add_row(name, *(percent(value) for value in shown), style=judged)
    console.print("", errors, "", sep="\n")
    if several:
        console.print(
            f"Errors are of the mean of {result['views']} test views of each image. Plain view: of the centre alone, "
            "as the explorer and an ONNX file see it.\n"
        )
    found = result["retrieval"]
    console.print(f"Among themselves: recall@1 {percent(found['recall@1'])}, MAP@R {percent(found['map@r'])}")
    _show_pairs(result["verification"], console)
    if "judge" in result:
        judged = result["judge"]
        console.print(
            plain(
                f"Judged by {judged['classes']} other labels ({judged['labels']}), which were not trained on: error "
                f"{percent(judged['knc']['error'])} by kNC, {percent(judged['knn']['error'])} by soft kNN\n"
            )
        )
    if not result["worst"]:
        console.print("No example gets a wrong label.")
        return
    worst = table("worst classes", "error", "of", "taken for", right=("error", "of"), whole=("worst classes",))
    for row in result["worst"]:
        taken = ", ".join(f"{mistake['class']} ({mistake['n']})" for mistake in row["taken_for"])
        worst.add_row(plain(row["class"]), percent(row["error"]), str(row["n"]), plain(taken))
    console.print(worst)


def _show_pairs(found: dict[str, Any], console: Console) -> None:
    """Print how well distances tell pairs of the same class from other pairs."""
    if not found:
        return
    console.print(
        f"Pairs: area under the ROC curve {percent(found['auc'])}, equal error {percent(found['equal_error'])}\n"
    )
    columns = ("false accepts", "pairs of a class recognised", "below, in sigma")
    rates = table(*columns, right=columns)
    for row in found["at"]:
        rates.add_row(percent(row["rate"]), percent(row["true_accept"]), f"{row['threshold']:.2f}")
    if found["at"]:  # empty if there are too few pairs to measure rare mistakes
        console.print(rates, "")
