"""The curves of training (loss, error, active hinge, sigma, churn) and where the time went."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from magnet.report.plots import plain
from magnet.report.summary.canvas import PARTS, Figure, canvas, colour, line_style
from magnet.report.summary.findings import Story
from magnet.report.summary.markup import RULES, Markup, duration, listed, named, table

MOST = 400  # points of a line
SMOOTH_FROM = 60  # points from which a line is drawn as its moving mean
TIMES = {
    "training": "training steps",
    "embedding": "refresh: embedding",
    "refresh": "refresh: clustering",
    "validation": "evaluation: validation",
    "test": "evaluation: test part",
}


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


def thin(line: Series, most: int = MOST) -> Series:
    """The line with at most that many points: means of runs of equally many."""
    if len(line.steps) <= most:
        return line
    cuts = np.linspace(0, len(line.steps), most + 1).astype(int)[:-1]
    sizes = np.diff([*cuts, len(line.steps)])
    return Series(*(np.add.reduceat(numbers, cuts) / sizes for numbers in line))


def smooth(line: Series) -> Series | None:
    """The moving mean over a twentieth of the line; None for a line so short that it can be read as it is."""
    if len(line.steps) < SMOOTH_FROM:
        return None
    half = max(1, len(line.steps) // 40)
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
        "loss", "Loss", "train", "loss", "Of the batch.",
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


def draw_curves(stories: Sequence[Story]) -> list[Figure | str]:
    """A figure for each curve, or why there is none."""
    return [draw_curve(curve, stories) for curve in CURVES]


def draw_curve(curve: Curve, stories: Sequence[Story]) -> Figure | str:
    """One curve of all runs that have it."""
    lines = [series(story.journal, curve.kind, curve.key) for story in stories]
    scale = 100 if curve.percent else 1
    tested = [_tested(story) if curve.name == "error" else None for story in stories]
    if not any(len(line.steps) for line in lines):
        return curve.nobody
    caption = curve.caption
    if curve.name == "loss" and len({story.config.method for story in stories}) > 1:
        caption += " Methods have losses of their own: compare shapes, not heights."
    without = [story.name for story, line in zip(stories, lines, strict=True) if not len(line.steps)]
    if without:
        caption += f" Not there for {listed(without)}."
    if any(tested):
        caption += " Ring: the evaluated checkpoint on the test part."
        if any(story.findings and story.findings.evaluation["views"] > 1 for story in stories):
            caption += " Both of the plain view of images."
    legend = [
        (story.name + (f" ({_rule(story)})" if curve.name == "error" else ""), line_style(number))
        for number, story in enumerate(stories)
        if len(lines[number].steps) or tested[number]
    ]
    with canvas(curve.name, curve.title, caption, legend) as made:
        axis = made.axis
        for number, line in enumerate(lines):
            _plot(axis, thin(line), scale, line_style(number))
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


def _plot(axis: Any, line: Series, scale: float, look: dict[str, Any]) -> None:
    """A long line as its moving mean, with the line itself faint behind; a short one with its points."""
    mean = smooth(line)
    if mean is not None:
        axis.plot(line.steps, line.values * scale, color=look["color"], linewidth=0.7, alpha=0.35)
    points = {"marker": "o", "markersize": 3} if len(line.steps) <= 12 else {}
    axis.plot((mean or line).steps, (mean or line).values * scale, **look, **points)


def _tested(story: Story) -> tuple[int, float] | None:
    """The step and the error of the checkpoint that was evaluated, under the rule and in the view of the curve."""
    if story.findings is None:
        return None
    found = story.findings.evaluation
    return found["step"], found["plain"][found["rule"]]["error"]


def _rule(story: Story) -> str:
    rules = [record.get("rule") for record in story.journal if record.get("kind") == "validation"]
    return RULES.get(str(rules[-1]), str(rules[-1])) if rules else "test only"


def spent(story: Story) -> dict[str, float]:
    """Seconds by what they were spent on; the test part is evaluated for the report."""
    tested = story.findings.seconds if story.findings else 0.0
    return {key: float(story.seconds.get(key, 0.0)) for key in TIMES if key != "test"} | {"test": tested}


def draw_times(stories: Sequence[Story]) -> Figure | None:
    """A bar for each run."""
    times = [spent(story) for story in stories]
    if not any(sum(time.values()) for time in times):
        return None
    caption = (
        "Seconds of wall-clock time. Refresh: the training set is embedded, then clustered. "
        "Evaluation: on the validation part while training, and on the test part for this report."
    )
    legend = [(name, {"color": shade, "linewidth": 6}) for name, shade in zip(TIMES.values(), PARTS, strict=True)]
    size = (7.2, 0.9 + 0.36 * len(stories))
    with canvas("time", "Time", caption, legend, size=size) as made:
        for row, time in enumerate(times):
            left = 0.0
            for (_, seconds), shade in zip(time.items(), PARTS, strict=True):
                made.axis.barh(row, seconds, 0.62, left=left, color=shade, linewidth=0)
                left += seconds
        made.axis.set_yticks(range(len(stories)), [plain(story.name, 28) for story in stories])
        made.axis.invert_yaxis()
        made.axis.grid(axis="y", visible=False)
        made.axis.xaxis.set_major_formatter("{x:g} s")
    return made.figure


def time_table(stories: Sequence[Story]) -> Markup:
    """The same in numbers."""
    rows = []
    for number, story in enumerate(stories):
        time = spent(story)
        pace = f"{1000 * time['training'] / story.step:.1f} ms" if story.step and time["training"] else "–"
        cells = [duration(seconds) if seconds else "–" for seconds in time.values()]
        rows.append([named(stories, number), *cells, duration(sum(time.values())), pace])
    head = ["run", *TIMES.values(), "in all", "a step"]
    return table(head, rows, numbers=range(1, len(head)))


def time_parts() -> list[tuple[str, str]]:
    """Names and colours of the parts, for the page."""
    return list(zip(TIMES.values(), PARTS, strict=True))
