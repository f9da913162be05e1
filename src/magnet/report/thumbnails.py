"""Small pictures of examples, for maps."""

import numpy as np

from magnet.data import Dataset


def thumbnails(data: Dataset, rows: np.ndarray, side: int) -> np.ndarray | None:
    """Pictures of examples (n, side, side, 3), bytes; None of vectors that are no pictures.

    Digits are vectors, but of 8 x 8 pixels: these are drawn in ink on paper.
    """
    if data.kind == "images":
        sized = data.with_image_size(max(1, side * 10 // 13), cache_bytes=0)
        return _resized(sized.batch(rows).permute(0, 2, 3, 1).numpy(), side)
    if data.name == "digits":
        ink = data.batch(rows).reshape(-1, 8, 8, 1).numpy()
        return _resized(np.repeat(np.round(255 * (1 - ink)).astype(np.uint8), 3, axis=3), side)
    return None


def _resized(pictures: np.ndarray, side: int) -> np.ndarray:
    """Pictures (n, s, s, 3) at another side, by the nearest pixel: they are of nearly that size, or 8 pixels wide."""
    nearest = ((np.arange(side) + 0.5) * pictures.shape[1] / side).astype(int)
    return pictures[:, nearest][:, :, nearest]
