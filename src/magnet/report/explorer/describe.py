"""Everything that the page needs to know of the data and of one run, ready for JSON."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from magnet.data import Dataset
from magnet.neighbours import nearest
from magnet.report.explorer.answers import RULES, Answers
from magnet.report.explorer.encode import Encoded, encode, encode_bits, encode_positions
from magnet.report.explorer.moments import Moment
from magnet.report.explorer.pictures import pictures
from magnet.report.layout import Positions
from magnet.runs.evaluate import plain_errors
from magnet.runs.run import Run
from magnet.training.folder import describe_checkpoint

NEIGHBOURS = 12
BEST = 5  # classes whose probability is told
IMPOSTORS = 5


def describe_data(data: Dataset, rows: np.ndarray, report: Callable[[int, int], None]) -> dict[str, Any]:
    """Names, labels, looks and attributes of the examples that are shown."""
    attributes = []
    if data.attributes is not None:
        values = data.attributes.values[rows]
        for name, column in zip(data.attributes.names, values.T, strict=True):
            attributes.append(
                {"name": name, "has": encode_bits(column == 1), "known": encode_bits(~np.isnan(column))}
            )  # fmt: skip
    return {
        "name": data.name,
        "total": len(data),
        "classes": data.classes,
        "names": [data.names[i] for i in rows.tolist()],
        "labels": encode(data.labels.numpy()[rows], "i4"),
        "attributes": attributes,
        "pictures": pictures(data, rows, report),
    }


def describe_run(
    run: Run, rows: np.ndarray, answers: Answers, moments: list[Moment], maps: list[Positions]
) -> dict[str, Any]:
    """What a run says of the examples that are shown; its moments, the last of which is the evaluated checkpoint."""
    last = moments[-1]
    best = answers.probabilities.topk(min(BEST, answers.probabilities.shape[1]), dim=1)
    squared, near = nearest(answers.representations, answers.representations, NEIGHBOURS + 1)
    squared, near = _without_self(squared, near)
    places = encode_positions(maps)
    return {
        "name": run.folder.resolve().name,
        "method": run.config.method,
        "rule": RULES[run.learner.method.classifier],
        "checkpoint": describe_checkpoint(run.checkpoint),
        "test": _test_error(run),
        "split": encode(np.minimum(run.data.split[rows], 2), "u1"),
        "loss": encode(answers.loss.numpy(), "f4"),
        "prediction": encode(answers.prediction.numpy(), "i4"),
        "best": {"count": best.indices.shape[1], "classes": encode(best.indices.numpy(), "i4"),
                 "probabilities": encode(best.values.numpy(), "f4")},
        "neighbours": {"count": near.shape[1], "ids": encode(near.numpy(), "i4"),
                       "distances": encode(squared.sqrt().numpy() / last.sigma, "f4")},
        "moments": [_describe_moment(m, *place) for m, place in zip(moments, places, strict=True)],
    }  # fmt: skip


def _test_error(run: Run) -> dict[str, Any] | None:
    """The error that `magnet evaluate` has for the plain view, of the whole test part; None where there is none."""
    if not len(run.data.indices("test")):
        return None
    found = plain_errors(run)
    return {"error": found["plain"][found["rule"]]["error"], "n": found["n"], "images": run.data.kind == "images"}


def _without_self(squared: torch.Tensor, near: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Neighbours (n, k + 1) of examples among themselves -> the k that are not the example itself."""
    itself = near == torch.arange(len(near))[:, None]
    itself[~itself.any(dim=1), -1] = True  # many duplicates can push an example off its own list
    keep = ~itself
    return squared[keep].view(len(near), -1), near[keep].view(len(near), -1)


def _describe_moment(moment: Moment, examples: Encoded, centres: Encoded) -> dict[str, Any]:
    index, sigma = moment.index, moment.sigma
    impostors = index.nearest_impostors(IMPOSTORS)
    apart = torch.linalg.vector_norm(index.centres[:, None] - index.centres[impostors.clamp_min(0)], dim=2) / sigma
    return {
        "step": moment.step,
        "shown": encode(moment.shown.numpy(), "i4"),
        "positions": examples,
        "clusters": encode(moment.clusters.numpy(), "i4"),
        "own": encode(moment.own.numpy(), "f4"),
        "impostor": encode(moment.impostor.numpy(), "i4"),
        "impostorDistance": encode(moment.impostor_distance.numpy(), "f4"),
        "centres": {
            "positions": centres,
            "labels": encode(index.centre_labels.numpy(), "i4"),
            "sizes": encode(index.sizes.numpy(), "i4"),
            "impostors": encode(impostors.numpy(), "i4"),
            "distances": encode(apart.numpy(), "f4"),
            "perCentre": IMPOSTORS,
        },
    }
