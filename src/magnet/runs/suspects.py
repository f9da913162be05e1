"""The examples of a run whose labels are likely wrong."""

from contextlib import suppress
from typing import Any, TypedDict

import torch
from torch import Tensor

from magnet.errors import Count, UserError
from magnet.evaluation.suspects import BLOCK, MOST_VOTERS, Doubts, doubt_labels
from magnet.files import read_record, write_record
from magnet.recipe import Recipe
from magnet.runs.run import Run, judged_probabilities
from magnet.start import StartSettings
from magnet.training.workbench import recipe_of

FORMAT = 4  # of what is kept in a run: raised when the same run and data are given other numbers
PARTS = ("train", "validation", "test")
START = (*StartSettings._fields, "n_clusters")  # settings of a whitened start


class _Kept(TypedDict):
    key: str  # of all that it depends on
    loss: list[float]
    suggestion: list[Count]
    probability: list[float]


def training_doubts(run: Run, places: Tensor | None = None) -> Doubts:
    """Doubts of the labels of training examples, by votes that these had no part in.

    Of a run on vectors the vectors themselves are judged, since the network has seen all labels; of a run on images,
    their representations. Kept in the run, for every command.

    Args:
        run: an opened run.
        places: (m,) which examples of the training part; None: all of them (N,). Of a large part, some take less time;
            their numbers are the same.
    """
    path, mark = run.place_of("suspects")
    key = f"{FORMAT}/{mark}"
    with suppress(OSError, UserError):
        known: _Kept = read_record(path, _Kept)
        lengths = {len(known["loss"]), len(known["suggestion"]), len(known["probability"])}
        if known["key"] == key and lengths == {len(run.train)} and max(known["suggestion"]) < len(run.classes):
            kept = Doubts(*(torch.tensor(known[name]) for name in Doubts._fields))  # type: ignore[literal-required]
            return _some(kept, places)
    if places is not None and len(run.train) > MOST_VOTERS:
        return _judge(run, places)
    found = _judge(run)
    content = {"key": key} | {name: values.tolist() for name, values in found._asdict().items()}
    with suppress(OSError):  # a run on a read-only or full disk can be used all the same
        write_record(path, content)
    return _some(found, places)


def judged_by(run: Run) -> str:
    """What of training examples the votes see: their "features" or their "representations" in the run."""
    return "features" if run.kind == "vectors" else "representations"


def _some(doubts: Doubts, places: Tensor | None) -> Doubts:
    return doubts if places is None else Doubts(*(values[places] for values in doubts))


def _judge(run: Run, places: Tensor | None = None) -> Doubts:
    recipe = Recipe()
    if run.config.start == "whitened":  # what suited its start then suits it now
        known = recipe_of(run.config)
        recipe = Recipe(**{name: getattr(known, name) for name in START})
    vectors = run.data.batch(run.train) if judged_by(run) == "features" else run.references
    present, labels = run.labels.unique(return_inverse=True)
    found = doubt_labels(vectors, labels, only=places, recipe=recipe, seed=run.config.seed, report=run.report)
    return found._replace(suggestion=present[found.suggestion])


def find_suspects(run: Run, part: str = "train") -> list[dict[str, Any]]:
    """Examples of a part, or of "all", the likeliest wrong label first.

    Returns:
        For each: ``path`` (its name), ``label``, ``suggestion`` (the likeliest class), ``loss`` (-log of the
        probability of the label), ``probability`` (of the suggestion), ``split``, and ``row``, its number in the data.
    """
    rows, doubts = [], []
    for name in PARTS if part == "all" else (part,):
        own = run.data.indices(name)
        if len(own):
            rows.append(own)
            doubts.append(training_doubts(run) if name == "train" else _doubts_of(run, name, own))
    if not rows:
        return []
    every = torch.cat(rows)
    loss, suggestion, probability = (torch.cat(values) for values in zip(*doubts, strict=True))
    data = run.data
    return [
        {
            "path": data.names[row],
            "label": data.classes[int(data.labels[row])],
            "suggestion": data.classes[int(suggestion[i])],
            "loss": float(loss[i]),
            "probability": float(probability[i]),
            "split": PARTS[min(int(data.split[row]), len(PARTS) - 1)],
            "row": row,
        }
        for i, row in ((i, int(every[i])) for i in loss.argsort(descending=True, stable=True).tolist())
    ]


def _doubts_of(run: Run, part: str, rows: Tensor) -> Doubts:
    """Doubts of examples that were not trained on, by the rule that the method is judged by."""
    representations, labels = run.part(part), run.data.labels[rows]
    blocks = torch.arange(len(rows)).split(max(1, BLOCK // len(run.classes)))
    found = [Doubts.of(judged_probabilities(run, representations[b]), labels[b]) for b in blocks]
    return Doubts(*(torch.cat(values) for values in zip(*found, strict=True)))
