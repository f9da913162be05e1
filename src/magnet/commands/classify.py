"""magnet classify."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from magnet.commands.arguments import Inputs, RunFolder
from magnet.commands.options import read_options
from magnet.commands.screen import percent, plain, progress, table
from magnet.errors import UserError

if TYPE_CHECKING:
    from magnet.data.queries import Queries
    from magnet.training.run import Run

HELP = """Label photos or vectors, and say why.

The label is that of the nearest clusters of the training set (kNC): each votes by its closeness. Distances are to the
centre of a cluster, in sigma, the spread of the clusters.

examples:
  magnet classify runs/photos cat.jpg dog.jpg
  magnet classify runs/photos holiday/ --json
  magnet classify runs/features new.npy --top 5
"""
EXAMPLES = 3  # training examples named for a cluster


@dataclass(frozen=True)
class Classify:
    """The options of `magnet classify`."""

    run: RunFolder
    inputs: Inputs
    top: int = 3
    """How many labels and clusters to show."""
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> None:
    """Classify and explain."""
    options = read_options(Classify, "classify", HELP, arguments)
    if options.top < 1:
        raise UserError(f"--top must be at least 1; found {options.top}")

    from magnet.commands.inputs import open_run, read_queries

    with progress("embedding") as report:
        run = open_run(options.run, need_data=False, report=report)
        answers = classify(run, read_queries(run, options.inputs), options.top)
    if options.json:
        print(json.dumps(answers, indent=1))
        return
    console = Console(highlight=False)
    for number, answer in enumerate(answers):
        if number:
            console.print()
        _show(answer, console)


def classify(run: "Run", queries: "Queries", top: int) -> list[dict[str, Any]]:
    """The ``top`` labels with their probabilities for each query, and the clusters that voted."""
    from magnet.commands.inputs import represent
    from magnet.evaluation.explain import voters

    r = represent(run, queries)
    rule = run.rule("knc")
    best = rule.predict_proba(r).topk(min(top, len(rule.classes)), dim=1)
    labels = rule.classes[best.indices]
    why = voters(rule, run.index, run.references, r, count=top, examples=EXAMPLES)
    return [
        {
            "input": name,
            "label": run.classes[labels[i, 0]],
            "probability": float(best.values[i, 0]),
            "top": [
                {"label": run.classes[label], "probability": float(p)}
                for label, p in zip(labels[i].tolist(), best.values[i], strict=True)
            ],
            "clusters": [
                {
                    "cluster": voter.cluster,
                    "label": run.classes[voter.label],
                    "distance": voter.distance,
                    "vote": voter.vote,
                    "size": voter.size,
                    "nearest": [run.memory.names[example] for example in voter.nearest],
                }
                for voter in why[i]
            ],
        }
        for i, name in enumerate(queries.names)
    ]


def _show(answer: dict[str, Any], console: Console) -> None:
    console.print(plain(answer["input"], "bold"))
    for number, entry in enumerate(answer["top"]):
        console.print(plain(f"  {percent(entry['probability']):>7}  {entry['label']}", "" if number else "green"))
    clusters = table("", "cluster of", "distance", "vote", "nearest examples in it", right=("distance", "vote"))
    clusters.columns[1].max_width = 26
    for voter in answer["clusters"]:
        near, vote = f"{voter['distance']:.2f}", percent(voter["vote"])
        clusters.add_row("", plain(voter["label"]), near, vote, plain(", ".join(voter["nearest"])))
    console.print(clusters)
