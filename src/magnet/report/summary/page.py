"""The report: its tables as plain values, which `assets/page.html` makes a page of, and the pictures beside it."""

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment
from markupsafe import Markup, escape

from magnet import __version__
from magnet.errors import UserError, percent
from magnet.methods import Options, method_class
from magnet.methods.base import RULE_NAMES
from magnet.report.html import base_style, write_whole
from magnet.report.plots import COLOURS, plain
from magnet.report.summary.figures import (
    PARTS,
    TIMES,
    Figure,
    curve_figures,
    draw_attributes,
    draw_errors,
    draw_times,
    evaluations,
    listed,
    of_views,
    spent,
    standard_error,
    with_attributes,
)
from magnet.report.summary.findings import BESIDE, ReportedRun
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset
from magnet.training.workbench import absolute

# Colours of runs that are too dark for a dark page, or too light for a light one.
ON_DARK = {"#0072B2": "#4aa3df", "#332288": "#9b8cff", "#882255": "#d9699a", "#7F7F7F": "#a8a8a8"}
ON_LIGHT = {"#F0E442": "#b8a900"}
SHOWN = (1, 8, 32, 128)  # sizes of neighbourhoods in the table of attributes
MOST = 400  # attributes listed one by one
ALWAYS = {"clusters_per_batch", "examples_per_cluster", "clusters_per_class"}  # batches and kNC of every method
PLACES = ("out",)  # differs always, and is said elsewhere


class Cell(NamedTuple):
    """A number in a table."""

    shown: str
    spread: str = ""
    best: bool = False
    beside: str = ""  # the same, said otherwise


class PageTable(NamedTuple):
    """A row of numbers for each run."""

    head: list[str]
    rows: list[tuple[int, list[Cell]]]  # the number of the run, and its cells


def write_report(runs: Sequence[ReportedRun], out: Path) -> list[Path]:
    """Write ``out``, one HTML file that needs nothing else, and its figures as PNG in a folder named like it.

    Returns:
        The files written, the page last.
    """
    errors, curves, attributes, times = draw_errors(runs), curve_figures(runs), draw_attributes(runs), draw_times(runs)
    drawn = [figure for figure in (errors, *curves, *attributes, times) if isinstance(figure, Figure)]
    written = []
    for figure in drawn:
        path = out.with_suffix("") / f"{figure.name}.png"
        write_whole(path, figure.png)
        written.append(path)
    assets = files(__package__) / "assets"
    text = _environment().from_string((assets / "page.html").read_text(encoding="utf-8")).render(
        runs=runs,
        title=f"Magnet report: {listed([run.name for run in runs[:4]])}{' and more' * (len(runs) > 4)}",
        style=base_style() + (assets / "style.css").read_text(encoding="utf-8"),
        colours=len(COLOURS),
        light=[ON_LIGHT.get(shade, shade) for shade in COLOURS],
        dark=[ON_DARK.get(shade, shade) for shade in COLOURS],
        cards=[_card(run) for run in runs],
        notices=notices(runs),
        errors=errors,
        error_table=error_table(runs, comparable(runs)),
        views=any(found["views"] > 1 for _, found in evaluations(runs)),
        curves=[figure for figure in curves if isinstance(figure, Figure)],
        missing_curves=[reason for reason in curves if isinstance(reason, str)],
        confusions=_confusions(runs),
        matrices=[(number, run, matrix_of(run)) for number, run in enumerate(runs) if run.findings],
        attributes=attributes,
        attribute_table=attribute_table(runs),
        attribute_groups=_attribute_groups(runs),
        times=times,
        time_parts=list(zip(TIMES.values(), PARTS, strict=True)),
        time_table=time_table(runs),
        settings=_settings(runs),
        foot=f"magnet {__version__}, {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
    )  # fmt: skip
    write_whole(out, text)
    return [*written, out]


def _environment() -> Environment:
    """Jinja, by which all text is escaped, and its control characters are shown as such."""
    made = Environment(autoescape=True, finalize=printable)
    made.filters |= {"percent": percent, "breakable": breakable}
    return made


def printable(value: Any) -> Any:
    """Text as it is, but for control characters and halves of characters: these are replaced.

    >>> printable("a\\x1b[2J")
    'a\\ufffd[2J'
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in value)


def breakable(name: str) -> Markup:
    """A name that is rather broken after an underscore than anywhere.

    >>> breakable("<b>_1")
    Markup('&lt;b&gt;_<wbr>1')
    """
    return escape(printable(name)).replace("_", Markup("_<wbr>"))


def minutes_and_seconds(seconds: float) -> str:
    """Seconds as text: "4.2 s", "3 min 05 s", "2 h 10 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _card(run: ReportedRun) -> dict[str, str]:
    error, about = "-", "not evaluated"
    if run.findings:
        found = run.findings.evaluation
        share, rule = found[found["rule"]]["error"], RULE_NAMES[found["rule"]]
        error, accuracy = percent(share), percent(1 - share)
        about = f"error of {rule}, accuracy {accuracy}, on {found['n']:,} test examples{of_views([found])}, "
        about += found["checkpoint"]
    state = "finished" if run.finished else "unfinished"
    total = minutes_and_seconds(sum(run.seconds.values())) if run.seconds else "time unknown"
    return {
        "name": run.name, "method": run.config.method, "data": run.config.data, "error": error, "about": about,
        "state": f"{state}, {run.step:,} steps, {total}",
    }  # fmt: skip


def notices(runs: Sequence[ReportedRun]) -> list[str]:
    """What stands in the way of trusting or comparing the numbers."""
    said = [f"{run.name}: {note}" for run in runs for note in run.notes]
    said += [
        f"{run.name} is not finished: it stands at step {run.step:,}. Go on with magnet train --resume {run.folder}"
        for run in runs
        if not run.finished
    ]
    said += [f"{run.name} was not evaluated: {run.trouble}." for run in runs if run.trouble]
    if not same_data(runs):
        said.append(
            "These runs were trained on different data. Their curves stand side by side, but neither curves nor "
            "errors can be compared."
        )
    elif not comparable(runs):
        said.append(
            "These runs were tested on different examples of the same data (a test part split off by another seed, "
            "merged classes, or data that changed since). Their errors differ for that reason too."
        )
    return said


def same_data(runs: Sequence[ReportedRun]) -> bool:
    """Whether all runs name the same data."""
    return len({absolute(run.config.data) for run in runs}) == 1


def comparable(runs: Sequence[ReportedRun]) -> bool:
    """Whether all runs that were evaluated were so on the same examples."""
    return same_data(runs) and len({run.findings.examples for run in runs if run.findings}) <= 1


def error_table(runs: Sequence[ReportedRun], comparable: bool) -> PageTable:
    """Errors under each classifier, and what else was measured; the best of a column is marked where runs compare."""
    measured = evaluations(runs)
    columns: dict[str, tuple[str, ...]] = {name: (rule, "error") for rule, name in RULE_NAMES.items()}
    if any(found["views"] > 1 for _, found in measured):
        columns |= {f"{name}, plain view": ("plain", rule, "error") for rule, name in RULE_NAMES.items()}
    columns |= {
        "kNC, top 5": ("knc", "error@5"),
        "recall@1": ("retrieval", "recall@1"),
        "MAP@R": ("retrieval", "map@r"),
        "calibration": ("", "ece_calibrated"),
    }
    columns = {
        name: path for name, path in columns.items() if any(_value(found, path) is not None for _, found in measured)
    }
    best = {name: _clearly_best(measured, path) for name, path in columns.items()} if comparable else {}
    rows = []
    for number, found in measured:
        cells = []
        for name, path in columns.items():
            value = _value(found, path)
            spread = value is not None and path[-1] == "error"
            shown = f" ± {100 * standard_error(value or 0.0, found['n']):.1f}" if spread else ""
            accuracy = f"accuracy {percent(1 - value)}" if value is not None and path[-1] == "error" else ""
            cells.append(Cell(percent(value), shown, number == best.get(name), accuracy))
        rows.append((number, [*cells, Cell(f"{found['n']:,}")]))
    return PageTable([*columns, "examples"], rows)


def _clearly_best(measured: list[tuple[int, dict[str, Any]]], path: tuple[str, ...]) -> int | None:
    """The run that is better than every other one by more than a standard error of either; None where there is none.

    The calibration error is a mean of differences between confidence and accuracy: it has the standard error of these.
    """
    share = (path[0], "error") if path[-1] == "ece_calibrated" else path  # the one with a known standard error
    found = [
        (value, number, standard_error(_value(one, share) or 0.0, one["n"]))
        for number, one in measured
        if (value := _value(one, path)) is not None
    ]
    if len(found) < 2:
        return None
    (first, number, spread), (second, _, other) = sorted(found, reverse=path[0] == "retrieval")[:2]
    return number if abs(first - second) > max(spread, other) else None


def _value(found: dict[str, Any], path: tuple[str, ...]) -> float | None:
    """A number of the evaluation by the keys that lead to it; "" stands for the rule that the method is judged by."""
    value: Any = found
    for key in path:
        value = (value or {}).get(key or found["rule"])
    return None if value is None else float(value)


def _confusions(runs: Sequence[ReportedRun]) -> list[tuple[int, str, list[dict[str, Any]]]]:
    """For each run its number, its rule, and a row for each class that goes wrong, the worst first."""
    made = []
    for number, run in enumerate(runs):
        if run.findings:
            found, impostors = run.findings.evaluation, run.findings.impostors
            rows = [{**row, "impostors": impostors.get(row["class"], [])} for row in found["worst"]]
            made.append((number, RULE_NAMES.get(found["rule"], found["rule"]), rows))
    return made


def matrix_of(run: ReportedRun) -> dict[str, Any]:
    """The confusion matrix of a run as cells to draw, its mistakes with pictures, and the exemplars of its classes."""
    assert run.findings is not None
    found, names = run.findings.confusion, run.findings.classes
    place = {label: i for i, label in enumerate(found["classes"])}
    pairs = [
        {
            "name": f"{pair['label']}-{pair['taken']}", "label": names[pair["label"]], "taken": names[pair["taken"]],
            "n": pair["n"], "of": found["n"][pair["label"]], "mistakes": pair["mistakes"],
            "beside": [found["exemplars"].get(str(pair[side]), [])[:BESIDE] for side in ("label", "taken")],
        }
        for pair in found["pairs"]
    ]  # fmt: skip
    listed_pairs = {pair["name"] for pair in pairs}
    cells = [
        {
            "row": place[a], "column": place[b], "n": n, "of": found["n"][a], "label": names[a], "taken": names[b],
            "share": n / max(found["n"][a], 1),
            "target": (f"class-{a}" if found["exemplars"] else "") if a == b
            else f"pair-{a}-{b}" if f"{a}-{b}" in listed_pairs else "",
        }
        for a, b, n in found["cells"]
        if a in place and b in place
    ]  # fmt: skip
    classes = [
        {"id": label, "name": names[label], "short": plain(names[label], 26).replace(r"\$", "$"),
         "n": found["n"][label], "exemplars": found["exemplars"].get(str(label), [])}
        for label in found["classes"]
    ]  # fmt: skip
    room = 16 + round(6.7 * max((len(shown["short"]) for shown in classes), default=0))  # for names, at 12 pixels
    return {
        "cells": cells, "pairs": pairs, "classes": classes, "all": len(names), "small": found["small"], "room": room
    }  # fmt: skip


def attribute_table(runs: Sequence[ReportedRun]) -> PageTable:
    """Mean precision of attributes in neighbourhoods of several sizes, and the lift within classes."""
    rows = []
    measured = with_attributes(runs)
    lifts = any(found["within"] for _, found in measured)
    for number, found in measured:
        at = [found["sizes"].index(size) for size in SHOWN]
        within = found["within"]
        cells = [str(sum(count > 0 for count in found["all"]["counts"]))]
        cells += [percent(found["all"]["precision"][place]) for place in at] + [percent(found["all"]["base"])]
        if lifts:
            cells += [f"{within['lift'][place]:.3f}" if within and within["lift"][place] else "-" for place in at[:3]]
        rows.append((number, [Cell(shown) for shown in cells]))
    head = ["attributes", *(f"of {size}" for size in SHOWN), "by lot"]
    return PageTable(head + [f"lift in class, of {size}" for size in SHOWN[:3]] * lifts, rows)


def _attribute_groups(runs: Sequence[ReportedRun]) -> list[dict[str, Any]]:
    """All attributes; runs on the same attributes side by side, the best gain over chance first."""
    groups: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for number, found in with_attributes(runs):
        groups.setdefault(tuple(found["names"]), []).append((number, found))
    made = []
    for names, group in groups.items():
        first, place = group[0][1]["all"], group[0][1]["sizes"].index(8)
        measured = [a for a in range(len(names)) if all(found["all"]["counts"][a] for _, found in group)]
        precisions = {a: [found["all"]["per_attribute"][a][place] for _, found in group] for a in measured}
        gains = {a: float(np.mean(precisions[a])) - (first["chance"][a] or 0) for a in measured}
        rows = [
            (names[a], f"{first['counts'][a]:,}", percent(first["chance"][a]), *map(percent, precisions[a]))
            for a in sorted(measured, key=gains.__getitem__, reverse=True)[:MOST]
        ]
        made.append({"count": len(measured), "rows": rows, "runs": [number for number, _ in group]})
    return made


def time_table(runs: Sequence[ReportedRun]) -> PageTable:
    """Where the time went, in numbers."""
    rows = []
    for number, run in enumerate(runs):
        time = spent(run)
        pace = f"{1000 * time['training'] / run.step:.1f} ms" if run.step and time["training"] else "-"
        cells = [minutes_and_seconds(seconds) if seconds else "-" for seconds in time.values()]
        rows.append((number, [Cell(shown) for shown in (*cells, minutes_and_seconds(sum(time.values())), pace)]))
    return PageTable([*TIMES.values(), "in all", "a step"], rows)


def _settings(runs: Sequence[ReportedRun]) -> dict[str, Any]:
    """Several runs: what differs, then the rest. One run: what is not the default of its preset, then the rest."""
    names = [field.name for field in dataclasses.fields(TrainConfig) if field.name not in PLACES]
    values = [run.config.to_dict() for run in runs]
    if len(runs) == 1:
        whose, default = _defaults(runs[0].config)
        marked = [name for name in names if values[0][name] != default[name]]
        titles = f"Settings that are not the defaults of {whose}", f"Settings at the defaults of {whose}"
    else:
        marked = [name for name in names if len({str(value[name]) for value in values}) > 1]
        titles = "What differs between the runs", "What the runs have in common"

    def shown(name: str) -> dict[str, Any]:
        given = [(_shown(run.config.to_dict()[name]), _reads(run.config.method, name)) for run in runs]
        return {"name": name, "given": given}

    return {
        "marked_title": titles[0], "marked": [shown(name) for name in marked],
        "rest_title": titles[1], "rest": [shown(name) for name in names if name not in marked],
    }  # fmt: skip


def _defaults(config: TrainConfig) -> tuple[str, dict[str, Any]]:
    """What the settings of a run are compared with, in words: those of its preset, or the paper's."""
    if config.preset != "auto":
        given = {name: getattr(config, name) for name in ("data", "method", "preset", "backbone", "start", "weights")}
        with suppress(UserError):  # a preset that this version does not have
            return f"the preset {config.preset}", with_preset(TrainConfig(**given)).to_dict()
    return "the paper", TrainConfig(data="").to_dict()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in (None, ""):
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _reads(method: str, name: str) -> bool:
    """Whether a method reads a setting; of a method that is not known here, all are shown as read."""
    if name in ALWAYS or name not in {field.name for field in dataclasses.fields(Options)}:
        return True
    try:
        return name in method_class(method).uses
    except UserError:
        return True
