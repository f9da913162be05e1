"""Figure (e) of the paper: every method under kNN and under kNC, not its own rule alone."""

import math
from typing import Any

import numpy as np

from magnet.experiments.cache import RULES, Rule, top_classes, wrong
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import DIVERGED, Outcome, Table, mean_of, pretty, spread
from magnet.methods import method_class
from magnet.methods.base import RULE_NAMES
from magnet.report.plots import draw_bars


def run(lab: Lab) -> Outcome:
    """Judge the runs of the fine-grained experiment by all rules."""
    lab.expect(lab.runs_of_best)
    truth = lab.data.labels[lab.data.indices("test")]
    values: dict[str, dict[str, Any]] = {}
    for method in lab.methods:
        best = lab.best(method)
        runs = [lab.train(seeded) for seeded in lab.seeded(best)]
        answers = [None if run is None else top_classes(run) for run in runs]
        rules: set[Rule] = {rule for found in answers if found is not None for rule in found}
        rules = rules or {method_class(best.method).classifier}  # the place where it says that all runs diverged
        values[method] = {
            rule: [None if found is None else float(wrong(found[rule], truth).mean()) for found in answers]
            for rule in RULES
            if rule in rules
        }
        values[method][DIVERGED] = runs.count(None)
    rows = [
        [pretty(method), *(spread(values[method][rule]) if rule in values[method] else "" for rule in RULES)]
        for method in lab.methods
    ]
    table = Table(
        f"{lab.data.name}: test error under each rule, in %",
        ["method", *(RULE_NAMES[rule] for rule in RULES)],
        rows,
        f"{mean_of(lab.seeds).capitalize()}; the same runs under every rule.",
    )
    figure = lab.out / "metrics.png"
    heights = {RULE_NAMES[rule]: [_height(values[method].get(rule, [])) for method in lab.methods] for rule in RULES}
    draw_bars([pretty(method) for method in lab.methods], heights, figure, title=table.title, unit="error, %")
    return Outcome([table], [figure], values)


def _height(errors: list[float | None]) -> float:
    known = [error for error in errors if error is not None]
    return 100 * float(np.mean(known)) if known else math.nan
