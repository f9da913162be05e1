"""Densities of points in the plane, and their picture: every class a soft field of its own colour."""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from magnet.report.colours import ATTRIBUTE, class_colours, hex_colour

SIDE = 480  # pixels of a field
REACH = 4  # a kernel is cut at this many bandwidths, and the frame leaves as much room around the points


@dataclass(frozen=True)
class Frame:
    """A square of the plane that holds all of some points, and the width of the kernel that suits them."""

    left: float
    bottom: float
    width: float
    bandwidth: float

    @classmethod
    def around(cls, positions: np.ndarray) -> "Frame":
        """The frame of points (n, 2): the more there are, the finer the kernel."""
        low, high = positions.min(axis=0), positions.max(axis=0)
        spread = float((high - low).max()) or 1.0
        bandwidth = 0.05 * spread * len(positions) ** (-1 / 6)  # Scott's exponent in two dimensions
        width = spread + 2 * REACH * bandwidth
        left, bottom = (low + high - width) / 2
        return cls(float(left), float(bottom), width, bandwidth)

    def unit(self, positions: np.ndarray) -> np.ndarray:
        """The same points (n, 2) in a frame of 0..1."""
        return (positions - [self.left, self.bottom]) / self.width


def density(positions: np.ndarray, frame: Frame, side: int = SIDE) -> np.ndarray:
    """Kernel density of points (n, 2) on a grid (side, side), rows from the bottom up.

    Its integral over the frame is 1: ``density.sum() * (frame.width / side) ** 2``. The kernel is a Gaussian over
    binned points; a bin is far narrower than the kernel.
    """
    cells = np.clip((frame.unit(positions) * side).astype(int), 0, side - 1)
    counts = np.zeros((side, side))
    np.add.at(counts, (cells[:, 1], cells[:, 0]), 1)
    field = gaussian_filter(counts, frame.bandwidth / frame.width * side, mode="constant", truncate=REACH)
    return np.asarray(field / max(field.sum(), 1e-12) * (side / frame.width) ** 2)


def class_fields(positions: np.ndarray, labels: np.ndarray, classes: int, frame: Frame, side: int = SIDE) -> np.ndarray:
    """A picture (side, side, 4), RGBA in 0..1, rows from the bottom up, of the densities of all classes.

    The colour of a pixel is the mean of the classes' colours, weighted by their densities there; its opacity grows
    with the sum of them. One class is held in memory at a time, so there may be many.
    """
    mixed, total = np.zeros((side, side, 3)), np.zeros((side, side))
    for label, colour in enumerate(class_colours(classes)):
        own = positions[labels == label]
        if len(own):
            field = density(own, frame, side) * len(own) / len(positions)
            mixed += field[..., None] * colour
            total += field
    colours = mixed / np.maximum(total, 1e-300)[..., None]
    return np.dstack([colours, opacity(total)])


def attribute_field(positions: np.ndarray, has: np.ndarray, frame: Frame, side: int = SIDE) -> np.ndarray:
    """A picture as that of `class_fields`: orange, the more opaque the more of the examples there have it (n,)."""
    everyone = density(positions, frame, side) * len(positions)
    owners = density(positions[has], frame, side) * has.sum() if has.any() else np.zeros_like(everyone)
    share = owners / np.maximum(everyone, 1e-300)
    colour = np.broadcast_to(hex_colour(ATTRIBUTE), (side, side, 3))
    return np.dstack([colour, np.clip(share, 0, 1) * opacity(everyone)])


def opacity(field: np.ndarray) -> np.ndarray:
    """Opacity (side, side) in 0..1: nearly full where the field is as high as in the denser half of its mass."""
    ordered = np.sort(field.ravel())[::-1]
    half = ordered[np.searchsorted(ordered.cumsum(), ordered.sum() / 2)]
    return np.asarray(1 - np.exp(-1.8 * field / max(half, 1e-300)))
