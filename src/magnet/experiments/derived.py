"""Attributes for the experiments: those that the data has, or plain facts of the pixels where it has none."""

import numpy as np

from magnet.data import Dataset
from magnet.data.attributes import Attributes
from magnet.errors import UserError
from magnet.report.thumbnails import thumbnails

NAMES = ["bright", "left-heavy", "top-heavy", "wide"]
NOTE = (
    "The data has no attributes: these were computed from the pixels. Half of the examples each are brighter, "
    "have their light further left, further up, or spread wider than the other half."
)
SIDE = 28


def attributes_of(data: Dataset, rows: np.ndarray) -> tuple[Attributes, str]:
    """The attributes of the examples at ``rows`` (n,), and what a reader must know of them ("" if nothing)."""
    if data.attributes is not None:
        return data.attributes.keep(rows), ""
    return derived_attributes(data, rows), NOTE


def derived_attributes(data: Dataset, rows: np.ndarray) -> Attributes:
    """Four binary attributes of pictures, each cut at the median of the given examples.

    With brightness as mass: the mass itself, its mean place across and down, and its deviation across. Of digits the
    ink is the mass.
    """
    pictures = thumbnails(data, rows, 8 if data.name == "digits" else SIDE)
    if pictures is None:
        raise UserError(
            f"{data.spec} has no attributes and no pictures to compute some from; give data with attributes: an .npz "
            "with attributes (N, A) or class_attributes (C, A), cub:FOLDER or imagenet-attributes:FOLDER"
        )
    mass = pictures.mean(axis=3) / 255
    if data.name == "digits":
        mass = 1 - mass
    place = (np.arange(mass.shape[1]) + 0.5) / mass.shape[1]
    total = np.maximum(mass.sum(axis=(1, 2)), 1e-12)
    across, down = mass.sum(axis=1) / total[:, None], mass.sum(axis=2) / total[:, None]
    x, y = across @ place, down @ place
    wide = np.sqrt(np.maximum(across @ place**2 - x**2, 0))
    measured = np.stack([total, -x, -y, wide], axis=1)
    return Attributes(NAMES, (measured > np.median(measured, axis=0)).astype(np.float32), "image")
