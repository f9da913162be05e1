"""Curves over iterations, with the errors that some of them end at and when another one gets there."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from magnet.report.maps import COLOURS
from magnet.report.plotting import pyplot

Curve = Sequence[tuple[int, float]]


def draw_curves(
    curves: Mapping[str, Curve],
    path: Path,
    *,
    title: str,
    goals: Mapping[str, float],
    marks: Sequence[tuple[int | None, float]],
    marked: str,
) -> None:
    """Write errors against iterations as a picture whose legend explains every line and mark in it.

    Args:
        curves: by name, points of (step, error); steps are drawn on a logarithmic scale.
        path: the PNG.
        title: above it.
        goals: by the name of a curve, the error that it ends at, drawn as a dashed line of its colour.
        marks: (step, error) of the red diamonds; without a step there is none.
        marked: what a red diamond means.
    """
    plt = pyplot()
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure, axis = plt.subplots(figsize=(6.4, 4.0))
    for number, (name, curve) in enumerate(curves.items()):
        steps, errors = zip(*curve, strict=True)
        axis.plot(steps, [100 * error for error in errors], color=COLOURS[number], label=name, marker=".", markersize=4)
    for number, name in enumerate(curves):
        if name in goals:
            end = f"the error at which {name} ends"
            axis.axhline(100 * goals[name], color=COLOURS[number], linewidth=0.8, linestyle="--", label=end)
    seen = [(step, 100 * error) for step, error in marks if step is not None]
    if seen:
        axis.plot(*zip(*seen, strict=True), marker="D", color="red", markersize=8, linestyle="", zorder=5, label=marked)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("iterations")
    axis.set_ylabel("validation error, %")
    axis.set_title(title, fontsize=11, loc="left")
    axis.grid(alpha=0.25, which="both")
    axis.spines[["top", "right"]].set_visible(False)
    if curves:
        axis.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
