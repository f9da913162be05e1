"""The figures of a report: errors, curves of training, attribute precision by the size of the neighbourhood, times.

Each is made twice: as SVG whose colours follow the page, light or dark, and as PNG that stands alone.
"""

import html
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np

from magnet.methods.base import RULE_NAMES
from magnet.report.plots import COLOURS, plain, pyplot
from magnet.report.summary.findings import ReportedRun

INK, FAINT = "#1f2933", "#d5dae1"  # in the PNG; in the page, the colours of its text and lines
PARTS = ("#5b6c8f", "#93a8c6", "#c39bd3", "#d9a86c", "#8fb996")  # of a whole, none of them a run's
DASHES = ("-", "--", ":", "-.")  # of runs beyond the number of colours
STYLE = {
    "font.size": 9.5, "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK,
    "ytick.color": INK, "grid.color": FAINT, "grid.linewidth": 0.7, "axes.linewidth": 0.7, "legend.frameon": False,
}  # fmt: skip
MOST_DOTS = 400  # points of a line that are marked
SMOOTH_FROM = 12  # points from which a line is drawn as its moving mean
TIMES = {
    "training": "training steps",
    "embedding": "refresh: embedding",
    "refresh": "refresh: clustering",
    "validation": "evaluation: validation",
    "test": "evaluation: test part",
}


@dataclass(frozen=True)
class Figure:
    """A finished figure."""

    name: str  # of the file, without its ending
    title: str
    caption: str
    svg: str
    png: bytes


class Canvas:
    """One axis to draw on, and afterwards the `figure`."""

    axis: Any
    figure: Figure


def colour(number: int) -> str:
    """The colour of a run, by its place."""
    return COLOURS[number % len(COLOURS)].lower()


def line_style(number: int) -> dict[str, Any]:
    """How the line of a run looks; with more runs than colours, dashes tell them apart."""
    return {"color": colour(number), "linestyle": DASHES[number // len(COLOURS) % len(DASHES)], "linewidth": 1.8}


@contextmanager
def canvas(
    name: str,
    title: str,
    caption: str,
    legend: Sequence[tuple[str, dict[str, Any]]],
    *,
    size: tuple[float, float] = (5.4, 3.0),
) -> Iterator[Canvas]:
    """Draw on the ``axis`` inside; ``legend`` is drawn in the PNG only, for the page has its own.

    Args:
        name: of the file.
        title, caption: what is shown. The title is drawn in the PNG.
        legend: names, untrusted text, and how their lines look.
        size: in inches.
    """
    plt = pyplot()
    with plt.rc_context({**STYLE, "svg.hashsalt": name}):
        made = Canvas()
        sheet, made.axis = plt.subplots(figsize=size, layout="constrained")
        try:
            yield made
            svg = _svg(sheet, title)
            sheet.suptitle(title, fontsize=10.5, x=0.01, ha="left")
            if legend:
                handles = [plt.Line2D([], [], **look) for _, look in legend]
                names = [plain(label, 40) for label, _ in legend]
                columns = max(1, min(len(names), int(size[0] / (0.5 + 0.08 * max(map(len, names))))))
                sheet.legend(handles, names, loc="outside lower left", ncols=columns, fontsize=8.5)
            png = io.BytesIO()
            sheet.savefig(png, format="png", dpi=150)
            made.figure = Figure(name, title, caption, svg, png.getvalue())
        finally:
            plt.close(sheet)


def _svg(sheet: Any, title: str) -> str:
    """SVG to stand inside a page: its colours are names that the style sheet of the page gives a meaning."""
    text = io.StringIO()
    sheet.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    wide = (
        f'style="max-width: {105 * sheet.get_size_inches()[0]:.0f}px"'  # so that its letters are no larger than others
    )
    drawn = re.sub(r' id="[a-z0-9A-Z.]+_\d+"', "", drawn)  # the others are referred to, and salted
    drawn = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 {wide} role="img" aria-label="{html.escape(title)}">', drawn
    )
    names = {INK: "var(--ink)", FAINT: "var(--line)"}
    names |= {shade.lower(): f"var(--run-{number})" for number, shade in enumerate(COLOURS)}
    for shade, variable in names.items():
        drawn = drawn.replace(shade, variable)
    return re.sub(r"\n\s*", "\n", drawn).strip()


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def of_views(evaluations: Iterable[dict[str, Any]]) -> str:
    """Which views of images errors are of, to follow a comma; nothing where there is one view only, as of vectors."""
    counts = sorted({found["views"] for found in evaluations})
    return "" if counts == [1] else f", mean of {listed([str(count) for count in counts])} test views of each image"


def draw_errors(runs: Sequence[ReportedRun]) -> Figure | None:
    """A group of bars for each classifier, a bar for each run that has it; the line on a bar is one standard error."""
    measured = evaluations(runs)
    rules = [rule for rule in RULE_NAMES if any(rule in found for _, found in measured)]
    if not rules:
        return None
    caption = f"Error on the test part{of_views(found for _, found in measured)}. The line on a bar is one standard "
    caption += "error, from the number of test examples."
    legend = [(runs[number].name, line_style(number) | {"linewidth": 6}) for number, _ in measured]
    width = min(0.8 / len(measured), 0.3)
    with canvas(
        "errors", "Error under each classifier", caption, legend, size=(5.4 if len(measured) < 5 else 7.2, 2.6)
    ) as made:
        axis = made.axis
        for place, (number, found) in enumerate(measured):
            for group, rule in enumerate(rules):
                if rule not in found:
                    continue
                error, at = found[rule]["error"], group + (place - (len(measured) - 1) / 2) * width
                spread = 100 * standard_error(error, found["n"])
                axis.bar(at, 100 * error, width * 0.9, color=colour(number), linewidth=0)
                axis.errorbar(at, 100 * error, spread, color=INK, linewidth=1, capsize=0)
                axis.annotate(
                    f"{100 * error:.1f}", (at, 100 * error + spread), (0, 2), textcoords="offset points",
                    ha="center", fontsize=8,
                )  # fmt: skip
        axis.set_xticks(range(len(rules)), [RULE_NAMES[rule] for rule in rules])
        axis.set_xlim(-0.5, len(rules) - 0.5)
        axis.grid(axis="x", visible=False)
        axis.yaxis.set_major_formatter("{x:g} %")
        axis.margins(y=0.12)
    return made.figure


def standard_error(share: float, count: int) -> float:
    """The standard error of a share among ``count`` examples; rounding may have taken a mean of ones past 1."""
    return sqrt(max(0.0, share * (1 - share)) / count)


def evaluations(runs: Sequence[ReportedRun]) -> list[tuple[int, dict[str, Any]]]:
    """The runs that were evaluated, by number, and what `magnet.runs.evaluate.evaluate` found."""
    return [(number, run.findings.evaluation) for number, run in enumerate(runs) if run.findings]


class Series(NamedTuple):
    """Numbers along the training."""

    steps: np.ndarray  # (n,)
    values: np.ndarray  # (n,)


def series(journal: Sequence[dict[str, Any]], kind: str, key: str) -> Series:
    """All finite values of a key in the records of a kind."""
    found = [
        (record["step"], record[key])
        for record in journal
        if record.get("kind") == kind and isinstance(record.get(key), int | float) and isfinite(record[key])
    ]
    points = np.array(found, dtype=float).reshape(-1, 2)
    return Series(points[:, 0], points[:, 1])


def smooth(line: Series) -> Series | None:
    """The moving mean over a tenth of the line; None for a line so short that it can be read as it is."""
    if len(line.steps) < SMOOTH_FROM:
        return None
    half = max(1, len(line.steps) // 20)
    sums = np.concatenate([[0.0], line.values.cumsum()])
    place = np.arange(len(line.values))
    low, high = np.maximum(place - half, 0), np.minimum(place + half + 1, len(line.values))
    return Series(line.steps, (sums[high] - sums[low]) / (high - low))


@dataclass(frozen=True)
class Curve:
    """What to draw, and what to say of it."""

    name: str
    title: str
    kind: str  # of the records in the journal
    key: str
    caption: str
    nobody: str  # said where no run has it
    percent: bool = False


CURVES = (
    Curve(
        "loss", "Loss", "train", "loss", "Of the batch: every step that was noted, and their moving mean.",
        "No loss was noted: the training is too short.",
    ),
    Curve(
        "error", "Error", "validation", "error", "On the validation part, while training.",
        "No run has a validation part: train with --validation 0.1 to see the error while training.", percent=True,
    ),
    Curve(
        "active", "Active hinge", "train", "active",
        "Examples of the batch whose loss is above zero. Methods without a hinge stay at 100 %.",
        "Nothing was noted: the training is too short.", percent=True,
    ),
    Curve(
        "sigma", "Sigma", "train", "sigma",
        "Of the batch: the root of the variance around the cluster means, the unit of all distances.",
        "None of these methods estimates a sigma.",
    ),
    Curve(
        "churn", "Churn", "refresh", "churn",
        "Examples that left their cluster between two refreshes of the index.",
        "No run refreshed its index twice: only methods that draw batches from clusters do.", percent=True,
    ),
)  # fmt: skip


def curve_figures(runs: Sequence[ReportedRun]) -> list[Figure | str]:
    """A figure for each curve, or why there is none."""
    return [draw_curve(curve, runs) for curve in CURVES]


def draw_curve(curve: Curve, runs: Sequence[ReportedRun]) -> Figure | str:
    """One curve of all runs that have it."""
    lines = [series(run.journal, curve.kind, curve.key) for run in runs]
    scale = 100 if curve.percent else 1
    tested = [_tested(run) if curve.name == "error" else None for run in runs]
    if not any(len(line.steps) for line in lines):
        return curve.nobody
    if all(len(line.steps) < 2 for line in lines) and not any(tested):
        said = [f"{run.name} {_once(curve, line)}" for run, line in zip(runs, lines, strict=True) if len(line.steps)]
        return f"{curve.title} was noted once, which makes no curve: {listed(said)}."
    caption = curve.caption
    if curve.name == "loss" and len({run.config.method for run in runs}) > 1:
        caption += " Methods have losses of their own: compare shapes, not heights."
    without = [run.name for run, line in zip(runs, lines, strict=True) if not len(line.steps)]
    if without:
        caption += f" Not there for {listed(without)}."
    if any(tested):
        caption += " Ring: the evaluated checkpoint on the test part."
        if any(run.findings and run.findings.evaluation["views"] > 1 for run in runs):
            caption += " Both of the plain view of images."
    legend = [
        (run.name + (f" ({_rule(run)})" if curve.name == "error" else ""), line_style(number))
        for number, run in enumerate(runs)
        if len(lines[number].steps) or tested[number]
    ]
    with canvas(curve.name, curve.title, caption, legend) as made:
        axis = made.axis
        for number, line in enumerate(lines):
            _plot(axis, line, scale, line_style(number))
            ring = tested[number]
            if ring:
                axis.plot(ring[0], ring[1] * scale, "o", markersize=7, markeredgecolor=colour(number), fillstyle="none")
        axis.set_xlabel("step")
        if curve.percent:
            axis.yaxis.set_major_formatter("{x:g} %")
        low = min(0, axis.dataLim.y0)
        high = max(0, axis.dataLim.y1) or low + 1
        room = 0.03 * (high - low)  # so that a line at zero can be seen
        axis.set_ylim(low - room, high + room)
    return made.figure


def _once(curve: Curve, line: Series) -> str:
    """The only value of a curve, in words."""
    value = f"{100 * line.values[0]:.1f} %" if curve.percent else f"{line.values[0]:.3g}"
    return f"{value} at step {line.steps[0]:,.0f}"


def _plot(axis: Any, line: Series, scale: float, look: dict[str, Any]) -> None:
    """A line as its moving mean, with every point that was noted faint behind; a short one as it is."""
    mean = smooth(line)
    if mean is not None:
        axis.plot(line.steps, line.values * scale, color=look["color"], linewidth=0.7, alpha=0.4, **_dots(line, 1.6))
    points = {} if mean is not None else _dots(line, 3 if len(line.steps) > 1 else 7)
    axis.plot((mean or line).steps, (mean or line).values * scale, **look, **points)


def _dots(line: Series, size: float) -> dict[str, Any]:
    """Markers of the points of a line, unless they are so many that they would run together."""
    return {"marker": "o", "markersize": size, "markeredgewidth": 0} if len(line.steps) <= MOST_DOTS else {}


def _tested(run: ReportedRun) -> tuple[int, float] | None:
    """The step and the error of the checkpoint that was evaluated, under the rule and in the view of the curve."""
    if run.findings is None:
        return None
    found = run.findings.evaluation
    return found["step"], found["plain"][found["rule"]]["error"]


def _rule(run: ReportedRun) -> str:
    rules = [record.get("rule") for record in run.journal if record.get("kind") == "validation"]
    return RULE_NAMES.get(str(rules[-1]), str(rules[-1])) if rules else "test only"


def spent(run: ReportedRun) -> dict[str, float]:
    """Seconds by what they were spent on; the test part is evaluated for the report."""
    tested = run.findings.seconds if run.findings else 0.0
    return {key: float(run.seconds.get(key, 0.0)) for key in TIMES if key != "test"} | {"test": tested}


def draw_times(runs: Sequence[ReportedRun]) -> Figure | None:
    """A bar for each run."""
    times = [spent(run) for run in runs]
    if not any(sum(time.values()) for time in times):
        return None
    caption = (
        "Seconds of wall-clock time. Refresh: the training set is embedded, then clustered. "
        "Evaluation: on the validation part while training, and on the test part for this report."
    )
    legend = [(name, {"color": shade, "linewidth": 6}) for name, shade in zip(TIMES.values(), PARTS, strict=True)]
    size = (5.4, 0.9 + 0.36 * len(runs))
    with canvas("time", "Time", caption, legend, size=size) as made:
        for row, time in enumerate(times):
            left = 0.0
            for (_, seconds), shade in zip(time.items(), PARTS, strict=True):
                made.axis.barh(row, seconds, 0.62, left=left, color=shade, linewidth=0)
                left += seconds
        made.axis.set_yticks(range(len(runs)), [plain(run.name, 28) for run in runs])
        made.axis.invert_yaxis()
        made.axis.grid(axis="y", visible=False)
        made.axis.xaxis.set_major_formatter("{x:g} s")
    return made.figure


def with_attributes(runs: Sequence[ReportedRun]) -> list[tuple[int, dict[str, Any]]]:
    """The runs whose data has attributes, by number."""
    return [
        (number, run.findings.attributes) for number, run in enumerate(runs) if run.findings and run.findings.attributes
    ]


def draw_attributes(runs: Sequence[ReportedRun]) -> list[Figure]:
    """Mean precision against the size of the neighbourhood; and within the classes, as a lift over their own rate."""
    measured = with_attributes(runs)
    if not measured:
        return []
    names = [run.name for run in runs]
    by_class = [found["level"] == "class" for _, found in measured]
    whose = "neighbours of other classes" if all(by_class) else "neighbours"
    caption = f"Mean fraction of the nearest {whose} that share an attribute. Dotted: {whose} drawn by lot."
    figures = [_draw_attributes("attributes", "Attribute precision", caption, names, measured, "all")]
    inside = [(number, found) for number, found in measured if found["within"]]
    if inside:
        caption = (
            "Of the nearest neighbours of the same class, the fraction that share an attribute, divided by the rate in "
            "the class. 1 is chance: above it, the space orders a class by its attributes."
        )
        figures.append(_draw_attributes("attribute-lift", "Lift within the class", caption, names, inside, "within"))
    return figures


def _draw_attributes(
    name: str,
    title: str,
    caption: str,
    names: Sequence[str],
    measured: list[tuple[int, dict[str, Any]]],
    part: str,
) -> Figure:
    legend = [(names[number], line_style(number)) for number, _ in measured]
    with canvas(name, title, caption, legend) as made:
        axis = made.axis
        for number, found in measured:
            values = found[part]["precision" if part == "all" else "lift"]
            heights = np.array([np.nan if value is None else value for value in values])
            axis.plot(
                found["sizes"],
                heights * (100 if part == "all" else 1),
                marker="o",
                markersize=3.5,
                **line_style(number),
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks(measured[0][1]["sizes"], [str(size) for size in measured[0][1]["sizes"]])
        axis.set_xlabel("neighbours")
        if part == "all":
            for level in sorted({found["all"]["base"] for _, found in measured if found["all"]["base"] is not None}):
                axis.axhline(100 * level, color=INK, linestyle=":", linewidth=1)
            axis.yaxis.set_major_formatter("{x:g} %")
        else:
            axis.axhline(1, color=INK, linestyle=":", linewidth=1)
    return made.figure
