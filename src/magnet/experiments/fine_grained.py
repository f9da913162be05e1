"""Tables (a) to (d) of the paper: test errors of softmax, triplet and Magnet under the same conditions."""

from typing import Any

import numpy as np

from magnet.experiments.cache import top_classes, wrong
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import (
    DIVERGED,
    PAIRED,
    Outcome,
    Table,
    difference,
    intervals,
    mean_of,
    means,
    pretty,
    share,
    spread,
)
from magnet.experiments.search import record, settings_table, with_errors
from magnet.methods import method_class
from magnet.methods.base import RULE_NAMES


def run(lab: Lab) -> Outcome:
    """Search, train with every seed, test."""
    lab.expect(lab.runs_of_best)
    mistakes: dict[str, list[np.ndarray | None]] = {}  # (n,) of each seed, under the method's own rule
    values: dict[str, Any] = {}
    for method in lab.methods:
        ranked = lab.search(method)
        runs = [lab.train(seeded) for seeded in lab.seeded(ranked[0][1])]
        rule = method_class(ranked[0][1].method).classifier
        truth = lab.data.labels[lab.data.indices("test")]
        mistakes[method] = [None if run is None else wrong(top_classes(run)[rule], truth) for run in runs]
        values[method] = {
            "rule": rule,
            "errors": means(mistakes[method]),
            DIVERGED: runs.count(None),
            **record(ranked, lab.fixed_for(method)),
        }
    rows = []
    for method in lab.methods:
        row = [pretty(method), RULE_NAMES[values[method]["rule"]], spread(values[method]["errors"])]
        if method == "magnet":
            row += ["", ""]
        else:
            minus, below = intervals(mistakes["magnet"], mistakes[method])
            values[method] |= {"magnet_minus_this": minus, "magnet_below_this": below}
            row += [difference(minus), share(below)]
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
