"""Attribute concentration (figure 5d of the paper): how many of an example's neighbours share its attributes."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from magnet.data.attributes import Attributes
from magnet.errors import UserError
from magnet.evaluation.concentration import (
    SIZES,
    Concentration,
    attribute_concentration,
    concentration_within_classes,
)
from magnet.evaluation.intervals import Interval, paired_interval, relative_interval
from magnet.experiments.derived import attributes_of
from magnet.experiments.example_values import example_values
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import Outcome, Table
from magnet.experiments.representations import of_test_part
from magnet.experiments.words import PAIRED, difference, mean_of, pretty
from magnet.report.attribute_plot import Panel, draw_attribute_curves
from magnet.training.run import Run

HELP = "how many neighbours share an attribute (attribute concentration, figure 5d)"
OURS = "magnet"
Scope = Literal["all", "others", "class"]


@dataclass
class Measured:
    """One method in one scope: what was found in each of its runs."""

    found: list[Concentration] = field(default_factory=list)
    examples: list[np.ndarray] = field(default_factory=list)  # (n, S) each

    @property
    def precision(self) -> np.ndarray:
        """(seeds, S)."""
        return np.stack([found.precision for found in self.found])

    @property
    def base(self) -> float:
        """What neighbours drawn by lot would give, whatever the method."""
        return self.found[0].base


def run(lab: Lab) -> Outcome:
    """Measure all methods among the test examples. Attributes are never used in training."""
    rows = lab.data.indices("test").numpy()
    attributes, note = attributes_of(lab.data, rows)  # before anything is trained: there may be none
    if not (attributes.values == 1).any():
        raise UserError(f"{lab.data.spec}: no test example has any of its {len(attributes.names)} attributes")
    lab.expect(lab.runs_of_best)
    scopes: list[Scope] = ["all", "class"] if attributes.level == "image" else ["others"]
    measured: dict[Scope, dict[str, Measured]] = {scope: {} for scope in scopes}
    for method in lab.methods:
        runs = [lab.train(config) for config in lab.seeded(lab.best(method))]
        for scope in scopes:
            with lab.console.status(f"{method}: neighbours of {len(rows):,} examples"):
                measured[scope][method] = measure(runs, attributes, scope)
    tables: list[Table] = []
    values: dict[str, Any] = {}
    for scope, methods in measured.items():
        values[scope] = _values(methods)
        tables += [_precision_table(lab, scope, methods, values[scope], note), _interval_table(scope, values[scope])]
    panels = [_panel(scope, methods) for scope, methods in measured.items()]
    lab.out.mkdir(parents=True, exist_ok=True)
    figure = draw_attribute_curves(
        panels, SIZES, lab.out / "attributes.png", title=f"{lab.data.name}: attribute concentration"
    )
    return Outcome(tables, [figure], {"attributes": attributes.names, "sizes": list(SIZES), **values})


def measure(runs: list[Run], attributes: Attributes, scope: Scope) -> Measured:
    """The concentration among the test examples in each of some runs."""
    measured = Measured()
    for trained in runs:
        space, labels = of_test_part(trained), trained.data.labels[trained.data.indices("test")]
        if scope == "class":
            found = concentration_within_classes(space, attributes.values, labels)
        else:
            found = attribute_concentration(space, attributes.values, labels=labels, others_only=scope == "others")
        measured.found.append(found)
        table = torch.from_numpy(attributes.values)
        measured.examples.append(example_values(space, table, labels, sizes=SIZES, scope=scope).numpy())
    return measured


def _values(methods: dict[str, Measured]) -> dict[str, Any]:
    """All numbers of a scope: by method and seed, and the differences of Magnet to the others at every size."""
    base = next(iter(methods.values())).base
    values: dict[str, Any] = {
        "at_random": base,
        "precision": {m: found.precision.tolist() for m, found in methods.items()},
    }
    ours = np.stack(methods[OURS].examples)
    values["difference"], values["relative"] = {}, {}
    for method in (other for other in methods if other != OURS):
        theirs = np.stack(methods[method].examples)
        pairs = [(ours[:, :, s], theirs[:, :, s]) for s in range(len(SIZES))]
        values["difference"][method] = [paired_interval(a, b) for a, b in pairs]
        values["relative"][method] = [_more(a, b) for a, b in pairs]
    return values


def _more(a: np.ndarray, b: np.ndarray) -> Interval:
    """How far the mean of a is above that of b, as a share of the latter."""
    less = relative_interval(a, b)
    return Interval(-less.mean, -less.high, -less.low)


def _precision_table(lab: Lab, scope: Scope, methods: dict[str, Measured], values: dict[str, Any], note: str) -> Table:
    titles = {
        "all": "neighbours that share an attribute, in %",
        "others": "neighbours of other classes that share an attribute, in %",
        "class": "neighbours within the class: lift over the class's own rate of the attribute",
    }
    base, digits = values["at_random"], 2 if scope == "class" else 1
    rows = []
    for method, found in methods.items():
        shown = found.precision / base if scope == "class" else 100 * found.precision
        rows.append([pretty(method), *(f"{mean:.{digits}f}" for mean in shown.mean(axis=0))])
        if lab.seeds > 1:  # in a row of its own, so that the table fits a terminal
            rows.append(["±", *(f"{deviation:.{digits}f}" for deviation in shown.std(axis=0, ddof=1))])
    rows.append(["at random", *(["1" if scope == "class" else f"{100 * base:.1f}"] * len(SIZES))])
    for method, gains in values["relative"].items():
        cells = [f"{round(100 * gain.mean, 1) + 0.0:+.1f}{'*' * gain.excludes_zero}" for gain in gains]
        rows.append([f"vs {pretty(method)}", *cells])
    caption = (
        "Columns: size of the neighbourhood, among the test examples. Mean over the examples with an attribute, then "
        f"over the attributes; {mean_of(lab.seeds)}. vs: relative gain of {pretty(OURS)} in %, * where its 95 % "
        "interval excludes zero."
    )
    if scope == "class":
        caption = f"As above, with neighbours of the example's own class only; {mean_of(lab.seeds)}."
        note = ""
    return Table(f"{lab.data.name}: {titles[scope]}", ["method", *map(str, SIZES)], rows, f"{caption} {note}".strip())


def _interval_table(scope: Scope, values: dict[str, Any]) -> Table:
    others = list(values["difference"])
    where = {"all": "", "others": ", neighbours of other classes", "class": ", neighbours within the class"}[scope]
    rows = [
        [str(size), *(difference(values["difference"][method][s]) for method in others)] for s, size in enumerate(SIZES)
    ]
    columns = ["size", *(f"{pretty(OURS)} - {pretty(method)}" for method in others)]
    return Table(f"differences in percentage points{where}", columns, rows, PAIRED)


def _panel(scope: Scope, methods: dict[str, Measured]) -> Panel:
    base = next(iter(methods.values())).base
    if scope == "class":
        curves = {pretty(method): found.precision / base for method, found in methods.items()}
        return Panel("within the class", "lift over the class's own rate", curves, 1.0)
    curves = {pretty(method): 100 * found.precision for method, found in methods.items()}
    title = "all neighbours" if scope == "all" else "neighbours of other classes"
    return Panel(title, "neighbours that share the attribute, %", curves, 100 * base)
