"""Table (f) of the paper: are classes found again that were merged before training?

Classes are merged in random pairs, or in groups that they really belong to. A network is trained on the merged labels
alone, and its settings are chosen by them alone. Then the classifiers are refitted, on the same representations, to
the classes as they were, and asked about the test examples.

Trials with nearly equal errors on the merged labels can differ widely on the hidden ones, and which of them comes first
is chance. So the repetitions take the settings of the best three in turn, and the deviation includes that chance.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from magnet.data import Dataset, merge_classes
from magnet.data.groups import known_groups, merge_groups
from magnet.evaluation.errors import linear_probe
from magnet.experiments.cache import of_test_part, top_classes, wrong
from magnet.experiments.lab import Lab, best_of
from magnet.experiments.outcome import (
    DIVERGED,
    PAIRED,
    Outcome,
    Table,
    difference,
    intervals,
    means,
    pretty,
    seeds,
    share,
    spread,
)
from magnet.experiments.search import settings_table, with_errors
from magnet.methods.base import RULE_NAMES
from magnet.runs.run import Run

SEARCH_PAIRING = 1000  # added to the seed: the pairing that settings are chosen on, which is not tested
BEST = 3  # trials whose settings the repetitions take in turn
TAKEN = "The repetitions take them in turn."
PAIRS, GROUPS = "random pairs", "real groups"
RULES = ("knc", "knn")
COMPARED = (*RULES, "trained knc")
MEASURES = ("knc", "knc@5", "knn", "knn@5", "probe", "trained", "trained knc")


def run(lab: Lab) -> Outcome:
    """Random pairs, then the real groups if the data has any and they are asked for."""
    groups = known_groups(lab.data.classes) if lab.groups else None
    sorts = 1 if groups is None else 2
    lab.expect(len(lab.methods) * (sorts * lab.tries + lab.pairings + (sorts - 1) * lab.seeds))
    seed = lab.configure("magnet").seed
    pairs = [merge_classes(lab.data, seed + pairing) for pairing in range(lab.pairings)]
    values = {PAIRS: measure_hidden(lab, PAIRS, merge_classes(lab.held, seed + SEARCH_PAIRING), pairs)}
    tables = hidden_tables(lab, f"merged in random pairs, {lab.pairings} pairings and seeds", values[PAIRS])
    if groups is not None:
        merged = merge_groups(lab.data, groups)
        some = ", ".join(merged.classes[:3]) + (", ..." if len(merged.classes) > 3 else "")
        values[GROUPS] = measure_hidden(lab, GROUPS, merge_groups(lab.held, groups), [merged] * lab.seeds)
        name = f"merged in {len(merged.classes)} real groups ({some}), {seeds(lab.seeds)}"
        tables += hidden_tables(lab, name, values[GROUPS])
    return Outcome(tables, values=values)


def measure_hidden(lab: Lab, part: str, held: Dataset, merged: list[Dataset]) -> dict[str, Any]:
    """Errors of each method on the hidden classes in each repetition; settings are chosen on ``held``."""
    values: dict[str, Any] = {}
    mistakes: dict[str, dict[str, list[np.ndarray | None]]] = {}  # by method and measure, (n,) of each repetition
    for method in lab.methods:
        ranked = lab.search(method, held, part, keep=BEST)
        best = [config for _, config in best_of(ranked, BEST)]
        taken = [best[number % len(best)] for number in range(len(merged))]
        runs = [
            lab.train(replace(config, seed=config.seed + number), data)
            for number, (config, data) in enumerate(zip(taken, merged, strict=True))
        ]
        found = [None if run is None else _mistakes(run) for run in runs]
        mistakes[method] = {name: [None if one is None else one[name] for one in found] for name in MEASURES}
        values[method] = {name: means(mistakes[method][name]) for name in MEASURES}
        values[method][DIVERGED] = runs.count(None)
        values[method]["settings"] = lab.chosen[part][method]
        values[method]["trials"] = [error if np.isfinite(error) else None for error, _ in ranked]
    for method in lab.methods:
        if method != "magnet":
            for rule in COMPARED:
                minus, below = intervals(mistakes["magnet"][rule], mistakes[method][rule])
                values[method] |= {f"{rule}: magnet_minus_this": minus, f"{rule}: magnet_below_this": below}
    return values


def _mistakes(run: Run) -> dict[str, np.ndarray]:
    hidden = run.data.fine_labels
    assert hidden is not None
    rows = run.data.indices("test")
    truth, answers = hidden[rows], top_classes(run, hidden)
    found = {rule: wrong(answers[rule], truth) for rule in RULES}  # type: ignore[index]
    found |= {f"{rule}@5": wrong(answers[rule], truth, top=5) for rule in RULES}  # type: ignore[index]
    predicted = linear_probe(run.references, hidden[run.train], of_test_part(run))
    told, own = run.data.labels[rows], top_classes(run)
    found |= {"trained": wrong(own[run.learner.method.classifier], told), "trained knc": wrong(own["knc"], told)}
    return found | {"probe": (predicted != truth).numpy()}


def hidden_tables(lab: Lab, how: str, values: dict[str, Any]) -> list[Table]:
    """Errors on the hidden classes, Magnet against each method, and the settings."""
    columns = ["kNC", "kNC @5", "soft kNN", "soft kNN @5", "linear probe", "trained on: own rule", "kNC"]
    errors = Table(
        f"{lab.data.name}, {how}: error on the hidden classes, in %",
        ["method", *columns],
        [[pretty(method), *(spread(values[method][name]) for name in MEASURES)] for method in lab.methods],
        "Mean ± standard deviation over repetitions. @5: not among the five likeliest. The last two columns: the error "
        "on the classes that it was trained on.",
    )
    rows = []
    for method in lab.methods:
        if method != "magnet":
            texts = [pretty(method)]
            for rule in COMPARED:
                texts += [
                    difference(values[method][f"{rule}: magnet_minus_this"]),
                    share(values[method][f"{rule}: magnet_below_this"]),
                ]
            rows.append(texts)
    names = [RULE_NAMES[rule] for rule in RULES] + ["trained on, kNC"]
    heads = [f"{name}: {what}" for name in names for what in ("Magnet minus this", "relatively below")]
    settings = {m: with_errors(values[m]["settings"], values[m]["trials"]) for m in lab.methods}
    return [
        errors,
        Table("Magnet against the others", ["method", *heads], rows, PAIRED),
        settings_table("Settings of the best trials, by the error on the merged labels", settings, TAKEN),
    ]
