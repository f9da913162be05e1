"""Attribute precision against the size of the neighbourhood (the paper's figure 5d)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from magnet.report.figures import save_figure
from magnet.report.maps import COLOURS
from magnet.report.plotting import pyplot
from magnet.report.text import plain


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
