"""Training curves: error against iterations and seconds, and how much earlier Magnet is where triplet ends."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from magnet.errors import UserError
from magnet.experiments.cache import seconds_curve
from magnet.experiments.lab import Lab, read_row
from magnet.experiments.outcome import DIVERGED, Outcome, Table, pretty, seeds
from magnet.report.plots import Curve, draw_curves

TRIPLETS = ("triplet", "semantic-triplet")
LONGER = 2  # times the epochs of the search, so that every method has room to flatten out
SETTLED = 3  # the last validations, whose mean is the error that a method ends at


def run(lab: Lab) -> Outcome:
    """Train the best configuration of each method with validation after every epoch."""
    goals = [row for row in lab.methods if read_row(row)[0] in TRIPLETS]
    if not goals:
        raise UserError(f"dynamics asks when the others are where triplet ends: name one of {', '.join(TRIPLETS)}")
    lab.expect(lab.runs_of_best)
    curves: dict[str, list[Curve]] = {}
    seconds: dict[str, list[Curve]] = {}
    for method in lab.methods:
        best = lab.best(method)
        longer = replace(best, epochs=LONGER * best.epochs, steps=LONGER * best.steps, validate_every=1)
        curves[method] = [lab.judge(seeded, what=f"curve, seed {seeded.seed}") for seeded in lab.seeded(longer)]
        seconds[method] = [seconds_curve(lab.folder(seeded)) for seeded in lab.seeded(longer)]
    values: dict[str, Any] = {"ends": {m: [settled(c) for c in found] for m, found in curves.items()}}
    values[DIVERGED] = {m: found.count([]) for m, found in curves.items()}
    values |= {"curves": curves, "seconds": seconds} | {goal: _race(curves, goal) for goal in goals}
    rows = [[pretty(m), _percent(values["ends"][m]), *(_steps(values, m, goal) for goal in goals)] for m in lab.methods]
    ratios = "; ".join(f"{pretty(goal)}'s iterations over Magnet's: {_ratios(values[goal]['ratio'])}" for goal in goals)
    table = Table(
        f"{lab.data.name}: iterations to the errors at which the triplets end, {seeds(lab.seeds)}",
        ["method", "error at the end, %", *(f"first at {pretty(goal)}'s end" for goal in goals)],
        rows,
        f"Validation errors, one each epoch. {ratios[0].upper()}{ratios[1:]}.",
    )
    mean = {pretty(m): mean_curve(found) for m, found in curves.items() if any(found)}
    ends = {pretty(goal): [end for end in values["ends"][goal] if end is not None] for goal in goals}
    lines = {goal: sum(known) / len(known) for goal, known in ends.items() if known}
    marks = [(first_at(mean.get("Magnet", []), error), error) for error in lines.values()]
    figure = lab.out / "dynamics.png"
    draw_curves(
        mean, figure, title=f"{lab.data.name}, {seeds(lab.seeds)}", goals=lines, marks=marks,
        marked="the first validation that finds Magnet there",
        seconds={pretty(m): mean_curve(found) for m, found in seconds.items() if any(found)},
    )  # fmt: skip
    return Outcome([table], [figure], values)


def _race(curves: dict[str, list[Curve]], goal: str) -> dict[str, Any]:
    """Seed by seed: the first step at which each method has the final error of ``goal``; ``goal``'s over Magnet's."""
    ends = [settled(curve) for curve in curves[goal]]
    first = {
        m: [None if end is None else first_at(c, end) for c, end in zip(found, ends, strict=True)]
        for m, found in curves.items()
    }
    ratio = [
        None if mine is None or theirs is None else theirs / mine
        for mine, theirs in zip(first["magnet"], first[goal], strict=True)
    ]
    return {"first_there": first, "ratio": ratio}


def _percent(fractions: list[float | None]) -> str:
    return ", ".join(DIVERGED if value is None else f"{100 * value:.1f}" for value in fractions)


def _steps(values: dict[str, Any], method: str, goal: str) -> str:
    """Seed by seed the step at which a method reaches the final error of ``goal``; None where either run diverged."""
    cells = []
    for step, mine, end in zip(
        values[goal]["first_there"][method], values["ends"][method], values["ends"][goal], strict=True
    ):
        if mine is None:
            cells.append(DIVERGED)
        elif end is None:
            cells.append("no end")
        else:
            cells.append("never" if step is None else f"{step:,}")
    return ", ".join(cells)


def _ratios(ratios: list[float | None]) -> str:
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return "none, as one of the two diverged or Magnet does not get there"
    never = f"; not there in {len(ratios) - len(known)}" if len(known) < len(ratios) else ""
    return f"{median(known):.1f} ({', '.join(f'{ratio:.1f}' for ratio in known)}{never})"


def settled(curve: Sequence[tuple[float, float]]) -> float | None:
    """The error that a curve ends at: the mean of its last points; None if it has none, because the run diverged."""
    if not curve:
        return None
    last = [error for _, error in curve[-SETTLED:]]
    return sum(last) / len(last)


def first_at(curve: Curve, error: float) -> float | None:
    """The first step at which a curve is at ``error`` or below."""
    return next((step for step, reached in curve if reached <= error), None)


def mean_curve(curves: list[Curve]) -> Curve:
    """The mean of curves with equally many points, point by point; runs that diverged are left out."""
    there = [curve for curve in curves if curve]
    return [
        (sum(place for place, _ in points) / len(points), sum(error for _, error in points) / len(points))
        for points in zip(*there, strict=True)
    ]
