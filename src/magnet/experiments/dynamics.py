"""The training-curve figure: error against iterations, and how much earlier Magnet is where triplet ends."""

from dataclasses import replace
from statistics import median
from typing import Any

from magnet.experiments.lab import Lab
from magnet.experiments.outcome import Outcome, Table
from magnet.experiments.words import pretty
from magnet.report.curves import Curve, draw_curves

HELP = "error against iterations for the best configuration of each method (training curves)"
SETTLED = 3  # the last validations, whose mean is the error that a method ends at
LONGER = 2  # times the epochs of the search, so that every method has room to flatten out


def run(lab: Lab) -> Outcome:
    """Train the best configuration of each method with validation after every epoch."""
    lab.expect(lab.runs_of_best)
    curves: dict[str, list[Curve]] = {}
    for method in lab.methods:
        best = lab.best(method)
        longer = replace(best, epochs=LONGER * best.epochs, steps=LONGER * best.steps, validate_every=1)
        curves[method] = [lab.judge(seeded, what=f"curve, seed {seeded.seed}") for seeded in lab.seeded(longer)]
    ends = [settled(curve) for curve in curves["triplet"]]
    values: dict[str, Any] = {"ends": {m: [settled(c) for c in found] for m, found in curves.items()}}
    # Seed by seed: the error at which triplet ends, and the first step at which each method is there.
    reached = {m: [first_at(c, end) for c, end in zip(found, ends, strict=True)] for m, found in curves.items()}
    ratios = [
        None if mine is None or theirs is None else theirs / mine
        for mine, theirs in zip(reached["magnet"], reached["triplet"], strict=True)
    ]
    values |= {"curves": curves, "steps_to_triplets_end": reached, "ratio": ratios}
    rows = [
        [pretty(m), _percent(values["ends"][m]), ", ".join("never" if s is None else f"{s:,}" for s in reached[m])]
        for m in lab.methods
    ]
    table = Table(
        f"{lab.data.name}: iterations to the error at which triplet ends",
        ["method", "error at the end, %", f"first at triplet's end, each of {lab.seeds} seeds"],
        rows,
        f"Validation errors, one each epoch. Triplet's iterations over Magnet's: {_ratios(ratios)}.",
    )
    mean = {pretty(m): _mean(found) for m, found in curves.items()}
    goal = sum(ends) / len(ends)
    marks = {name: first_at(mean[name], goal) for name in ("triplet", "Magnet")}
    figure = lab.out / "dynamics.png"
    draw_curves(mean, figure, title=f"{lab.data.name}: mean of {lab.seeds} seeds", goal=goal, marks=marks)
    return Outcome([table], [figure], values)


def settled(curve: Curve) -> float:
    """The error that a curve ends at: the mean of its last points."""
    last = [error for _, error in curve[-SETTLED:]]
    return sum(last) / len(last)


def first_at(curve: Curve, error: float) -> int | None:
    """The first step at which a curve is at ``error`` or below."""
    return next((step for step, reached in curve if reached <= error), None)


def _mean(curves: list[Curve]) -> Curve:
    return [(points[0][0], sum(error for _, error in points) / len(points)) for points in zip(*curves, strict=True)]


def _percent(fractions: list[float]) -> str:
    return ", ".join(f"{100 * value:.1f}" for value in fractions)


def _ratios(ratios: list[float | None]) -> str:
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return "Magnet does not get there"
    never = f"; not there in {len(ratios) - len(known)}" if len(known) < len(ratios) else ""
    return f"{median(known):.1f} ({', '.join(f'{ratio:.1f}' for ratio in known)}{never})"
