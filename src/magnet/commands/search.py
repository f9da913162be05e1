"""magnet search."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from magnet.commands.arguments import Inputs, RunFolder
from magnet.commands.options import read_options
from magnet.commands.screen import plain, progress, table
from magnet.errors import UserError

if TYPE_CHECKING:
    from magnet.data.queries import Queries
    from magnet.training.run import Run

HELP = """The training examples nearest to photos or vectors. Distances are in sigma, the spread of the clusters.

examples:
  magnet search runs/photos cat.jpg
  magnet search runs/photos cat.jpg --count 50 --json
  magnet search runs/features new.npy
"""


@dataclass(frozen=True)
class Search:
    """The options of `magnet search`."""

    run: RunFolder
    inputs: Inputs
    count: int = 10
    """How many examples to show."""
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> None:
    """Search and show."""
    options = read_options(Search, "search", HELP, arguments)
    if options.count < 1:
        raise UserError(f"--count must be at least 1; found {options.count}")

    from magnet.commands.inputs import open_run, read_queries

    with progress("embedding") as report:
        run = open_run(options.run, need_data=False, report=report)
        answers = search(run, read_queries(run, options.inputs), options.count)
    if options.json:
        print(json.dumps(answers, indent=1))
        return
    console = Console(highlight=False)
    for number, answer in enumerate(answers):
        if number:
            console.print()
        console.print(plain(answer["input"], "bold"))
        found = table("", "distance", "label", "training example", right=("distance",))
        for row in answer["nearest"]:
            found.add_row("", f"{row['distance']:.2f}", plain(row["label"]), plain(row["name"]))
        console.print(found)


def search(run: "Run", queries: "Queries", count: int) -> list[dict[str, Any]]:
    """The ``count`` nearest training examples of each query, nearest first."""
    from magnet.commands.inputs import represent
    from magnet.neighbours import nearest

    r = represent(run, queries)
    squares, ids = nearest(r, run.references, count)
    distances = squares.sqrt() / run.rule("knc").variance ** 0.5
    return [
        {
            "input": name,
            "nearest": [
                {
                    "name": run.memory.names[example],
                    "label": run.classes[int(run.memory.labels[example])],
                    "distance": float(distance),
                }
                for example, distance in zip(ids[i].tolist(), distances[i], strict=True)
            ],
        }
        for i, name in enumerate(queries.names)
    ]
