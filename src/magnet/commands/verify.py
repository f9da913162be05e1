"""magnet verify."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from magnet.commands.terminal import RunFolder, check_inputs, open_run, plain, read_options
from magnet.errors import UserError, percent
from magnet.training.config import check_run

HELP = """Whether two photos or vectors are of the same class: nearer to each other than a threshold.

The threshold is the distance, in sigma, below which a share --false-accepts of the pairs of different classes lie,
among examples that the run was not trained on (its validation part, or its test part). Two files of vectors are
compared row by row. `magnet evaluate` has the ROC curve.

examples:
  magnet verify runs/photos one.jpg two.jpg
  magnet verify runs/photos one.jpg two.jpg --false-accepts 0.001 --json
"""


@dataclass(frozen=True)
class Verify:
    """The options of `magnet verify`."""

    run: RunFolder
    first: Annotated[Path, tyro.conf.Positional]
    """A photo, or vectors."""
    second: Annotated[Path, tyro.conf.Positional]
    """What to compare it with."""
    false_accepts: float = 0.01
    """The share of pairs of different classes that may be taken for the same class."""
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> None:
    """Compare and show."""
    options = read_options(Verify, "verify", HELP, arguments)
    if not 0 < options.false_accepts < 1:
        raise UserError(f"--false-accepts must be a share between 0 and 1; found {options.false_accepts}")
    check_run(options.run)
    check_inputs([options.first, options.second])

    answers = verify(options)
    if options.json:
        print(json.dumps(answers, indent=1))
        return
    console = Console(highlight=False)
    for answer in answers["pairs"]:
        words = "the same class" if answer["same"] else "different classes"
        console.print(
            plain(f"{answer['first']} and {answer['second']}: {words}", "bold"),
            plain(f"  {answer['distance']:.2f} sigma apart; the same below {answers['threshold']:.2f}", "dim"),
            sep="\n",
        )
    console.print(
        f"At this threshold {percent(answers['true_accept'])} of the pairs of the same class are recognised "
        f"(measured on {answers['measured']['different']:,} pairs of different classes)."
    )


def verify(options: Verify) -> dict[str, Any]:
    """The distance of each pair, the threshold, and its rates of false and true accepts."""
    import torch

    from magnet.commands.inputs import embed_queries, read_queries
    from magnet.evaluation.errors import verification

    with open_run(options.run) as run:
        first, second = (read_queries(run.kind, run.shape, [path]) for path in (options.first, options.second))
        if len(first.names) != len(second.names):
            raise UserError(
                f"{options.first} holds {len(first.names)} examples and {options.second} {len(second.names)}: they are "
                "compared in pairs"
            )
        part = "validation" if len(run.data.indices("validation")) else "test"
        rows, sigma = run.data.indices(part), run.rule("knc").variance ** 0.5
        found = verification(run.part(part), run.data.labels[rows], rates=[options.false_accepts], unit=sigma)
        if not found or not found["at"]:
            raise UserError(
                f"the {part} part of {run.data.spec} has too few pairs for a threshold at --false-accepts "
                f"{options.false_accepts:g}: give a higher rate"
            )
        r, s = (embed_queries(run, queries, test=False) for queries in (first, second))
    distances = (torch.linalg.vector_norm(r - s, dim=1) / sigma).tolist()
    (row,) = found["at"]
    return {
        "pairs": [
            {"first": one, "second": two, "distance": distance, "same": distance < row["threshold"]}
            for one, two, distance in zip(first.names, second.names, distances, strict=True)
        ],
        "threshold": row["threshold"],
        "false_accept": row["false_accept"],
        "true_accept": row["true_accept"],
        "part": part,
        "measured": found["pairs"],
    }
