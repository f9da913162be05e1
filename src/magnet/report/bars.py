"""Grouped bars with their values."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from magnet.report.maps import COLOURS
from magnet.report.plotting import pyplot


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
