"""magnet search."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from magnet.commands.terminal import Question, plain, read_options, table
from magnet.errors import check_at_least

if TYPE_CHECKING:
    from magnet.commands.inputs import Queries
    from magnet.export.model import Model

HELP = """The training examples nearest to photos or vectors. Distances are in sigma, the spread of the clusters.

RUN may also be a folder written by `magnet export`, if it has references.

examples:
  magnet search runs/photos cat.jpg
  magnet search runs/photos cat.jpg --count 50 --json
  magnet search runs/features new.npy
"""


@dataclass(frozen=True, kw_only=True)
class Search(Question):
    """The options of `magnet search`."""

    count: int = 10
    """How many examples to show."""


def main(arguments: Sequence[str]) -> None:
    """Search and show."""
    options = read_options(Search, "search", HELP, arguments)
    check_at_least("count", options.count, 1)
    options.check()

    from magnet.commands.inputs import ask

    ask(options, lambda model, queries: search(model, queries, options.count), _show)


def search(model: "Model", queries: "Queries", count: int) -> list[dict[str, Any]]:
    """The ``count`` nearest training examples of each query, nearest first."""
    found = model.search(queries.content, count)
    return [
        {
            "input": name,
            "nearest": [{"name": row.name, "label": row.label, "distance": row.distance} for row in rows],
        }
        for name, rows in zip(queries.names, found, strict=True)
    ]


def _show(answer: dict[str, Any], console: Console) -> None:
    console.print(plain(answer["input"], "bold"))
    found = table("", "distance", "label", "training example", right=("distance",))
    for row in answer["nearest"]:
        found.add_row("", f"{row['distance']:.2f}", plain(row["label"]), plain(row["name"]))
    console.print(found)
