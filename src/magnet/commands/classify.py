"""magnet classify."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from magnet.commands.terminal import Question, plain, read_options, table
from magnet.errors import check_at_least, percent

if TYPE_CHECKING:
    from magnet.commands.inputs import Queries
    from magnet.export.model import Model

HELP = """Label photos or vectors, and say why.

The label is that of the nearest clusters of the training set (kNC): each votes by its closeness. Distances are to the
centre of a cluster, in sigma, the spread of the clusters. Probabilities are calibrated on held-out examples. What is
farther from all clusters than 99 % of those is marked as unlike anything known; with --refuse it gets no label.

RUN may also be a folder written by `magnet export`.

examples:
  magnet classify runs/photos cat.jpg dog.jpg
  magnet classify runs/photos holiday/ --json
  magnet classify runs/features new.npy --top 5 --refuse
"""
EXAMPLES = 3  # training examples named for a cluster


@dataclass(frozen=True, kw_only=True)
class Classify(Question):
    """The options of `magnet classify`."""

    top: int = 3
    """How many labels and clusters to show."""
    refuse: bool = False
    """Give no label to what is unlike anything known."""


def main(arguments: Sequence[str]) -> None:
    """Classify and explain."""
    options = read_options(Classify, "classify", HELP, arguments)
    check_at_least("top", options.top, 1)
    options.check()

    from magnet.commands.inputs import ask

    ask(options, lambda model, queries: classify(model, queries, options.top, refuse=options.refuse), _show)


def classify(model: "Model", queries: "Queries", top: int, *, refuse: bool = False) -> list[dict[str, Any]]:
    """The ``top`` labels with their probabilities for each query, and the clusters that voted."""
    from magnet.evaluation.explain import voters

    r = model.embed(queries.content)
    answers = model.judge(r, refuse=refuse)
    best = answers.probabilities.topk(min(top, len(model.rule.classes)), dim=1)
    why = voters(model.rule, model.index, model.references, r, count=top, examples=EXAMPLES)
    limit = model.novelty_threshold
    return [
        {
            "input": name,
            "label": answers.labels[i],
            "probability": float(best.values[i, 0]),
            "novelty": float(answers.novelty[i]),
            "novel": limit is not None and float(answers.novelty[i]) > limit,
            "top": [
                {"label": model.classes[label], "probability": float(p)}
                for label, p in zip(best.indices[i].tolist(), best.values[i], strict=True)
            ],
            "clusters": [
                {
                    "cluster": voter.cluster,
                    "label": model.classes[voter.label],
                    "distance": voter.distance,
                    "vote": voter.vote,
                    "size": voter.size,
                    "nearest": [model.names[example] for example in voter.nearest],
                }
                for voter in why[i]
            ],
        }
        for i, name in enumerate(queries.names)
    ]


def _show(answer: dict[str, Any], console: Console) -> None:
    console.print(plain(answer["input"], "bold"))
    if answer["novel"]:
        refused = "unknown: " if answer["label"] is None else ""
        console.print(f"  {refused}unlike anything known ({answer['novelty']:.2f} from the nearest)", style="yellow")
    for number, entry in enumerate(answer["top"]):
        console.print(plain(f"  {percent(entry['probability']):>7}  {entry['label']}", "" if number else "green"))
    clusters = table("", "cluster of", "distance", "vote", "nearest examples in it", right=("distance", "vote"))
    clusters.columns[1].max_width = 26
    for voter in answer["clusters"]:
        near, vote = f"{voter['distance']:.2f}", percent(voter["vote"])
        clusters.add_row("", plain(voter["label"]), near, vote, plain(", ".join(voter["nearest"])))
    console.print(clusters)
