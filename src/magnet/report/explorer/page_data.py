"""The data of the page as plain values for JSON: the data set and the runs, with arrays encoded as text."""

import base64
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from magnet.data import Dataset
from magnet.errors import percent
from magnet.evaluation.suspects import Doubts
from magnet.methods.base import RULE_NAMES
from magnet.report.explorer.examples import Contrast
from magnet.report.explorer.snapshots import Moment, near_each_other
from magnet.report.layout import Positions, Report
from magnet.runs.evaluate import errors_soon
from magnet.runs.run import Run
from magnet.runs.suspects import judged_by
from magnet.training.folder import FOLDER, open_checkpoint

NEIGHBOURS, BEST = 12, 5  # of each example; classes whose probability is told
MANY = 50_000  # examples from which on half as many are told
IMPOSTORS = 5
CLIMB = 3  # folders up at most from a page to data that lies beside it
SHORT = 60_000  # characters: an array that takes fewer stays inside a page that has files beside it
PART = 16_000_000  # characters of one file beside a page; a multiple of 4, so that each file can be decoded by itself
ARRAYS = {"u1": "Uint8Array", "u2": "Uint16Array", "i4": "Int32Array", "f4": "Float32Array"}
Encoded = dict[str, str]
Keep = Callable[[str, bytes], str]  # puts a file where the page finds it, and gives its address


def describe_data(data: Dataset, rows: np.ndarray) -> dict[str, Any]:
    """Names, labels and attributes of the examples that are shown."""
    attributes = []
    if data.attributes is not None:
        values = data.attributes.values[rows]
        for name, column in zip(data.attributes.names, values.T, strict=True):
            attributes.append(
                {"name": name, "has": encode_bits(column == 1), "known": encode_bits(~np.isnan(column))}
            )  # fmt: skip
    digest = data.digest
    return {
        "name": data.name,
        "kind": data.kind,
        "mark": hashlib.sha256(f"{digest.names}{digest.labels}".encode()).hexdigest()[:16],
        "total": len(data),
        "classes": data.classes,
        "names": [data.names[i] for i in rows.tolist()],
        "labels": encode_ids(data.labels.numpy()[rows], len(data.classes)),
        "attributes": attributes,
    }


def find_originals(data: Dataset, page: Path) -> str:
    """What comes before the name of an example in the address of its image file, from a page that lies near the data.

    Nothing where the examples are no files, or lie elsewhere: then the page has no links to them.
    """
    file = data.image_file(0)
    if file is None:
        return ""
    address = os.path.relpath(file.resolve(), page.resolve().parent).replace(os.sep, "/")
    name = data.names[0].replace(os.sep, "/")
    if not address.endswith(name) or address.count("../") > CLIMB:
        return ""
    return f"./{address.removesuffix(name)}"


def describe_run(
    run: Run,
    rows: np.ndarray,
    moments: list[Moment],
    maps: list[Positions],
    doubts: Doubts,
    doubtful: Contrast,
    errors: dict[str, Any] | None,
    crowd: tuple[np.ndarray, np.ndarray] | None = None,
    report: Report | None = None,
) -> dict[str, Any]:
    """What a run says of the examples that are shown, at each of its moments; the crowd is what is not shown."""
    count, places = len(rows), encode_positions(maps)
    config = run.config
    return {
        "name": run.folder.resolve().name,
        "method": config.method,
        "about": f"network {config.backbone}, preset {config.preset}, seed {config.seed}",
        "rule": RULE_NAMES[run.learner.method.classifier],
        "checkpoint": run.checkpoint.description,
        "steps": open_checkpoint(run.folder / FOLDER, "last", ()).step,
        "test": errors,
        "split": encode(np.minimum(run.data.split[rows], 2), "u1"),
        "heldOut": {
            "by": judged_by(run),
            "loss": encode(doubts.loss.numpy(), "f4"),
            "suggestion": encode_ids(doubts.suggestion.numpy(), len(run.classes)),
        },
        "contrast": {
            "beside": doubtful.of_own.shape[1],
            "ids": encode(doubtful.ids.numpy(), "i4"),
            "other": encode_ids(doubtful.other.numpy(), len(run.classes)),
            "ofOwn": encode(doubtful.of_own.numpy(), "i4"),
            "ofOther": encode(doubtful.of_other.numpy(), "i4"),
        },
        "crowd": crowd
        and {
            "positions": encode(square_around(maps)(crowd[0]), "u2"),
            "labels": encode_ids(crowd[1], len(run.classes)),
        },
        "moments": [_describe_moment(m, count, *place, report) for m, place in zip(moments, places, strict=True)],
    }


def describe_errors(run: Run) -> dict[str, Any] | None:
    """The errors that `magnet evaluate` has for the plain view, of the whole test part; None where there is none.

    Of very many examples, that under soft kNN is of a sample: ``n`` of a rule is what its error is of.
    They are written out here: a browser rounds 6.25 to 6.3, Python to 6.2, and there is one figure for one error.
    """
    if not len(run.data.indices("test")):
        return None
    found = errors_soon(run)
    rules = [
        {
            "name": name,
            "error": percent(found["plain"][rule]["error"]),
            "own": rule == found["rule"],
            "n": found["sampled" if rule == "knn" else "n"],
        }
        for rule, name in RULE_NAMES.items()
        if rule in found["plain"]
    ]
    return {"n": found["n"], "images": run.data.kind == "images", "rules": rules}


def _describe_moment(
    moment: Moment, count: int, examples: Encoded, centres: Encoded, report: Report | None
) -> dict[str, Any]:
    index, sigma = moment.index, moment.sigma
    fewer = 2 if count > MANY or not moment.evaluated else 1
    classes = moment.probabilities.shape[1]
    best = moment.probabilities.topk(min(-(-BEST // fewer), classes), dim=1)
    squared, near = near_each_other(moment.representations, NEIGHBOURS // fewer, report)
    impostors = index.nearest_impostors(IMPOSTORS)
    apart = torch.linalg.vector_norm(index.centres[:, None] - index.centres[impostors.clamp_min(0)], dim=2) / sigma
    return {
        "step": moment.step,
        "evaluated": moment.evaluated,
        "shown": encode(moment.shown.numpy(), "i4"),
        "positions": examples,
        "loss": encode(moment.loss.numpy(), "f4"),
        "best": {"count": best.indices.shape[1], "classes": encode_ids(best.indices.numpy(), classes),
                 "probabilities": encode((best.values * 65535).round().numpy(), "u2")},
        "neighbours": {"count": near.shape[1], "ids": encode_ids(moment.shown[near].numpy(), count),
                       "distances": encode(squared.sqrt().numpy() / sigma, "f4")},
        "clusters": encode(moment.clusters.numpy(), "i4"),
        "own": encode(moment.own.numpy(), "f4"),
        "impostor": encode_ids(moment.impostor.numpy(), len(index)),
        "impostorDistance": encode(moment.impostor_distance.numpy(), "f4"),
        "centres": {
            "positions": centres,
            "labels": encode_ids(index.centre_labels.numpy(), classes),
            "sizes": encode(index.sizes.numpy(), "i4"),
            "kin": encode(_to_nearest_kin(index.centres, index.centre_labels).numpy() / sigma, "f4"),
            "impostors": encode(impostors.numpy(), "i4"),
            "distances": encode(apart.numpy(), "f4"),
            "perCentre": IMPOSTORS,
        },
    }  # fmt: skip


def _to_nearest_kin(centres: Tensor, labels: Tensor) -> Tensor:
    """The distance (J,) from each centre to the nearest other one of its class; 0 for the only one of a class."""
    apart = torch.zeros(len(centres))
    for label in labels.unique():
        mine = (labels == label).nonzero()[:, 0]
        if len(mine) > 1:
            among = torch.cdist(centres[mine], centres[mine]).fill_diagonal_(torch.inf)
            apart[mine] = among.min(dim=1).values.to(apart.dtype)
    return apart


def encode(array: np.ndarray, kind: str) -> Encoded:
    """Any array, flattened, as one of the kinds in ARRAYS."""
    data = np.ascontiguousarray(array).astype(f"<{kind}").tobytes()
    return {"type": ARRAYS[kind], "base64": base64.b64encode(data).decode("ascii")}


def encode_text(texts: list[str]) -> Encoded:
    """Texts, so that they can lie beside the page."""
    return {"type": "Text", "base64": base64.b64encode(json.dumps(texts).encode("ascii")).decode("ascii")}


def put_beside(value: Any, keep: Keep) -> tuple[Any, list[str]]:
    """Move large arrays out of the data of a page, into scripts that the page runs first.

    A browser that opens a file may run scripts beside it, but not read other files. Each script holds one array, or a
    part of one, under a name made from its place and its content: with a script of another page the arrays are
    missing, not wrong. Equal arrays, such as the parts of the data in each of several runs, lie there once.

    Returns:
        The data with names of parts in place of the arrays, and the addresses of the scripts.
    """
    addresses: list[str] = []
    known: dict[tuple[str, str], dict[str, Any]] = {}

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(inner) for inner in value] if value and isinstance(value[0], dict) else value
        if not isinstance(value, dict):
            return value
        if "base64" not in value:
            return {key: moved(inner) for key, inner in value.items()}
        text, parts = value["base64"], []
        if len(text) < SHORT:
            return value
        if (value["type"], text) in known:
            return known[value["type"], text]
        for start in range(0, len(text), PART):
            part = text[start : start + PART]
            parts.append(f"{len(addresses)}-{hashlib.sha256(part.encode('ascii')).hexdigest()[:16]}")
            script = f'(globalThis.magnetParts ??= {{}})["{parts[-1]}"] = "{part}";\n'
            addresses.append(keep(f"data/{len(addresses)}.js", script.encode("ascii")))
        known[value["type"], text] = {"type": value["type"], "parts": parts}
        return known[value["type"], text]

    return moved(value), addresses


def encode_ids(array: np.ndarray, count: int) -> Encoded:
    """Ids below ``count`` in as few bytes as they take."""
    return encode(array, "u2" if count <= 2**16 else "i4")


def encode_bits(flags: np.ndarray) -> Encoded:
    """Booleans (n,), eight a byte, the first in the highest bit."""
    return encode(np.packbits(flags), "u1")


def square_around(maps: list[Positions]) -> Callable[[np.ndarray], np.ndarray]:
    """From positions (n, 2) on any of the maps into one square of 0..65535 with a margin, so that maps compare."""
    everything = np.concatenate([part for pair in maps for part in pair])
    low, high = everything.min(axis=0), everything.max(axis=0)
    side = max(1.1 * float((high - low).max()), 1e-9)
    corner = (low + high - side) / 2

    return lambda part: np.rint((part - corner) / side * 65535).clip(0, 65535)


def encode_positions(maps: list[Positions]) -> list[tuple[Encoded, Encoded]]:
    """Maps in 16 bits a coordinate, examples and centres of each."""
    squeeze = square_around(maps)
    return [(encode(squeeze(examples), "u2"), encode(squeeze(centres), "u2")) for examples, centres in maps]
