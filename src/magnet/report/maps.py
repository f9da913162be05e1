"""Maps: representations laid out in the plane by t-SNE, with the clusters that they fall into."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from magnet.errors import UserError

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


def lay_out(representations: np.ndarray, centres: np.ndarray, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Positions (n, 2) and (J, 2) of representations (n, d) and cluster centres (J, d), by t-SNE."""
    try:
        from openTSNE import TSNE
    except ImportError as error:
        raise UserError("maps need openTSNE and matplotlib: pip install 'magnet[plots]'") from error
    everything = np.concatenate([representations, centres]).astype(np.float64)
    perplexity = min(30, (len(everything) - 1) // 3)
    exact = len(everything) < 3000  # Barnes-Hut is quicker there than interpolation
    placed = TSNE(
        perplexity=perplexity, random_state=seed, negative_gradient_method="bh" if exact else "fft"
    ).fit(everything)  # fmt: skip
    placed = np.asarray(placed)
    return placed[: len(representations)], placed[len(representations) :]


def draw_maps(maps: list[Map], names: list[str], path: Path, *, title: str = "", columns: int = 3) -> None:
    """Write the maps side by side as a picture; ``names`` are those of the labels."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise UserError("pictures need matplotlib: pip install 'magnet[plots]'") from error
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
