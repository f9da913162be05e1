"""How numbers are written in the tables."""

import numpy as np

from magnet.evaluation.intervals import Interval

PAIRED = "In brackets: 95 % interval, paired bootstrap over test examples and repetitions; * where it excludes zero."
_NAMES = {"softmax": "softmax", "triplet": "triplet", "semantic-triplet": "semantic triplet", "magnet": "Magnet"}


def pretty(method: str) -> str:
    """The name of a method as it is printed."""
    return _NAMES.get(method, method.removeprefix("pml/").removesuffix("Loss"))


def seeds(count: int) -> str:
    """How many there were."""
    return f"{count} seeds" if count > 1 else "one seed"


def mean_of(count: int) -> str:
    """What the numbers of `spread` are."""
    return f"mean ± standard deviation of {count} seeds" if count > 1 else "one seed"


def spread(fractions: np.ndarray | list[float]) -> str:
    """Mean ± standard deviation of fractions, in percent."""
    values = 100 * np.asarray(fractions, float)
    return f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(values) > 1 else f"{values.mean():.1f}"


def difference(interval: Interval) -> str:
    """A difference of fractions in percentage points, with its interval."""
    mean, low, high = (100 * value for value in interval)
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]{'*' * interval.excludes_zero}"


def share(interval: Interval) -> str:
    """A relative difference in percent, with its interval."""
    mean, low, high = (100 * value for value in interval)
    return f"{mean:.0f} % [{low:.0f}, {high:.0f}]{'*' * interval.excludes_zero}"
