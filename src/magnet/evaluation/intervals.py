"""Paired bootstrap intervals: how sure a difference between two methods is, over test examples and over seeds."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

INSIDE = 0.95  # of the resampled differences


class Interval(NamedTuple):
    """A number and the interval that holds 95 % of its bootstrap draws."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether all of the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


def paired_interval(a: np.ndarray, b: np.ndarray, *, seed: int = 0, draws: int = 2000) -> Interval:
    """The difference mean(a) - mean(b).

    Args:
        a, b: (S, n) the same n examples in S repetitions (seeds, random pairings): whether each was wrong, or any other
            value of it. Examples and repetitions are drawn with replacement, the same ones of both.
        seed: of the draws.
        draws: how many.

    >>> a, b = np.array([[0, 0, 1, 0] * 20]), np.array([[1, 0, 1, 0] * 20])
    >>> [round(float(x), 2) for x in paired_interval(a, b)]
    [-0.25, -0.35, -0.16]
    """
    return _interval(a, b, lambda x, y: x - y, seed, draws)


def relative_interval(a: np.ndarray, b: np.ndarray, *, seed: int = 0, draws: int = 2000) -> Interval:
    """The relative difference 1 - mean(a) / mean(b). Arguments as for `paired_interval`."""
    return _interval(a, b, lambda x, y: 1 - x / np.maximum(y, np.finfo(float).tiny), seed, draws)


def in_both(a: Sequence[np.ndarray | None], b: Sequence[np.ndarray | None]) -> tuple[np.ndarray, np.ndarray] | None:
    """The repetitions (S, ...) that both sides have, for the functions above; None if there are none.

    Args:
        a, b: the values of each repetition; None where there are none, because the run diverged.
    """
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    if not pairs:
        return None
    return np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])


def _interval(
    a: np.ndarray, b: np.ndarray, compare: Callable[[np.ndarray, np.ndarray], np.ndarray], seed: int, draws: int
) -> Interval:
    a, b = np.atleast_2d(np.asarray(a, float)), np.atleast_2d(np.asarray(b, float))
    if a.shape != b.shape or a.size == 0:
        raise ValueError(f"a and b must have one shape (S, n) and hold something; found {a.shape} and {b.shape}")
    rng = np.random.default_rng(seed)
    repetitions, examples = a.shape
    means = np.empty((draws, 2))
    for draw in range(draws):
        # How often each example is drawn; a product with these counts is quicker than indexing.
        weights = np.bincount(rng.integers(examples, size=examples), minlength=examples) / examples
        rows = rng.integers(repetitions, size=repetitions)
        means[draw] = (a[rows] @ weights).mean(), (b[rows] @ weights).mean()
    drawn = compare(means[:, 0], means[:, 1])
    low, high = np.quantile(drawn, [(1 - INSIDE) / 2, (1 + INSIDE) / 2])
    found = compare(np.array(a.mean()), np.array(b.mean()))
    return Interval(float(found), float(low), float(high))
