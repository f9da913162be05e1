"""Plots with matplotlib: what all of them share (colours, names, legends, writing), bars and curves."""

import colorsys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from magnet.errors import UserError
from magnet.files import replacing

# Okabe and Ito's colours, which most colour-blind people tell apart, and three more.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7F7F7F", "#332288", "#882255",
)  # fmt: skip
ATTRIBUTE = "#F57C00"  # orange: examples that have an attribute
ARROW = "#D7191C"  # red: from examples to the cluster that they are closest to
# Tol's muted scheme without its rose, and two blues: ten colours that most colour-blind people tell apart.
CLASS_COLOURS = (
    "#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#882255", "#AA4499", "#0072B2", "#8A8A8A",
)  # fmt: skip
GOLDEN = 0.618034  # steps of it around the circle of hues keep neighbours in the list apart
HUES = (0.14, 0.96)  # without red and orange
MOST_NAMED = 40  # classes in a legend; of more, the colours cannot be told apart anyway
Curve = Sequence[tuple[float, float]]  # (step or second, error)


def pyplot() -> Any:
    """matplotlib.pyplot, drawing to files only."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise UserError("pictures need matplotlib: pip install 'magnet-loss[plots]'") from error
    return plt


def plain(text: str, length: int = 24) -> str:
    """A name as matplotlib shall draw it: one line, shortened in the middle, no character with a meaning."""
    text = "".join(c if c.isprintable() else " " for c in text).strip() or " "
    if len(text) > length:
        head = (length - 1) // 2
        text = f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
    text = text.replace("$", r"\$")  # no formula
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text  # a legend leaves out names with a "_"


def class_colours(count: int) -> np.ndarray:
    """Colours (count, 3) in 0..1. The first ten are chosen by hand; of more classes, all are spread over the hues."""
    if count <= len(CLASS_COLOURS):
        return np.array([hex_colour(colour) for colour in CLASS_COLOURS[:count]])
    low, high = HUES
    hues = low + (high - low) * (np.arange(count) * GOLDEN % 1)
    levels = ((0.36, 0.75), (0.55, 0.6), (0.72, 0.55))  # lightness and saturation, in turn
    return np.array([colorsys.hls_to_rgb(hue, *levels[i % len(levels)]) for i, hue in enumerate(hues)])


def hex_colour(colour: str) -> np.ndarray:
    """ "#rrggbb" as (3,) in 0..1."""
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def class_legend(names: list[str], width: float) -> tuple[list[Any], list[str], int]:
    """Handles, labels and the number of columns that fit in ``width`` inches; too many classes are not named."""
    if len(names) > MOST_NAMED:
        return [dot("none")], [f"{len(names)} classes, a colour each"], 2
    colours = class_colours(len(names))
    labels = [plain(name) for name in names]
    handles = [dot(tuple(colour)) for colour in colours]
    longest = max(len(label) for label in labels)
    return handles, labels, max(1, int(width / (0.45 + 0.085 * longest)))


def dot(colour: Any, edge: Any = None) -> Any:
    """A dot for a legend."""
    return pyplot().Line2D([], [], marker="o", markersize=7, linestyle="", color=colour, markeredgecolor=edge or colour)


def save_figure(figure: Any, path: Path, dpi: int = 110) -> Path:
    """Write a figure whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        figure.savefig(draft, dpi=dpi, format=path.suffix[1:])
    pyplot().close(figure)
    return path


def draw_bars(
    groups: Sequence[str], heights: Mapping[str, Sequence[float]], path: Path, *, title: str, unit: str
) -> None:
    """Write bars as a picture: one group for each name, one bar in it for each series; NaN leaves a gap."""
    plt = pyplot()
    width = 0.8 / len(heights)
    figure, axis = plt.subplots(figsize=(max(5.0, 1.1 + 1.5 * len(groups)), 3.8))
    for number, (name, values) in enumerate(heights.items()):
        places = np.arange(len(groups)) + (number - (len(heights) - 1) / 2) * width
        bars = axis.bar(
            places, np.nan_to_num(np.asarray(values, float)), width * 0.92, color=COLOURS[number], label=name
        )
        axis.bar_label(bars, [f"{v:.1f}" if np.isfinite(v) else "" for v in values], fontsize=8, padding=2)
    axis.set_xticks(range(len(groups)), groups)
    axis.set_ylabel(unit)
    axis.set_title(title, fontsize=11, loc="left")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, ncols=len(heights), loc="upper left", bbox_to_anchor=(0, -0.1))
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


def draw_curves(
    curves: Mapping[str, Curve],
    path: Path,
    *,
    title: str,
    goals: Mapping[str, float],
    marks: Sequence[tuple[float | None, float]],
    marked: str,
    seconds: Mapping[str, Curve] | None = None,
) -> None:
    """Write errors against iterations, and against seconds if there are any, with a legend for every line and mark.

    Args:
        curves: by name, points of (step, error); steps are drawn on a logarithmic scale.
        path: the PNG.
        title: above it.
        goals: by the name of a curve, the error that it ends at, drawn as a dashed line of its colour.
        marks: (step, error) of the red diamonds; without a step there is none.
        marked: what a red diamond means.
        seconds: by name, points of (processor seconds, error), drawn beside the iterations.
    """
    plt = pyplot()
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panels = [("iterations", curves)] + ([("processor seconds, the start included", seconds)] if seconds else [])
    figure, axes = plt.subplots(1, len(panels), figsize=(6.4 * len(panels), 4.0), sharey=True, squeeze=False)
    colours = dict(zip(curves, COLOURS, strict=False))
    for axis, (unit, lines) in zip(axes[0], panels, strict=True):
        for name, curve in lines.items():
            places, errors = zip(*curve, strict=True)
            shown = [100 * error for error in errors]
            axis.plot(places, shown, color=colours[name], label=name, marker=".", markersize=4)
        for name in lines:
            if name in goals:
                end = f"the error at which {name} ends"
                axis.axhline(100 * goals[name], color=colours[name], linewidth=0.8, linestyle="--", label=end)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda place, _: f"{place:,.0f}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel(unit)
        axis.grid(alpha=0.25, which="both")
        axis.spines[["top", "right"]].set_visible(False)
    first = axes[0, 0]
    seen = [(step, 100 * error) for step, error in marks if step is not None]
    if seen:
        first.plot(
            *zip(*seen, strict=True), marker="D", color="red", markersize=8, linestyle="", zorder=5, label=marked
        )
    first.set_ylabel("validation error, %")
    first.set_title(title, fontsize=11, loc="left")
    if curves:
        first.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


@dataclass
class Panel:
    """Curves of all methods over the sizes, and what chance gives."""

    title: str
    unit: str
    curves: dict[str, np.ndarray]  # (seeds, S)
    chance: float


def draw_attribute_curves(panels: list[Panel], sizes: tuple[int, ...], path: Path, *, title: str) -> Path:
    """Write the panels side by side: means over the seeds, with a band of a standard deviation either way."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(panels), figsize=(5.6 * len(panels), 4.6), squeeze=False, layout="constrained")
    for axis, panel in zip(axes[0], panels, strict=True):
        for number, (name, curves) in enumerate(panel.curves.items()):
            mean, spread = curves.mean(axis=0), curves.std(axis=0, ddof=1) if len(curves) > 1 else 0.0
            colour = COLOURS[number % len(COLOURS)]
            axis.plot(sizes, mean, marker="o", markersize=4.5, color=colour, label=name, zorder=3)
            axis.fill_between(sizes, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
        axis.axhline(panel.chance, color="#555555", linestyle="--", linewidth=1, label="neighbours drawn at random")
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.set_xlabel("neighbourhood size")
        axis.set_ylabel(panel.unit)
        axis.set_title(panel.title, fontsize=11, loc="left")
        axis.grid(color="#e5e5e5", linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=9.5)
    figure.get_layout_engine().set(wspace=0.08)
    figure.suptitle(plain(title, 100), fontsize=13, x=0.01, ha="left")
    return save_figure(figure, path, dpi=130)
