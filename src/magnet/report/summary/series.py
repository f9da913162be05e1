"""Series of numbers from a journal, made fit to be drawn."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

MOST = 400  # points of a line
SMOOTH_FROM = 60  # points from which a line is drawn as its moving mean


class Series(NamedTuple):
    """Numbers along the training."""

    steps: np.ndarray  # (n,)
    values: np.ndarray  # (n,)


def series(journal: Sequence[dict[str, Any]], kind: str, key: str) -> Series:
    """All finite values of a key in the records of a kind."""
    found = [
        (record["step"], record[key])
        for record in journal
        if record.get("kind") == kind and isinstance(record.get(key), int | float) and isfinite(record[key])
    ]
    table = np.array(found, dtype=float).reshape(-1, 2)
    return Series(table[:, 0], table[:, 1])


def thin(line: Series, most: int = MOST) -> Series:
    """The line with at most that many points: means of runs of equally many."""
    if len(line.steps) <= most:
        return line
    cuts = np.linspace(0, len(line.steps), most + 1).astype(int)[:-1]
    sizes = np.diff([*cuts, len(line.steps)])
    return Series(*(np.add.reduceat(numbers, cuts) / sizes for numbers in line))


def smooth(line: Series) -> Series | None:
    """The moving mean over a twentieth of the line; None for a line so short that it can be read as it is."""
    if len(line.steps) < SMOOTH_FROM:
        return None
    half = max(1, len(line.steps) // 40)
    sums = np.concatenate([[0.0], line.values.cumsum()])
    place = np.arange(len(line.values))
    low, high = np.maximum(place - half, 0), np.minimum(place + half + 1, len(line.values))
    return Series(line.steps, (sums[high] - sums[low]) / (high - low))
