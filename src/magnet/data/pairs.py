"""A torch data set of pairs (x, label): vectors, or images as Pillow, arrays or tensors have them."""

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from magnet.data.arrays import list_arrays
from magnet.data.columns import read_labels
from magnet.data.listings import EncodedImage, Listing, Numbered
from magnet.errors import UserError


@dataclass(frozen=True)
class Item(EncodedImage):
    """The image of an example of a torch data set, fetched when it is read."""

    pairs: Any
    index: int

    def read(self) -> bytes:
        """The image as the bytes of an uncompressed file."""
        stream = BytesIO()
        to_image(self.pairs[self.index][0], self).save(stream, "BMP")
        return stream.getvalue()

    def __str__(self) -> str:
        return f"example {self.index} of the data set"


def list_pairs(pairs: Any) -> Listing:
    """The examples of a torch data set. It is walked through once for the labels; images are then fetched as needed.

    Args:
        pairs: has a length, and a pair (x, label) at every index: vectors (d,), or images without random changes:
            Pillow's, or uint8 or float in 0..1, (H, W), (H, W, 3) or, as torch has them, (1 or 3, H, W).
    """
    if not hasattr(pairs, "__len__") or not len(pairs):
        raise UserError("the torch data set has no length, or no examples; one with an index is needed")
    first = pairs[0]
    if not isinstance(first, tuple | list) or len(first) < 2:
        raise UserError(f"the torch data set has {type(first).__name__} at index 0; expected a pair (x, label)")
    name = type(pairs).__name__
    known = getattr(pairs, "classes", None)
    classes = [str(word) for word in known] if isinstance(known, list | tuple) else None
    if not isinstance(first[0], Image.Image) and np.ndim(first[0]) == 1:
        vectors, given = zip(*(pairs[i][:2] for i in range(len(pairs))), strict=True)
        return list_arrays(
            {"X": np.stack([np.asarray(x) for x in vectors]), "y": _labels(given), "classes": classes}, name
        )
    to_image(first[0], Item(pairs, 0))  # refuses what is no image before the whole data set is read
    targets = getattr(pairs, "targets", None)
    found = targets if targets is not None and len(targets) == len(pairs) else (pairs[i][1] for i in range(len(pairs)))
    labels = read_labels(_labels(found), f"{name}: targets", classes)
    content: list[EncodedImage] = [Item(pairs, i) for i in range(len(pairs))]
    return Listing(name, content, labels.labels, labels.classes, Numbered(len(pairs)))


def to_image(x: Any, where: object) -> Image.Image:
    """An image as Pillow has it, from pixels in one of the usual forms."""
    if isinstance(x, Image.Image):
        return x.convert("RGB")
    pixels = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3) and pixels.shape[2] not in (1, 3):
        pixels = pixels.transpose(1, 2, 0)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim not in (2, 3) or pixels.dtype.kind not in "uf" or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise UserError(
            f"{where} is {pixels.dtype} of shape {pixels.shape}; expected a vector (d,), a Pillow image, or pixels "
            "(H, W), (H, W, 3) or (3, H, W), bytes or floats in 0..1"
        )
    if pixels.dtype.kind == "f":
        low, high = float(pixels.min(initial=0)), float(pixels.max(initial=0))
        if low < 0 or high > 1:
            raise UserError(
                f"{where} holds values from {low:.2g} to {high:.2g}; expected bytes, or floats in 0..1: leave out "
                "Normalize, which is done for each network"
            )
        pixels = (255 * pixels).round()
    return Image.fromarray(pixels.astype(np.uint8)).convert("RGB")


def _labels(found: Iterable[Any]) -> np.ndarray:
    return np.array([np.asarray(label).item() if not isinstance(label, str) else label for label in found])
