"""What an example looks like: a thumbnail on a sprite sheet, a vector of pixels as a small image, or its features."""

import base64
import io
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image

from magnet.data import Dataset
from magnet.data.images import room
from magnet.report.explorer.encode import encode

SIDE = 48  # of a thumbnail: six blocks of a JPEG, so that neighbours on a sheet don't touch each other
COLUMNS = 32
SQUARE = 28  # vectors without names of features that may be images of up to this side are drawn as such
FEATURES = 32  # of a vector that are shown at most; each takes 40 kB of a page with 10,000 examples
Report = Callable[[int, int], None]


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
