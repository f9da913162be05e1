"""Pictures of examples for a page: photographs, and vectors that are small images, as WebP."""

import base64
import io
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

from magnet.data import Dataset
from magnet.data.images import room

SQUARE = 28  # vectors without names of features that may be images of up to this side are drawn as such


def square_side(data: Dataset) -> int:
    """The side of the images that vectors are, such as digits; 0 of vectors that are something else."""
    side = math.isqrt(data.shape[0]) if data.kind == "vectors" else 0
    square = data.feature_names is None and 4 <= side <= SQUARE and side * side == data.shape[0]
    return side if square else 0


def photographs(data: Dataset, rows: Sequence[int] | np.ndarray, side: int) -> Iterator[np.ndarray]:
    """The centre squares (side, side, 3) of images, bytes, decoded in threads; in the order of ``rows``."""
    size = next(size for size in range(1, side + 1) if room(size) >= side)
    sized = data.with_image_size(size, cache_bytes=0)
    with ThreadPoolExecutor() as pool:
        for some in np.array_split(np.asarray(rows), -(-len(rows) // 256) or 1):  # few at a time: a caller may stop
            for image in pool.map(sized.__getitem__, some.tolist()):
                yield image[:, :side, :side].permute(1, 2, 0).numpy()


def squares(data: Dataset, rows: np.ndarray) -> np.ndarray:
    """Vectors that are images as bytes (n, side * side), the highest value of all black."""
    values = data.batch(rows).numpy()
    low, high = float(values.min()), float(values.max())
    return np.asarray(((high - values) / max(high - low, 1e-12) * 255).round().astype(np.uint8))


def webp(pixels: np.ndarray, quality: int = 72) -> bytes:
    """Pixels (h, w, 3) or (h, w) as a WebP file."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "WEBP", quality=quality, method=4)
    return stream.getvalue()


def data_uri(picture: bytes) -> str:
    """A WebP file as an address that holds it whole."""
    return "data:image/webp;base64," + base64.b64encode(picture).decode("ascii")
