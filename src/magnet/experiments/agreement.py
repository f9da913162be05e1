"""Whether an experiment that was made again agrees with the one before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from magnet.errors import UserError
from magnet.experiments.outcome import Table
from magnet.experiments.words import DIVERGED
from magnet.files import read_json

# of the search, or computed from the figures themselves
_LEFT_OUT = ("settings", "trials", "attributes", "sizes", "curves", "shown", "difference", "relative", DIVERGED)


def read_values(path: Path, experiment: str) -> dict[str, Any]:
    """The values of a results file of ``experiment``."""
    try:
        content = read_json(path)
        found, values = content["experiment"], content["values"]
        dict(_figures(values))  # that they can be read is to be known before the work, not after it
    except OSError as error:
        raise UserError(f"--against must be the results.json of an experiment; {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"--against must be the results.json of an experiment; {path} is something else") from None
    if found != experiment:
        raise UserError(f"--against must be results of {experiment}; {path} has those of {found}")
    return values


def agreement(before: dict[str, Any], now: dict[str, Any]) -> Table:
    """The figures of two results whose mean ± standard deviation over repetitions do not overlap.

    How many of all do is in the title. A single repetition has no spread, and is not compared.
    """
    earlier = dict(_figures(before))
    both = [(name, earlier[name], new) for name, new in _figures(now) if name in earlier]
    apart = [[name, _words(old), _words(new)] for name, old, new in both if not _overlap(_extent(old), _extent(new))]
    title = f"{len(both) - len(apart)} of {len(both)} figures agree with the earlier ones (mean ± deviation overlap)"
    return Table(title + (", these do not:" if apart else ""), ["figure", "before", "now"], apart)


def _figures(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Names and repetitions of all figures; NaN where one was not reached."""
    for key, value in values.items():
        name = f"{path} / {key}" if path else str(key)
        if key in _LEFT_OUT or "magnet_" in key:
            continue
        if isinstance(value, dict):
            yield from _figures(value, name)
        elif isinstance(value, list) and len(value) > 1:
            repetitions = np.asarray(value, float)  # shape (repetitions,) or (repetitions, columns)
            if repetitions.ndim == 1:
                yield name, repetitions
            else:
                yield from ((f"{name} / {column + 1}", repetitions[:, column]) for column in range(len(value[0])))


def _extent(repetitions: np.ndarray) -> tuple[float, float]:
    """Mean minus and plus the standard deviation; lowest and highest where some are missing."""
    there = repetitions[~np.isnan(repetitions)]
    if not len(there):
        return np.inf, np.inf
    if len(there) < len(repetitions):
        return float(there.min()), float(there.max())
    return float(there.mean() - there.std(ddof=1)), float(there.mean() + there.std(ddof=1))


def _overlap(first: tuple[float, float], second: tuple[float, float]) -> bool:
    return first[0] <= second[1] and second[0] <= first[1]


def _words(repetitions: np.ndarray) -> str:
    there = repetitions[~np.isnan(repetitions)]
    if len(there) < len(repetitions):
        return f"{len(there)} of {len(repetitions)} there" + "".join(f", {value:.3g}" for value in there)
    return f"{there.mean():.3g} ± {there.std(ddof=1):.2g}"
