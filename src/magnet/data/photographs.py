"""Whether data looks like photographs, by the sizes of a few of its image files. Nothing here imports torch."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from statistics import median_low

import numpy as np

from magnet.data.listings import EncodedImage, is_image
from magnet.data.sources import find_source, kind_of
from magnet.errors import UserError

SMALLEST = 64  # the short side of a photograph, in pixels: what is smaller is a digit, an icon or a thumbnail
FEW = 15  # files whose sizes are looked at


def are_photographs(spec: str, label: str = "") -> bool:
    """Whether what --data names holds image files of the size of photographs; False where it holds no image files.

    Args:
        spec: what --data takes.
        label: the column of the labels, without which some tables cannot be read.
    """
    name, colon, folder = spec.partition(":")
    path = Path(folder if colon and name.replace("-", "").isalpha() else spec).expanduser()
    found: list[Path | EncodedImage] = list(islice(_files(path), FEW))
    if not found and path.exists() and kind_of(spec) == "images":  # in archives, or in tables and where these say
        with suppress(UserError):
            content = find_source(spec, label=label)().content
            found = [] if isinstance(content, np.ndarray) else list(content[:: max(1, len(content) // FEW)])
    return short_side(found) >= SMALLEST


def short_side(images: Iterable[Path | EncodedImage]) -> int:
    """The median short side of image files in pixels, from their headers; 0 where none can be read."""
    from PIL import Image

    sides = []
    for image in images:
        file = image if isinstance(image, Path) else io.BytesIO(image.read())
        with suppress(Exception), Image.open(file) as opened:  # whoever decodes it says what is wrong with it
            sides.append(min(opened.size))
    return median_low(sides) if sides else 0


def _files(folder: Path) -> Iterator[Path]:
    """Image files in a folder, in any order; none of what is no folder."""
    for place, _, names in os.walk(folder, followlinks=True):
        yield from (Path(place) / name for name in names if is_image(name))
