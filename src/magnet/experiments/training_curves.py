"""What is read off training curves: where they end, and when they get somewhere."""

from magnet.report.curves import Curve

SETTLED = 3  # the last validations, whose mean is the error that a method ends at


def settled(curve: Curve) -> float | None:
    """The error that a curve ends at: the mean of its last points; None if it has none, because the run diverged."""
    if not curve:
        return None
    last = [error for _, error in curve[-SETTLED:]]
    return sum(last) / len(last)


def first_at(curve: Curve, error: float) -> int | None:
    """The first step at which a curve is at ``error`` or below."""
    return next((step for step, reached in curve if reached <= error), None)


def mean_curve(curves: list[Curve]) -> Curve:
    """The mean error at each step of some curves of the same steps; a diverged run's has none, and is left out."""
    there = [curve for curve in curves if curve]
    return [(points[0][0], sum(error for _, error in points) / len(points)) for points in zip(*there, strict=True)]
