"""Pair verification: are two examples of the same class? By their distance, and a threshold at a false-accept rate."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from magnet.errors import UserError

MOST_PAIRS = 300_000  # of the same class, and of different ones
RATES = (0.1, 0.01, 0.001)  # of false accepts that are reported
LEAST_FALSE = 10  # false accepts that a threshold must rest on
ROWS = 65_536  # pairs whose distances are computed at a time


def verification(
    representations: Tensor, labels: Tensor, *, rates: Sequence[float] = RATES, unit: float = 1.0, seed: int = 0
) -> dict[str, Any]:
    """How well distances tell pairs of the same class from pairs of different classes.

    Args:
        representations: (n, d).
        labels: (n,) classes.
        rates: of false accepts, at which a threshold is wanted.
        unit: of the reported distances, such as sigma.
        seed: of the pairs, where there are more than 300,000.

    Returns:
        ``pairs``: how many of the ``same`` class and of ``different`` ones. ``auc``: the area under the ROC curve, the
        chance that a pair of the same class is nearer than one of different classes. ``equal_error``: the error rate
        where false accepts and false rejects are equally frequent. ``at``: for each rate, the highest ``threshold``
        with no more ``false_accept`` than that, and its ``true_accept``; a rate that would rest on fewer than ten
        false accepts is left out. ``roc``: points ``[false accept, true accept]`` for a curve. Empty without pairs of
        both kinds.

    Examples:
        >>> r = torch.tensor([[0.0], [1.0], [5.0], [6.0]])
        >>> found = verification(r, torch.tensor([0, 0, 1, 1]))
        >>> found["pairs"], found["auc"]
        ({'same': 2, 'different': 4}, 1.0)
    """
    for rate in rates:
        if not 0 < rate < 1:
            raise UserError(f"a false-accept rate is {rate}, expected a share between 0 and 1")
    same, different = _pairs(labels, seed)
    if not len(same) or not len(different):
        return {}
    near, far = (_distances(representations, pairs).sort().values / unit for pairs in (same, different))
    # Of each distance between different classes: how many pairs of the same class lie nearer, ties counting half.
    below = torch.searchsorted(near, far).double()
    ties = torch.searchsorted(near, far, right=True).double() - below
    found: dict[str, Any] = {
        "pairs": {"same": len(near), "different": len(far)},
        "auc": float((below + ties / 2).mean() / len(near)),
        "equal_error": _equal_error(near, far),
        "at": [at_rate(near, far, rate) for rate in rates if rate * len(far) >= LEAST_FALSE],
    }
    found["roc"] = _curve(near, far)
    return found


def at_rate(near: Tensor, far: Tensor, rate: float) -> dict[str, float]:
    """The highest threshold at which at most a share ``rate`` of false pairs is accepted, and what it accepts.

    Args:
        near: distances of pairs of the same class, ascending.
        far: distances of pairs of different classes, ascending.
        rate: of false accepts.
    """
    allowed = int(rate * len(far))
    # A pair is accepted if it is nearer than the threshold: the first false pair that is one too many.
    threshold = far[min(allowed, len(far) - 1)]
    return {
        "rate": rate,
        "threshold": float(threshold),
        "false_accept": int(torch.searchsorted(far, threshold)) / len(far),
        "true_accept": int(torch.searchsorted(near, threshold)) / len(near),
    }


def _pairs(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Pairs (p, 2) of examples of the same class, and of different ones: all, or a sample of each kind."""
    n = len(labels)
    generator = torch.Generator().manual_seed(seed)
    if n * (n - 1) // 2 <= MOST_PAIRS:
        pairs = torch.combinations(torch.arange(n))
        equal = labels[pairs[:, 0]] == labels[pairs[:, 1]]
        return pairs[equal], pairs[~equal]
    order = torch.argsort(labels, stable=True)
    sizes = torch.bincount(labels)
    starts = sizes.cumsum(0) - sizes
    # Classes by the number of their pairs, then two different members.
    weights = (sizes * (sizes - 1)).double()
    if float(weights.sum()) == 0:
        return torch.empty(0, 2, dtype=torch.long), torch.empty(0, 2, dtype=torch.long)
    chosen = torch.searchsorted(
        weights.cumsum(0), torch.rand(MOST_PAIRS, generator=generator, dtype=torch.float64) * weights.sum(), right=True
    ).clamp_max(len(sizes) - 1)
    first = (torch.rand(MOST_PAIRS, generator=generator, dtype=torch.float64) * sizes[chosen]).long()
    step = 1 + (torch.rand(MOST_PAIRS, generator=generator, dtype=torch.float64) * (sizes[chosen] - 1)).long()
    second = (first + step) % sizes[chosen]
    same = torch.stack([order[starts[chosen] + first], order[starts[chosen] + second]], dim=1)
    drawn = torch.randint(n, (2 * MOST_PAIRS, 2), generator=generator)
    different = drawn[labels[drawn[:, 0]] != labels[drawn[:, 1]]][:MOST_PAIRS]
    return same, different


def _distances(representations: Tensor, pairs: Tensor) -> Tensor:
    parts = [
        torch.linalg.vector_norm(representations[some[:, 0]] - representations[some[:, 1]], dim=1)
        for some in pairs.split(ROWS)
    ]
    return torch.cat(parts)


def _equal_error(near: Tensor, far: Tensor) -> float:
    """Where the share of false accepts meets that of false rejects, over all thresholds."""
    thresholds = torch.cat([near, far]).sort().values
    accepts = torch.searchsorted(far, thresholds, right=True).double() / len(far)
    rejects = 1 - torch.searchsorted(near, thresholds, right=True).double() / len(near)
    place = (accepts - rejects).abs().argmin()
    return float((accepts[place] + rejects[place]) / 2)


def _curve(near: Tensor, far: Tensor, points: int = 50) -> list[list[float]]:
    """Points of the ROC curve, evenly spread over the logarithm of the false-accept rate."""
    least = max(1 / len(far), 1e-5)
    rates = torch.logspace(0, 1, points, base=1 / least, dtype=torch.float64) * least
    rows = [at_rate(near, far, float(rate)) for rate in rates]
    return [[row["false_accept"], row["true_accept"]] for row in rows]
