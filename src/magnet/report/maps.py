"""Maps of points: examples in the plane by class, with the clusters that they fall into."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from magnet.report.plotting import pyplot

# Okabe and Ito's colours, which most colour-blind people tell apart, and three more.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7F7F7F", "#332288", "#882255",
)  # fmt: skip


@dataclass
class Map:
    """One panel: what it shows, and where everything lies."""

    title: str
    positions: np.ndarray  # (n, 2)
    labels: np.ndarray  # (n,)
    centres: np.ndarray  # (J, 2)


def draw_maps(maps: list[Map], names: list[str], path: Path, *, title: str = "", columns: int = 3) -> None:
    """Write the maps side by side as a picture; ``names`` are those of the labels."""
    plt = pyplot()
    rows = -(-len(maps) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 4.7 * rows + 0.7), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, panel in zip(axes.flat, maps, strict=False):
        _draw(axis, panel)
    handles = [
        plt.Line2D([], [], marker="o", linestyle="", color=COLOURS[i % len(COLOURS)], label=name)
        for i, name in enumerate(names)
    ]
    handles.append(
        plt.Line2D([], [], marker="o", linestyle="", color="white", markeredgecolor="black", label="cluster centre")
    )
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, handletextpad=0.1)
    if title:
        figure.suptitle(title, fontsize=13)
    figure.tight_layout(rect=(0, 0.6 / (4.7 * rows + 0.7), 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw(axis: Any, panel: Map) -> None:
    colours = [COLOURS[label % len(COLOURS)] for label in panel.labels]
    axis.scatter(*panel.positions.T, c=colours, s=14, linewidths=0, alpha=0.85)
    axis.scatter(*panel.centres.T, c="white", s=22, edgecolors="black", linewidths=0.8)
    axis.set_title(panel.title, fontsize=12)
    axis.set_aspect("equal", adjustable="datalim")
