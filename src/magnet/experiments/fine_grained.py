"""Tables (a) to (d) of the paper: test errors of softmax, triplet and Magnet under the same conditions."""

from typing import Any

import numpy as np

from magnet.evaluation.intervals import paired_interval, relative_interval
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import Outcome, Table
from magnet.experiments.predictions import NAMES, own_rule, top_classes, wrong
from magnet.experiments.search import record, settings_table, with_errors
from magnet.experiments.words import PAIRED, difference, mean_of, pretty, share, spread

HELP = "test error of every method on the official split, settings chosen by an equal search (tables a to d)"


def run(lab: Lab) -> Outcome:
    """Search, train with every seed, test."""
    lab.expect(lab.runs_of_best)
    mistakes: dict[str, np.ndarray] = {}  # (seeds, n) under the method's own rule
    values: dict[str, Any] = {}
    for method in lab.methods:
        ranked = lab.search(method)
        runs = [lab.train(seeded) for seeded in lab.seeded(ranked[0][1])]
        rule = own_rule(runs[0])
        truth = lab.data.labels[lab.data.indices("test")]
        mistakes[method] = np.stack([wrong(top_classes(run)[rule], truth) for run in runs])
        values[method] = {
            "rule": rule,
            "errors": mistakes[method].mean(axis=1).tolist(),
            **record(ranked, lab.fixed),
        }
    rows = []
    for method in lab.methods:
        row = [pretty(method), NAMES[values[method]["rule"]], spread(mistakes[method].mean(axis=1))]
        if method == "magnet":
            row += ["", ""]
        else:
            values[method]["magnet_minus_this"] = paired_interval(mistakes["magnet"], mistakes[method])
            values[method]["magnet_below_this"] = relative_interval(mistakes["magnet"], mistakes[method])
            row += [difference(values[method]["magnet_minus_this"]), share(values[method]["magnet_below_this"])]
        rows.append(row)
    size = len(lab.data.indices("test"))
    tested = Table(
        f"{lab.data.name}: error on the {size:,} test examples, in %",
        ["method", "rule", "error", "Magnet minus this", "Magnet relatively below"],
        rows,
        f"{mean_of(lab.seeds).capitalize()}. {PAIRED}",
    )
    settings = {m: with_errors([found["settings"]], found["trials"]) for m, found in values.items()}
    caption = "Given, not searched."
    if lab.settings is None:
        more = f" and {lab.tries - lab.trials} more with dropout" if lab.tries > lab.trials else ""
        caption = f"The best of {lab.trials} random trials{more} for each method, by the error on held-out examples."
    return Outcome([tested, settings_table(f"{lab.data.name}: chosen settings", settings, caption)], values=values)
