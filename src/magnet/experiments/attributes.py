"""Attribute concentration (figure 5d of the paper): how many of an example's neighbours share its attributes."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from magnet.data import Dataset
from magnet.data.listings import Attributes
from magnet.errors import UserError
from magnet.evaluation.concentration import SIZES, Concentration, attribute_concentration, concentration_within_classes
from magnet.experiments.cache import of_test_part
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import (
    DIVERGED,
    PAIRED,
    Interval,
    Outcome,
    Table,
    difference,
    in_both,
    mean_of,
    paired_interval,
    pretty,
    relative_interval,
    some_diverged,
)
from magnet.report.maps import thumbnails
from magnet.report.plots import Panel, draw_attribute_curves
from magnet.runs.run import Run

OURS = "magnet"
CONSTANT = "No attribute varies within a class, so there is no table of neighbours within the class."
TRAINED = (
    "Only training examples are annotated: precision is measured among those, as in the paper, whose annotated images "
    "are ImageNet's training images."
)
Scope = Literal["all", "others", "class"]
PIXEL_ATTRIBUTES = ["bright", "left-heavy", "top-heavy", "wide"]
PIXEL_NOTE = (
    "The data has no attributes: these were computed from the pixels. Half of the examples each are brighter, "
    "have their light further left, further up, or spread wider than the other half."
)
PIXEL_SIDE = 28


def run(lab: Lab) -> Outcome:
    """Measure all methods among the test examples, or as the paper does where only training images are annotated.

    Attributes are never used in training.
    """
    part, attributes, note = _annotated(lab.data)  # before anything is trained: there may be none
    lab.expect(lab.runs_of_best)
    rows = lab.data.indices(part)
    scopes: list[Scope] = ["others"]
    if attributes.level == "image":
        scopes = ["all", "class"] if _vary_within_classes(attributes, lab.data.labels[rows].numpy()) else ["all"]
        if scopes == ["all"]:
            note = f"{note} {CONSTANT}".strip()
    measured: dict[Scope, dict[str, list[Concentration | None]]] = {scope: {} for scope in scopes}
    for method in lab.methods:
        runs = [lab.train(config) for config in lab.seeded(lab.best(method))]
        for scope in scopes:
            with lab.console.status(f"{method}: neighbours of {len(rows):,} examples"):
                measured[scope][method] = measure(runs, attributes, scope, part)
    tables: list[Table] = []
    values: dict[str, Any] = {}
    for scope, methods in measured.items():
        values[scope] = _values(methods)
        tables += [
            _precision_table(lab, scope, values[scope], f"{part} examples", note),
            _interval_table(scope, values[scope]),
        ]
    panels = [panel for panel in (_panel(scope, values[scope]) for scope in scopes) if panel.curves]
    lab.out.mkdir(parents=True, exist_ok=True)
    figures = []
    if panels:  # some method has not diverged
        title = f"{lab.data.name}: attribute concentration"
        figures = [draw_attribute_curves(panels, SIZES, lab.out / "attributes.png", title=title)]
    return Outcome(tables, figures, {"attributes": attributes.names, "part": part, "sizes": list(SIZES), **values})


def _annotated(data: Dataset) -> tuple[str, Attributes, str]:
    """The part whose examples are compared, their attributes, and a note for the reader."""
    attributes, note = attributes_of(data, data.indices("test").numpy())
    if (attributes.values == 1).any():
        return "test", attributes, note
    attributes, note = attributes_of(data, data.indices("train").numpy())
    if not (attributes.values == 1).any():
        raise UserError(f"{data.spec}: no example has any of its {len(attributes.names)} attributes")
    return "train", attributes, TRAINED


def _vary_within_classes(attributes: Attributes, labels: np.ndarray) -> bool:
    """Whether an attribute varies among the examples of some class."""
    own = [attributes.values[labels == label] for label in np.unique(labels)]
    return any(bool(((values == 1).any(axis=0) & (values == 0).any(axis=0)).any()) for values in own)


def measure(runs: Sequence[Run | None], attributes: Attributes, scope: Scope, part: str) -> list[Concentration | None]:
    """The concentration among the examples of a part in each of some runs; None for a run that diverged."""
    measured: list[Concentration | None] = []
    for trained in runs:
        if trained is None:
            measured.append(None)
            continue
        rows = trained.data.indices(part)
        space = of_test_part(trained) if part == "test" else trained.embed(rows, test=True)
        labels = trained.data.labels[rows]
        if scope == "class":
            found = concentration_within_classes(space, attributes.values, labels, sizes=SIZES, per_example=True)
        else:
            found = attribute_concentration(
                space, attributes.values, sizes=SIZES, labels=labels, others_only=scope == "others", per_example=True
            )
        measured.append(found)
    return measured


def _values(methods: dict[str, list[Concentration | None]]) -> dict[str, Any]:
    """All numbers of a scope: by method and seed, and the differences of Magnet to the others at every size."""
    values: dict[str, Any] = {
        "at_random": next((found.base for several in methods.values() for found in several if found is not None), None),
        "precision": {
            m: [[None] * len(SIZES) if found is None else found.precision.tolist() for found in several]
            for m, several in methods.items()
        },
        DIVERGED: {m: several.count(None) for m, several in methods.items()},
    }
    values["difference"], values["relative"] = {}, {}
    each = {m: [None if found is None else found.per_example for found in several] for m, several in methods.items()}
    for method in (other for other in methods if other != OURS):
        both = in_both(each[OURS], each[method])
        pairs = [(both[0][:, :, s], both[1][:, :, s]) for s in range(len(SIZES))] if both else []
        values["difference"][method] = [paired_interval(a, b) for a, b in pairs] or None
        values["relative"][method] = [_more(a, b) for a, b in pairs] or None
    return values


def _more(a: np.ndarray, b: np.ndarray) -> Interval:
    """The relative difference mean(a) / mean(b) - 1."""
    less = relative_interval(a, b)
    return Interval(-less.mean, -less.high, -less.low)


def _precision(values: dict[str, Any]) -> dict[str, np.ndarray]:
    """By method, the precision (s, S) in each of the s runs that did not diverge."""
    return {m: np.array([row for row in several if row[0] is not None]) for m, several in values["precision"].items()}


def _precision_table(lab: Lab, scope: Scope, values: dict[str, Any], among: str, note: str) -> Table:
    titles = {
        "all": "neighbours that share an attribute, in %",
        "others": "neighbours of other classes that share an attribute, in %",
        "class": "neighbours within the class: lift over the class's own rate of the attribute",
    }
    base, digits = values["at_random"], 2 if scope == "class" else 1
    rows = []
    for method, precision in _precision(values).items():
        if not len(precision):
            rows.append([pretty(method), DIVERGED, *[""] * (len(SIZES) - 1)])
            continue
        shown = precision / base if scope == "class" else 100 * precision
        name = pretty(method) + some_diverged(values[DIVERGED][method], lab.seeds)
        rows.append([name, *(f"{mean:.{digits}f}" for mean in shown.mean(axis=0))])
        if len(shown) > 1:  # in a row of its own, so that the table fits a terminal
            rows.append(["±", *(f"{deviation:.{digits}f}" for deviation in shown.std(axis=0, ddof=1))])
    if base is not None:
        rows.append(["at random", *(["1" if scope == "class" else f"{100 * base:.1f}"] * len(SIZES))])
    for method, gains in values["relative"].items():
        if gains is None:
            continue
        cells = [f"{round(100 * gain.mean, 1) + 0.0:+.1f}{'*' * gain.excludes_zero}" for gain in gains]
        rows.append([f"vs {pretty(method)}", *cells])
    caption = (
        f"Columns: size of the neighbourhood, among the {among}. Mean over the examples with an attribute, then "
        f"over the attributes; {mean_of(lab.seeds)}. vs: relative gain of {pretty(OURS)} in %, * where its 95 % "
        "interval excludes zero."
    )
    if scope == "class":
        caption = f"As above, with neighbours of the example's own class only; {mean_of(lab.seeds)}."
        note = ""
    return Table(f"{lab.data.name}: {titles[scope]}", ["method", *map(str, SIZES)], rows, f"{caption} {note}".strip())


def _interval_table(scope: Scope, values: dict[str, Any]) -> Table:
    others = [method for method, found in values["difference"].items() if found is not None]
    where = {"all": "", "others": ", neighbours of other classes", "class": ", neighbours within the class"}[scope]
    rows = [
        [str(size), *(difference(values["difference"][method][s]) for method in others)] for s, size in enumerate(SIZES)
    ]
    columns = ["size", *(f"{pretty(OURS)} - {pretty(method)}" for method in others)]
    return Table(f"differences in percentage points{where}", columns, rows, PAIRED)


def _panel(scope: Scope, values: dict[str, Any]) -> Panel:
    there = {pretty(method): precision for method, precision in _precision(values).items() if len(precision)}
    base = 1.0 if values["at_random"] is None else values["at_random"]
    if scope == "class":
        curves = {method: precision / base for method, precision in there.items()}
        return Panel("within the class", "lift over the class's own rate", curves, 1.0)
    curves = {method: 100 * precision for method, precision in there.items()}
    title = "all neighbours" if scope == "all" else "neighbours of other classes"
    return Panel(title, "neighbours that share the attribute, %", curves, 100 * base)


def attributes_of(data: Dataset, rows: np.ndarray) -> tuple[Attributes, str]:
    """The attributes of the examples at ``rows`` (n,), and a note for the reader ("" if there is none)."""
    if data.attributes is not None:
        return data.attributes.keep(rows), ""
    return derived_attributes(data, rows), PIXEL_NOTE


def derived_attributes(data: Dataset, rows: np.ndarray) -> Attributes:
    """Four binary attributes of pictures, each cut at the median of the given examples.

    They are the total brightness, the mean position of brightness across and down, and its deviation across. For
    digits, ink counts instead of brightness.
    """
    pictures = thumbnails(data, rows, 8 if data.name == "digits" else PIXEL_SIDE)
    if pictures is None:
        raise UserError(
            f"{data.spec} has no attributes and no pictures to compute some from; give data with attributes: an .npz "
            "with attributes (N, A) or class_attributes (C, A), cub:FOLDER or imagenet-attributes:FOLDER"
        )
    mass = pictures.mean(axis=3) / 255
    if data.name == "digits":
        mass = 1 - mass
    place = (np.arange(mass.shape[1]) + 0.5) / mass.shape[1]
    total = np.maximum(mass.sum(axis=(1, 2)), 1e-12)
    across, down = mass.sum(axis=1) / total[:, None], mass.sum(axis=2) / total[:, None]
    x, y = across @ place, down @ place
    wide = np.sqrt(np.maximum(across @ place**2 - x**2, 0))
    measured = np.stack([total, -x, -y, wide], axis=1)
    return Attributes(PIXEL_ATTRIBUTES, (measured > np.median(measured, axis=0)).astype(np.float32), "image")
