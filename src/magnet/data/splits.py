"""Train, validation and test: the given parts are kept, the missing ones are drawn by class."""

from __future__ import annotations

import numpy as np

from magnet.errors import UserError

TRAIN, VALIDATION, TEST = 0, 1, 2
PARTS = {"train": TRAIN, "validation": VALIDATION, "val": VALIDATION, "test": TEST}
TEST_FRACTION = 0.3


def stratified(labels: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a fraction of every class. ``labels`` (N,) -> bool (N,), True where drawn.

    The total is the rounded fraction of N as far as classes allow: every class gives the whole part of its
    quota and the largest remainders give one more. No class is ever drawn empty.

    >>> labels = np.array([0] * 10 + [1] * 20 + [2])
    >>> np.bincount(labels[stratified(labels, 0.3, np.random.default_rng(0))], minlength=3)
    array([3, 6, 0])
    """
    classes, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    quota = fraction * counts
    take = np.minimum(np.floor(quota + 1e-9).astype(np.int64), counts - 1)
    # Ties between equal remainders are common (balanced classes), so they are broken by chance, not by name.
    order = np.lexsort((rng.random(len(classes)), -(quota - take)))
    missing = round(fraction * len(labels)) - int(take.sum())
    open_to_more = order[(take < counts - 1)[order] & (quota > take)[order]]
    take[open_to_more[: max(missing, 0)]] += 1

    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(inverse[shuffled], kind="stable")]
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    drawn = np.zeros(len(labels), dtype=bool)
    drawn[by_class[rank < take[inverse[by_class]]]] = True
    return drawn


def complete(split: np.ndarray | None, labels: np.ndarray, *, seed: int, validation: float) -> np.ndarray:
    """Fill in the parts that the source does not give; returns int8 (N,).

    Without a test part 30 % of the training part becomes one. A given validation part is used as it is;
    otherwise a ``validation`` fraction is taken from what is left for training.
    """
    if not 0 <= validation < 1:
        raise UserError(f"validation is {validation}, expected a fraction of the training part in [0, 1).")
    done = np.zeros(len(labels), np.int8) if split is None else np.asarray(split).astype(np.int8)
    for part, fraction in ((TEST, TEST_FRACTION), (VALIDATION, validation)):
        if fraction > 0 and not (done == part).any():
            rows = np.flatnonzero(done == TRAIN)
            # A stream of its own for each part: the test part does not depend on the validation fraction.
            drawn = stratified(labels[rows], fraction, np.random.default_rng([seed, part]))
            done[rows[drawn]] = part
    if not (done == TRAIN).any():
        raise UserError(f"no example is left for training: all {len(done)} are marked validation or test.")
    return done
