"""How numbers are written in the tables."""

from collections.abc import Sequence

import numpy as np

from magnet.evaluation.intervals import Interval

PAIRED = "In brackets: 95 % interval, paired bootstrap over test examples and repetitions; * where it excludes zero."
DIVERGED = "diverged"  # in the place of a number that a run does not have
_NAMES = {"softmax": "softmax", "triplet": "triplet", "semantic-triplet": "semantic triplet", "magnet": "Magnet",
          "nca": "NCA", "cluster-nca": "cluster-NCA", "ncm": "NCM", "ncmc": "NCMC"}  # fmt: skip


def pretty(row: str) -> str:
    """The name of a method as it is printed, with the settings of its own that the row has in brackets."""
    if row.startswith("pml/"):
        return row.removeprefix("pml/").removesuffix("Loss")
    method, bracket, own = row.partition("(")
    own = ", ".join(word.strip() for word in own.replace("=", " ").replace("_", " ").split(","))
    return _NAMES.get(method, method) + (f" ({own}" if bracket else "")


def seeds(count: int) -> str:
    """How many there were."""
    return f"{count} seeds" if count > 1 else "one seed"


def mean_of(count: int) -> str:
    """What the numbers of `spread` are."""
    return f"mean ± standard deviation of {count} seeds" if count > 1 else "one seed"


def spread(fractions: Sequence[float | None]) -> str:
    """Mean ± standard deviation of fractions, in percent; None is that of a run that diverged."""
    values = 100 * np.array([fraction for fraction in fractions if fraction is not None], float)
    if not len(values):
        return DIVERGED
    text = f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(values) > 1 else f"{values.mean():.1f}"
    return text + some_diverged(len(fractions) - len(values), len(fractions))


def some_diverged(diverged: int, runs: int) -> str:
    """What stands behind a number that not all runs have."""
    return f" ({diverged} of {runs} {DIVERGED})" if diverged else ""


def difference(interval: Interval | None) -> str:
    """A difference of fractions in percentage points, with its interval; None where one side diverged."""
    if interval is None:
        return ""
    mean, low, high = (100 * value for value in interval)
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]{'*' * interval.excludes_zero}"


def share(interval: Interval | None) -> str:
    """A relative difference in percent, with its interval; None where one side diverged."""
    if interval is None:
        return ""
    mean, low, high = (100 * value for value in interval)
    return f"{mean:.0f} % [{low:.0f}, {high:.0f}]{'*' * interval.excludes_zero}"
