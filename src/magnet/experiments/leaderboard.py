"""The leaderboard: every method with the same start, search and rules, on three questions.

How well are the classes told apart that it was trained on; how well classes of two modes (random pairs of classes,
merged); and how well, after training on those, the classes that the merged labels hid. Beside the trained methods
stand those in closed form or convex: logistic regression, shrunk linear discriminant analysis and the nearest class
mean, each on the features as they are and in the space of the whitened start, and kNC in that space without a step of
training.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import Pipeline
from torch import Tensor

from magnet.data import Dataset, merge_classes
from magnet.evaluation.concentration import attribute_concentration
from magnet.evaluation.errors import retrieval
from magnet.experiments.cache import of_test_part, processor_seconds, seconds_curve, top_classes, wrong
from magnet.experiments.dynamics import settled
from magnet.experiments.hierarchy import SEARCH_PAIRING
from magnet.experiments.lab import Lab
from magnet.experiments.logistic import tuned_logistic
from magnet.experiments.outcome import (
    DIVERGED,
    PAIRED,
    Outcome,
    Table,
    difference,
    in_both,
    means,
    paired_interval,
    pretty,
    spread,
)
from magnet.experiments.search import CLASSES, settings_table
from magnet.methods import method_class
from magnet.recipe import Recipe
from magnet.runs.run import Run
from magnet.start import Start
from magnet.training.config import TrainConfig
from magnet.training.workbench import start_settings
from magnet.votes import Examples, Folds, choose_knc, cluster, stratified_folds, vote

PAIRS = "random pairs"
SHRINKAGES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
CONVEX = {"logistic regression": "logistic", "shrunk LDA": "lda", "nearest class mean": "means", "kNC": "knc"}
COLUMNS = ("own", "knc", "means", "knn", "map", "attributes", "merged", "merged_knc", "hidden", "seconds")
HEADS = ("own rule", "kNC", "kNC, means", "soft kNN", "MAP@R", "attributes", "merged pairs", "merged, kNC",
         "hidden classes", "seconds")  # fmt: skip
SIZE = 32  # neighbours among which attributes are counted
ON_PAIRS = ("merged", "merged_knc", "hidden")  # columns of the runs on merged pairs
Rule = Callable[[Tensor], np.ndarray]
Values = dict[str, list[Any]]


def run(lab: Lab) -> Outcome:
    """Search, train and test every row on the classes, then on random pairs of them."""
    lab.expect(len(lab.methods) * (2 * lab.tries + lab.seeds + lab.pairings + 1))
    seed = lab.configure("magnet").seed
    pairs = [merge_classes(lab.data, seed + number) for number in range(lab.pairings)]
    held = merge_classes(lab.held, seed + SEARCH_PAIRING)
    values: dict[str, Values] = {}
    mistakes: dict[str, dict[str, list[np.ndarray | None]]] = {}
    settings: dict[str, list[dict[str, Any]]] = {}
    best: dict[str, tuple[TrainConfig, TrainConfig]] = {}
    for row in lab.methods:
        best[row] = lab.best(row), lab.best(row, held, PAIRS)
        values[row], mistakes[row] = _trained(lab, *best[row], pairs)
        settings[row] = lab.chosen[CLASSES][row]
    race = _race(lab, {row: on_classes for row, (on_classes, _) in best.items()})
    if lab.linear:
        for name, rows in _untrained(lab, *best["magnet"], held, pairs).items():
            values[name], mistakes[name] = rows
    for name, wrongs in mistakes.items():
        values[name] |= {column: means(repetitions) for column, repetitions in wrongs.items()}
    return Outcome(
        [
            _table(lab, values),
            _comparison(lab, mistakes),
            race,
            settings_table("Settings, chosen on validation data", settings),
        ],
        values={name: dict(found) for name, found in values.items()},
    )


def _trained(
    lab: Lab, on_classes: TrainConfig, on_pairs: TrainConfig, pairs: list[Dataset]
) -> tuple[Values, dict[str, Any]]:
    found: Values = {name: [] for name in COLUMNS}
    wrongs: dict[str, list[np.ndarray | None]] = {name: [] for name in ("own", *ON_PAIRS)}
    test = lab.data.indices("test")
    for config in lab.seeded(on_classes):
        run, truth = lab.train(config), lab.data.labels[test]
        if run is None:
            wrongs["own"].append(None)
            continue
        answers, rule = top_classes(run), method_class(config.method).classifier
        queries = of_test_part(run)
        by_means = run.rules_of(run.index, run.references, run.labels)[0]
        wrongs["own"].append(wrong(answers[rule], truth))
        found["knc"].append(float(wrong(answers["knc"], truth).mean()))
        found["means"].append(float((by_means.predict(queries) != truth).double().mean()))
        found["knn"].append(float(wrong(answers["knn"], truth).mean()))
        found["map"].append(retrieval(queries, truth)["map@r"])
        found["seconds"].append(processor_seconds(run.folder))
        if lab.data.attributes is not None:
            found["attributes"].append(_shared_attributes(run))
    for number, merged in enumerate(pairs):
        run = lab.train(replace(on_pairs, seed=on_pairs.seed + number), merged)
        if run is None:
            for name in ON_PAIRS:
                wrongs[name].append(None)
            continue
        rule, hidden = method_class(on_pairs.method).classifier, merged.fine_labels
        assert hidden is not None
        own_answers = top_classes(run)
        wrongs["merged"].append(wrong(own_answers[rule], merged.labels[test]))
        wrongs["merged_knc"].append(wrong(own_answers["knc"], merged.labels[test]))
        wrongs["hidden"].append(wrong(top_classes(run, hidden)["knc"], hidden[test]))
    return found, wrongs


def _shared_attributes(run: Run) -> float:
    """How many of the nearest test examples share an attribute; of other classes, where it is one of the classes."""
    attributes = run.data.attributes
    assert attributes is not None
    rows = run.data.indices("test")
    others = attributes.level == "class"
    found = attribute_concentration(
        of_test_part(run), attributes.keep(rows.numpy()).values, sizes=(SIZE,), labels=run.data.labels[rows],
        others_only=others,
    )  # fmt: skip
    return float(found.precision[0])


def _race(lab: Lab, configs: dict[str, TrainConfig]) -> Table:
    """Processor seconds until each row has the validation error at which the best of the others ends."""
    curves = {}
    for row, config in configs.items():
        watched = replace(config, validate_every=1)
        lab.judge(watched, what="curve against seconds")
        curves[row] = seconds_curve(lab.folder(watched))
    ends = {row: end for row, curve in curves.items() if row != "magnet" and (end := settled(curve)) is not None}
    if not ends:
        return Table("Seconds to the best peer's error", ["method", "seconds"], [])
    peer = min(ends, key=lambda row: (ends[row], row))
    goal = ends[peer]
    rows = []
    for row, curve in curves.items():
        there = next((seconds for seconds, error in curve if error <= goal), None)
        shown = f"{100 * curve[-1][1]:.1f}" if curve else DIVERGED
        cells = [shown, f"{curve[-1][0]:.0f}" if curve else "", "never" if there is None else f"{there:.0f}"]
        rows.append([pretty(row), *cells])
    return Table(
        f"Processor seconds to the error at which {pretty(peer)} ends, the best of the others: {100 * goal:.1f} %",
        ["method", "error at the end, %", "seconds in all", "seconds until there"],
        rows,
        "Validation errors after each epoch, one seed; an end is the mean of the last three. Settings are given, the "
        "start is fitted within the time.",
    )


def _untrained(
    lab: Lab, on_classes: TrainConfig, on_pairs: TrainConfig, held: Dataset, pairs: list[Dataset]
) -> dict[str, tuple[Values, dict[str, Any]]]:
    """The rows without training by gradient steps; their own settings are chosen on training data too."""
    rows: dict[str, tuple[Values, dict[str, Any]]] = {}
    spaces = ("features", "start") if on_classes.start == "whitened" else ("features",)
    for name, kind in CONVEX.items():
        for space in spaces if kind != "knc" else spaces[1:]:
            lab.console.print(f"[dim]{name}, {space}[/]", highlight=False)
            found: Values = {column: [] for column in COLUMNS}
            wrongs: dict[str, Any] = {column: [] for column in ("own", *ON_PAIRS)}
            for column, config, judged, tested in (
                ("own", on_classes, lab.held, [lab.data]),
                ("merged", on_pairs, held, pairs),
            ):
                start = config if space == "start" else None
                shrinkage = _shrinkage(start, judged) if kind == "lda" else 0.0
                for data in tested:
                    _judge(kind, shrinkage, start, data, found, wrongs, column)
            rows[f"{name}, {space}"] = found, wrongs
    return rows


def _judge(
    kind: str,
    shrinkage: float,
    start: TrainConfig | None,
    data: Dataset,
    found: Values,
    wrongs: dict[str, Any],
    what: str,
) -> None:
    """Test one rule on a data set, and in its space kNC on the classes that merged labels hide."""
    train, test = data.indices("train"), data.indices("test")
    examples = Examples(data.batch(train).double(), data.labels[train])
    space = _space(start, examples)
    inside, queries = space(examples.x), space(data.batch(test).double())
    model = tuned_logistic(examples, space=partial(_space, start)) if kind == "logistic" else None
    begun = time.process_time()
    rule = _fit(kind, shrinkage, Examples(inside, examples.labels), model)
    seconds = time.process_time() - begun
    wrongs[what].append(rule(queries) != data.labels[test].numpy())
    if what == "own":
        found["seconds"].append(seconds)
    if what == "merged":
        hidden = data.fine_labels
        assert hidden is not None
        wrongs["hidden"].append(_knc(Examples(inside, hidden[train]))(queries) != hidden[test].numpy())


def _space(config: TrainConfig | None, data: Examples) -> Start:
    """The whitened start with the settings that Magnet has; None: the features around their mean."""
    if config is None:
        return Start(1.0, data.x.mean(dim=0), torch.eye(data.x.shape[1], dtype=torch.float64))
    return start_settings(config).fit(data, config.dim or 512, config.seed)


def _shrinkage(start: TrainConfig | None, held: Dataset) -> float:
    """That of LDA with the least error on the validation part; from none on, until two in a row are worse."""
    rows, judged = held.indices("train"), held.indices("validation")
    x, y = held.batch(rows).double(), held.labels[rows]
    space = _space(start, Examples(x, y))
    inside, outside, truth = Examples(space(x), y), space(held.batch(judged).double()), held.labels[judged].numpy()
    best, worse = (math.inf, 0.0), 0
    for shrinkage in SHRINKAGES:
        error = float((_fit("lda", shrinkage, inside)(outside) != truth).mean())
        worse = 0 if error < best[0] else worse + 1
        best = min(best, (error, shrinkage))
        if worse == 2:
            break
    return best[1]


def _fit(kind: str, shrinkage: float, data: Examples, logistic: Pipeline | None = None) -> Rule:
    """A rule for representations."""
    if kind == "knc":
        return _knc(data)
    if kind == "means":
        index = cluster(data.x, data.labels, 1, 0)
        return lambda r: index.centre_labels[torch.cdist(r, index.centres).argmin(dim=1)].numpy()
    model = logistic or LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage)
    scale = float(data.x.square().sum(dim=1).mean().sqrt())
    model.fit((data.x / scale).float().numpy(), data.labels.numpy())
    return lambda r: model.predict((r / scale).float().numpy())


def _knc(data: Examples) -> Rule:
    """kNC with clusters, scaling and centres chosen by held-out fifths."""
    recipe = Recipe()
    weight = torch.ones(int(data.labels.max()) + 1, dtype=torch.float64)
    fold = stratified_folds(data.labels, 5, 0)
    part, held = data.take((fold != 0).nonzero()[:, 0]), data.take((fold == 0).nonzero()[:, 0])
    votes = choose_knc(Folds([part], [held], weight, recipe.neighbours, 0), (1, 2, 4, 8, 16), "auto")
    index = cluster(data.x, data.labels, votes.clusters, 0)
    rule = vote(index, weight, votes.scaling, votes.neighbours)
    if votes.pull is not None:
        rule = rule.refined(data.x, data.labels, pull=votes.pull)
    return lambda r: rule.predict(r).numpy()


def _table(lab: Lab, values: dict[str, Values]) -> Table:
    shown = [column for column in COLUMNS if any(found[column] for found in values.values())]
    rows = []
    for name, found in values.items():
        cells = [pretty(name) if name in lab.methods else name]
        for column in shown:
            if not found[column]:
                cells.append("")
            elif column == "seconds":
                cells.append(f"{np.mean(found[column]):.0f}")
            else:
                cells.append(spread(found[column]) if None not in found[column] else DIVERGED)
        rows.append(cells)
    return Table(
        f"{lab.data.name}: error on the {len(lab.data.indices('test')):,} test examples, in %",
        ["method", *(head for column, head in zip(COLUMNS, HEADS, strict=True) if column in shown)],
        rows,
        f"Mean ± standard deviation: own rule, kNC, kNN and MAP@R (in %, larger is better) over {lab.seeds} seeds, "
        f"merged and hidden over {lab.pairings} pairings. Methods have the whitened start unless the row says "
        'otherwise; "features" and "start" say where the others work. kNC: centres (means or refined), K and scaling '
        "chosen by validation data. Hidden: kNC on the classes, after training on merged pairs of them. Seconds: of a "
        "processor, for one run or fit with its settings given"
        + (f". Attributes: shared by the {SIZE} nearest, in %, larger is better." if "attributes" in shown else "."),
    )


def _comparison(lab: Lab, mistakes: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for name in mistakes:
        if name != "magnet":
            cells = [pretty(name) if name in lab.methods else name]
            for column in ("own", *ON_PAIRS):
                both = in_both(mistakes["magnet"][column], _as_many(mistakes, name, column))
                cells.append("" if both is None else difference(paired_interval(*both)))
            rows.append(cells)
    return Table(
        "Magnet minus the others", ["method", "own rule", "merged pairs", "merged, kNC", "hidden classes"], rows, PAIRED
    )


def _as_many(mistakes: dict[str, dict[str, Any]], name: str, column: str) -> list[Any]:
    """The mistakes of a row; a row without seeds (a linear model) is repeated for each run of Magnet."""
    own, wanted = mistakes[name][column], len(mistakes["magnet"][column])
    return own * wanted if len(own) == 1 else own or [None] * wanted  # a linear model has no kNC of merged labels
