"""What the paper states without a table: what each of Magnet's choices is worth, one at a time."""

import math
from dataclasses import replace
from typing import Any

from magnet.experiments.lab import ONLY_LAST, Lab
from magnet.experiments.outcome import Outcome, Table, spread
from magnet.training.config import TrainConfig

Choice = tuple[str, dict[str, Any]]
BATCH = 48
L_VALUES = (1, 2, 4, 16, 64, 128, 512)


def choices(best: TrainConfig, epoch_steps: int) -> dict[str, list[Choice]]:
    """By title, the rows of each table: a label, and the changes to the chosen settings."""
    period = {"quarter of an epoch": 0.25, "epoch": 1.0, "four epochs": 4.0, "never again": 1e6}
    pairs = [(m, BATCH // m) for m in (2, 4, 6, 8, 12, 16, 24)]
    partly = max(1, best.epochs // 10)
    return {
        "gap alpha": [(f"{v:g}", {"alpha": v}) for v in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)],
        "scaling": [(f"{v:g}", {"scaling": v}) for v in (1.0, 2.0, 4.0, 8.0, 16.0)],
        "clusters per class K": [
            *((str(v), {"clusters_per_class": v}) for v in (1, 2, 4, 8, 16)),
            ("of each class anew at every refresh", {"method": "magnet/adaptive-clusters"}),
        ],
        f"clusters x examples, M x D = {BATCH}": [
            (f"{m} x {d}", {"clusters_per_batch": m, "examples_per_cluster": d}) for m, d in pairs
        ],
        "own cluster's mean": [(v, {"own_mean": v}) for v in ("batch", "leave-one-out")],
        "index refreshed every": [
            (name, {"refresh_every": max(1, math.ceil(epoch_steps * share))}) for name, share in period.items()
        ],
        "seed clusters": [
            ("by the losses of batches", {"losses": "drawn"}),
            ("by the losses of all at a refresh", {"losses": "refreshed"}),
            ("uniform", {"method": "magnet/uniform-seeds"}),
        ],
        "clusters met by the seed": [("nearest impostors", {}), ("random", {"method": "magnet/random-clusters"})],
        "representations in the index": [
            ("of one moment", {}), ("cached on the fly", {"method": "magnet/cached-representations"}),
        ],
        "warm start": [
            ("none", {}),
            (f"softmax partly trained ({partly} epochs)", {"warm_start_epochs": partly}),
            (f"softmax fully trained ({best.epochs} epochs)", {"warm_start_epochs": best.epochs}),
        ],
    }  # fmt: skip


def run(lab: Lab) -> Outcome:
    """Vary one choice of Magnet's best configuration at a time; errors are on validation data."""
    steps = math.ceil(len(lab.held.indices("train")) / BATCH)
    best = lab.best("magnet")
    axes = choices(best, steps)
    lab.expect(lab.tries + lab.seeds * (1 + sum(len(rows) for rows in axes.values())))
    tables, values = [], {}
    for title, rows in axes.items():
        found = {label: [_error(lab, replace(c, **changes), f"{title} {label}") for c in lab.seeded(best)]
                 for label, changes in rows}  # fmt: skip
        values[title] = found
        tables.append(_table(lab, title, found))
    values["neighbours L"] = _by_neighbours(lab, best)
    tables.append(_table(lab, "neighbours L (kNC of the same runs)", values["neighbours L"]))
    chosen = f"alpha {best.alpha:g}, scaling {best.scaling:g}, K = {best.clusters_per_class}"
    tables[0].title += f" (elsewhere: {chosen}, M x D = {best.clusters_per_batch} x {best.examples_per_cluster})"
    return Outcome(tables, values=values)


def _error(lab: Lab, config: TrainConfig, what: str) -> float | None:
    curve = lab.judge(replace(config, validate_every=ONLY_LAST), what=f"{what}, seed {config.seed}")
    return curve[-1][1] if curve else None


def _by_neighbours(lab: Lab, best: TrainConfig) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {str(count): [] for count in L_VALUES}
    for config in lab.seeded(best):
        run = lab.train(replace(config, validate_every=ONLY_LAST), lab.held)
        if run is None:
            for errors in found.values():
                errors.append(None)
            continue
        rows = lab.held.indices("validation")
        queries, truth = run.embed(rows), lab.held.labels[rows]
        for count in L_VALUES:
            rule = run.learner.method.soft_rule("knc", run.index, None, run.labels, count)
            found[str(count)].append(float((rule.predict(queries) != truth).double().mean()))
    return found


def _table(lab: Lab, title: str, found: dict[str, list[float | None]]) -> Table:
    rows = [[label, spread(errors)] for label, errors in found.items()]
    return Table(f"{lab.data.name}: {title}", [title.split(",")[0].split(" (")[0], "validation error, %"], rows)
