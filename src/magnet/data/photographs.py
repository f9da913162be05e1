"""Whether data looks like photographs, by the sizes of a few of its image files. Nothing here imports torch."""

from __future__ import annotations

import csv
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


def are_photographs(spec: str) -> bool:
    """Whether what --data names holds image files of the size of photographs; False where it holds no image files."""
    name, colon, folder = spec.partition(":")
    path = Path(folder if colon and name.replace("-", "").isalpha() else spec).expanduser()
    found: list[Path | EncodedImage] = list(islice(_files(path), FEW))
    if not found and path.exists() and kind_of(spec) == "images":  # inside of archives and tables
        with suppress(UserError):
            content = find_source(spec)().content
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


def _files(path: Path) -> Iterator[Path]:
    """Image files in a folder or a table, as they come."""
    if path.is_dir():
        for place, _, names in os.walk(path, followlinks=True):
            yield from (Path(place) / name for name in names if is_image(name))
    elif path.suffix.lower() == ".csv" and path.is_file():
        with suppress(OSError, ValueError, csv.Error), path.open(newline="", encoding="utf-8-sig") as stream:
            for row in csv.DictReader(stream, skipinitialspace=True):
                yield path.parent / (row.get("path") or "")
