"""What people hand to a model, as batches of raw examples."""

from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from magnet.data.images import decode, room
from magnet.errors import UserError
from magnet.export.description import Description
from magnet.training.refresh import PASS_BATCH

EXPECTED = "paths, PIL images or uint8 arrays of shape (H, W), (H, W, 3) or (n, H, W, 3)"


def raw_batches(inputs: Any, description: Description) -> Iterator[Tensor]:
    """Vectors, float32 (b, d), or images, uint8 (b, 3, S, S), some at a time; one example alone is a batch of one."""
    if description.kind == "vectors":
        yield from as_vectors(inputs, description.network.shape[0]).split(PASS_BATCH["vectors"])
        return
    images, side, size = as_images(inputs), room(description.views.size), PASS_BATCH["images"]
    for start in range(0, len(images), size):
        yield torch.stack([decode(image, side) for image in images[start : start + size]])


def as_vectors(inputs: Any, width: int) -> Tensor:
    """Float32 (n, width), of anything that numpy takes for a table of numbers."""
    try:
        table = inputs.detach().cpu() if isinstance(inputs, Tensor) else torch.as_tensor(np.asarray(inputs))
    except (TypeError, ValueError) as error:
        raise UserError(f"the model takes vectors of {width} numbers, found {type(inputs).__name__}") from error
    rows = table.reshape(1, -1) if table.ndim == 1 else table
    if rows.ndim != 2 or rows.shape[1] != width or not len(rows):
        raise UserError(f"the model takes vectors of shape (n, {width}), n >= 1; found {tuple(table.shape)}")
    rows = rows.to(torch.float32)
    if not bool(rows.isfinite().all()):
        raise UserError("the vectors hold NaN or infinity")
    return rows


def as_images(inputs: Any) -> Sequence[Path | Image.Image | np.ndarray]:
    """A sequence of images that `decode` takes."""
    if isinstance(inputs, Tensor):  # channels first, as torch has them
        inputs = inputs.detach().cpu().movedim(-3, -1).numpy() if inputs.ndim > 2 else inputs.cpu().numpy()
    if isinstance(inputs, str | PathLike | Image.Image) or (isinstance(inputs, np.ndarray) and is_one(inputs)):
        inputs = [inputs]
    if not isinstance(inputs, Sequence | np.ndarray) or not len(inputs):
        found = "nothing" if isinstance(inputs, Sequence) else type(inputs).__name__
        raise UserError(f"the model takes images: {EXPECTED}; found {found}")
    return [_one(entry) for entry in inputs]


def is_one(pixels: np.ndarray) -> bool:
    """Whether an array is one image and not several."""
    return pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[-1] == 3)


def class_name(label: Any) -> str:
    """The name of a class: text as it is, numbers as text, whole ones without a fraction."""
    value = label.item() if isinstance(label, np.generic | Tensor) else label
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def names_of(inputs: Any, count: int) -> list[str]:
    """Names for new examples: their paths, or numbers."""
    entries = [inputs] if isinstance(inputs, str | PathLike) else inputs
    named = isinstance(entries, Sequence) and all(isinstance(entry, str | PathLike) for entry in entries)
    return [fspath(entry) for entry in entries] if named else [f"added {i}" for i in range(count)]


def _one(entry: Any) -> Path | Image.Image | np.ndarray:
    if isinstance(entry, str | PathLike):
        return Path(entry)
    if isinstance(entry, Image.Image):
        return entry
    if isinstance(entry, np.ndarray) and entry.dtype == np.uint8 and is_one(entry):
        return entry
    found = f"{entry.dtype} {entry.shape}" if isinstance(entry, np.ndarray) else type(entry).__name__
    raise UserError(f"the model takes images: {EXPECTED}; found {found}")
