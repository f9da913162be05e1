"""Everything that the page needs to know of the data and of one run, ready for JSON."""

import base64
import io
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from PIL import Image

from magnet.data import Dataset
from magnet.data.images import room
from magnet.methods.base import RULE_NAMES
from magnet.neighbours import nearest
from magnet.report.explorer.examples import Moment, Predictions
from magnet.report.html import percent
from magnet.report.layout import Positions
from magnet.runs.evaluate import plain_errors
from magnet.runs.run import Run

ARRAYS = {"u1": "Uint8Array", "u2": "Uint16Array", "i4": "Int32Array", "f4": "Float32Array"}
Encoded = dict[str, str]
SIDE = 48  # of a thumbnail: six blocks of a JPEG, so that neighbours on a sheet don't touch each other
COLUMNS = 32
SQUARE = 28  # vectors without names of features that may be images of up to this side are drawn as such
FEATURES = 32  # of a vector that are shown at most; each takes 40 kB of a page with 10,000 examples
Report = Callable[[int, int], None]
NEIGHBOURS = 12
BEST = 5  # classes whose probability is told
IMPOSTORS = 5


def encode(array: np.ndarray, kind: str) -> Encoded:
    """Any array, flattened, as one of the kinds in ARRAYS."""
    data = np.ascontiguousarray(array).astype(f"<{kind}").tobytes()
    return {"type": ARRAYS[kind], "base64": base64.b64encode(data).decode("ascii")}


def encode_bits(flags: np.ndarray) -> Encoded:
    """Booleans (n,), eight a byte, the first in the highest bit."""
    return encode(np.packbits(flags), "u1")


def encode_positions(maps: list[Positions]) -> list[tuple[Encoded, Encoded]]:
    """Maps in 16 bits a coordinate, all in one square with a margin, so that they can be compared."""
    everything = np.concatenate([part for pair in maps for part in pair])
    low, high = everything.min(axis=0), everything.max(axis=0)
    side = max(1.1 * float((high - low).max()), 1e-9)
    corner = (low + high - side) / 2

    def squeeze(part: np.ndarray) -> Encoded:
        return encode(np.rint((part - corner) / side * 65535).clip(0, 65535), "u2")

    return [(squeeze(examples), squeeze(centres)) for examples, centres in maps]


def pictures(data: Dataset, rows: np.ndarray, report: Report) -> dict[str, Any]:
    """The looks of the examples ``rows``, in this order."""
    return _sheets(data, rows, report) if data.kind == "images" else _vectors(data, rows)


def _sheets(data: Dataset, rows: np.ndarray, report: Report) -> dict[str, Any]:
    small = data.with_image_size(next(size for size in range(1, SIDE + 1) if room(size) >= SIDE), cache_bytes=0)
    sheets, done = [], 0
    with ThreadPoolExecutor() as pool:
        for some in np.split(rows, range(COLUMNS**2, len(rows), COLUMNS**2)):
            pixels = np.zeros((COLUMNS**2, SIDE, SIDE, 3), np.uint8)
            for i, image in enumerate(pool.map(small.__getitem__, some)):
                pixels[i] = image[:, :SIDE, :SIDE].permute(1, 2, 0).numpy()
            high = -(-len(some) // COLUMNS)
            grid = pixels.reshape(COLUMNS, COLUMNS, SIDE, SIDE, 3)[:high].transpose(0, 2, 1, 3, 4)
            sheets.append(_jpeg(grid.reshape(high * SIDE, COLUMNS * SIDE, 3)))
            done += len(some)
            report(done, len(rows))
    return {"kind": "images", "side": SIDE, "columns": COLUMNS, "sheets": sheets}


def _jpeg(pixels: np.ndarray) -> str:
    image = Image.fromarray(pixels)
    if (pixels == pixels[..., :1]).all():
        image = image.convert("L")  # grey images take half the bytes
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _vectors(data: Dataset, rows: np.ndarray) -> dict[str, Any]:
    values = data.batch(rows).numpy()
    width = values.shape[1]
    side = math.isqrt(width)
    if data.feature_names is None and side * side == width and 4 <= side <= SQUARE:
        low, high = float(values.min()), float(values.max())
        grey = (values - low) / max(high - low, 1e-12) * 255
        return {"kind": "squares", "side": side, "pixels": encode(grey.round(), "u1")}
    columns = np.linspace(0, width - 1, min(width, FEATURES)).round().astype(int)
    values = values[:, columns]
    return {
        "kind": "features",
        "width": width,
        "columns": columns.tolist(),
        "names": None if data.feature_names is None else [data.feature_names[column] for column in columns],
        "values": encode(values, "f4"),
        "low": encode(values.min(axis=0), "f4"),  # each feature has a range of its own
        "high": encode(values.max(axis=0), "f4"),
    }


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
    run: Run, rows: np.ndarray, predictions: Predictions, moments: list[Moment], maps: list[Positions]
) -> dict[str, Any]:
    """What a run says of the examples that are shown; its moments, the last of which is the evaluated checkpoint."""
    last = moments[-1]
    best = predictions.probabilities.topk(min(BEST, predictions.probabilities.shape[1]), dim=1)
    squared, near = nearest(predictions.representations, predictions.representations, NEIGHBOURS + 1)
    squared, near = _without_self(squared, near)
    places = encode_positions(maps)
    return {
        "name": run.folder.resolve().name,
        "method": run.config.method,
        "rule": RULE_NAMES[run.learner.method.classifier],
        "checkpoint": run.checkpoint.description,
        "test": describe_error(run),
        "split": encode(np.minimum(run.data.split[rows], 2), "u1"),
        "loss": encode(predictions.loss.numpy(), "f4"),
        "prediction": encode(predictions.prediction.numpy(), "i4"),
        "best": {"count": best.indices.shape[1], "classes": encode(best.indices.numpy(), "i4"),
                 "probabilities": encode(best.values.numpy(), "f4")},
        "neighbours": {"count": near.shape[1], "ids": encode(near.numpy(), "i4"),
                       "distances": encode(squared.sqrt().numpy() / last.sigma, "f4")},
        "moments": [_describe_moment(m, *place) for m, place in zip(moments, places, strict=True)],
    }  # fmt: skip


def describe_error(run: Run) -> dict[str, Any] | None:
    """The error that `magnet evaluate` has for the plain view, of the whole test part; None where there is none.

    It is written out here: a browser rounds 6.25 to 6.3, Python to 6.2, and there is one figure for one error.
    """
    if not len(run.data.indices("test")):
        return None
    found = plain_errors(run)
    error = percent(found["plain"][found["rule"]]["error"])
    return {"error": error, "n": found["n"], "images": run.data.kind == "images"}


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
