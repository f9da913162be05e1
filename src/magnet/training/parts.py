"""Which example is in which part, as a run began: data that grows later must not move examples between the parts."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from magnet.data import Dataset
from magnet.errors import UserError
from magnet.files import replacing

FILE = "parts.safetensors"  # in a run folder
NO_PART = 3  # of an example that came later


def keep_parts(folder: Path, data: Dataset) -> None:
    """Write down the part of every example, by its name and class."""
    with replacing(folder / FILE) as draft:
        save_file({"examples": _marks(data), "parts": torch.from_numpy(data.split.copy())}, draft)


def restore_parts(folder: Path, data: Dataset) -> Dataset:
    """Give every example the part that it had; those that came later are in none."""
    known = _read(folder)
    if known is None:
        return data
    part_of = dict(zip(known["examples"].tolist(), known["parts"].tolist(), strict=True))
    data.split = np.array([part_of.get(mark, NO_PART) for mark in _marks(data).tolist()], np.int8)
    return data


def check_parts(folder: Path, data: Dataset) -> None:
    """Raise unless the data is just what the run began with: it cannot go on with other examples."""
    known = _read(folder)
    if known is not None and not torch.equal(known["examples"], _marks(data)):
        raise UserError(
            f"the data of {folder} has changed since it began ({len(known['examples'])} examples then, {len(data)} "
            "now, or others): put it back as it was, or train anew"
        )


def _marks(data: Dataset) -> Tensor:
    """A number for each example (N,), from its name and class."""
    digests = bytearray()  # grown row by row: lists of millions of strings would take a gigabyte
    rows = (label for part in data.labels.split(2**16) for label in part.tolist())
    for name, label in zip(data.names, rows, strict=True):
        digests += hashlib.blake2b(f"{name}\0{data.classes[label]}".encode(), digest_size=8).digest()
    return torch.frombuffer(digests, dtype=torch.int64)


def _read(folder: Path) -> dict[str, Tensor] | None:
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return load_file(path)
    except SafetensorError as error:
        raise UserError(f"{path} cannot be read ({error}): the file is broken or cut short") from error
