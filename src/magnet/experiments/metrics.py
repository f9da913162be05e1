"""Figure (e) of the paper: every method under kNN and under kNC, not its own rule alone."""

import numpy as np

from magnet.experiments.lab import Lab
from magnet.experiments.outcome import Outcome, Table
from magnet.experiments.predictions import NAMES, RULES, top_classes, wrong
from magnet.experiments.words import mean_of, pretty, spread
from magnet.report.bars import draw_bars

HELP = "every method under soft kNN and under kNC (figure e)"


def run(lab: Lab) -> Outcome:
    """Judge the runs of the fine-grained experiment by all rules."""
    lab.expect(lab.runs_of_best)
    truth = lab.data.labels[lab.data.indices("test")]
    values: dict[str, dict[str, list[float]]] = {}
    for method in lab.methods:
        answers = [top_classes(lab.train(seeded)) for seeded in lab.seeded(lab.best(method))]
        values[method] = {
            rule: [float(wrong(found[rule], truth).mean()) for found in answers]
            for rule in RULES
            if all(rule in found for found in answers)
        }
    rows = [
        [pretty(method), *(spread(values[method][rule]) if rule in values[method] else "" for rule in RULES)]
        for method in lab.methods
    ]
    table = Table(
        f"{lab.data.name}: test error under each rule, in %",
        ["method", *(NAMES[rule] for rule in RULES)],
        rows,
        f"{mean_of(lab.seeds).capitalize()}; the same runs under every rule.",
    )
    figure = lab.out / "metrics.png"
    heights = {
        NAMES[rule]: [100 * float(np.mean(values[method].get(rule, [np.nan]))) for method in lab.methods]
        for rule in RULES
    }
    draw_bars([pretty(method) for method in lab.methods], heights, figure, title=table.title, unit="error, %")
    return Outcome([table], [figure], values)
