"""The data as a run began: which example was in which part, what it held, and which classes were merged.

Data that grows later must not move examples between the parts; data that changes otherwise must be noticed.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from magnet.data import Dataset
from magnet.data.digest import Digest
from magnet.data.groups import Merging
from magnet.errors import UserError
from magnet.files import replacing

FILE = "parts.safetensors"  # in a run folder
NO_PART = 3  # of an example that came later


@dataclass(frozen=True)
class Start:
    """What a run wrote down of its data when it began."""

    digest: Digest | None  # None: not known, the run being of an earlier version
    merging: Merging | None  # None: no classes were merged


def keep_parts(folder: Path, data: Dataset) -> None:
    """Write down the part of every example, by its name and class, and what the data holds."""
    merging = Merging.of(data)
    about = {"data": json.dumps(data.digest.to_dict())}
    if merging is not None:
        about["merging"] = json.dumps(asdict(merging))
    with replacing(folder / FILE) as draft:
        save_file({"examples": _marks(data), "parts": torch.from_numpy(data.split.copy())}, draft, about)


def read_start(folder: Path) -> Start:
    """What a run wrote down of its data, apart from the parts of the examples."""
    path = folder / FILE
    if not path.is_file():
        return Start(None, None)
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
        merging = about.get("merging")
        return Start(
            Digest.from_dict(json.loads(about["data"])) if "data" in about else None,
            None if merging is None else Merging(**json.loads(merging)),
        )
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:
        raise _broken(path, error) from error


def merge_again(folder: Path, data: Dataset) -> Dataset:
    """The data with its classes merged as a run has them, if the run was trained on merged classes."""
    merging = read_start(folder).merging
    return data if merging is None else merging.apply(data)


def restore_parts(folder: Path, data: Dataset) -> Dataset:
    """Give every example the part that it had; those that came later are in none."""
    known = _read(folder)
    if known is None:
        return data
    marks = _marks(data)
    if torch.equal(known["examples"], marks):  # also where two examples have the same name and class
        data.split = known["parts"].numpy()
    else:
        part_of = dict(zip(known["examples"].tolist(), known["parts"].tolist(), strict=True))
        data.split = np.array([part_of.get(mark, NO_PART) for mark in marks.tolist()], np.int8)
    return data


def change_note(folder: Path, data: Dataset) -> str:
    """A line on what has changed in the data of a run since it began; "" if nothing, or if that is not known."""
    before = read_start(folder).digest
    changes = "" if before is None else data.digest.changes(before)
    return f"{data.spec} has changed since {folder} began to train on it: {changes}" if changes else ""


def merging_note(folder: Path) -> str:
    """A line on the merged classes of a run; "" if it has none."""
    merging = read_start(folder).merging
    return f"{folder} was trained on merged classes: {merging}" if merging else ""


def check_parts(folder: Path, data: Dataset) -> None:
    """Raise unless the data has just the examples that the run began with: it cannot go on with others."""
    known = _read(folder)
    if known is not None and not torch.equal(known["examples"], _marks(data)):
        raise UserError(
            f"the data of {folder} has changed since it began ({len(known['examples'])} examples then, {len(data)} "
            "now, or others): put it back as it was, or train anew"
        )


def same_training_part(folder: Path, data: Dataset) -> bool:
    """Whether the training part has just the examples that it had when the run began, in their order."""
    known = _read(folder)
    if known is None:
        return True
    return torch.equal(known["examples"][known["parts"] == 0], _marks(data)[data.indices("train")])


def _marks(data: Dataset) -> Tensor:
    """A number for each example (N,), from its name and class."""
    digests = bytearray()  # grown row by row: lists of millions of strings would take a gigabyte
    rows = (label for part in data.labels.split(2**16) for label in part.tolist())
    for name, label in zip(data.names, rows, strict=True):
        mark = f"{name}\0{data.classes[label]}".encode(errors="surrogateescape")
        digests += hashlib.blake2b(mark, digest_size=8).digest()
    return torch.frombuffer(digests, dtype=torch.int64)


def _read(folder: Path) -> dict[str, Tensor] | None:
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return load_file(path)
    except SafetensorError as error:
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} cannot be read ({error}): the file is broken or cut short")
