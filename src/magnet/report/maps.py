"""Maps of examples: as points by class, or as the pictures themselves (the paper's appendix)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from magnet.data import Dataset
from magnet.report.density_maps import Frame
from magnet.report.plots import COLOURS, class_colours, class_legend, plain, pyplot, save_figure

THUMBNAIL, EDGE = 48, 3  # pixels: side of a picture, and of its edge in the colour of the class
MOST_CELLS = 64  # a side
DPI = 100


@dataclass
class Map:
    """One panel: what it shows, and where everything lies."""

    title: str
    positions: np.ndarray  # (n, 2)
    labels: np.ndarray  # (n,)
    centres: np.ndarray  # (J, 2)


def draw_maps(maps: list[Map], names: list[str], path: Path, *, title: str = "", columns: int = 3) -> None:
    """Write the maps side by side as a picture; ``names`` are the names of the labels."""
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


@dataclass(frozen=True)
class Placement:
    """Which example lies in which cell of a square grid over the map."""

    cells: int  # a side
    examples: np.ndarray  # (m,)
    rows: np.ndarray  # (m,) from the bottom up
    columns: np.ndarray  # (m,)


def place(positions: np.ndarray, cells: int | None = None) -> Placement:
    """Snap points (n, 2) to cells: each cell shows at most one example, each example is shown at most once.

    Pairs of a cell and an example no further from its centre than a cell is wide are taken nearest first. Examples in
    a crowd thus move over by up to one cell, or are left out; empty parts of the map stay empty.
    """
    frame = Frame.around(positions)
    if cells is None:
        cells = int(np.clip(np.sqrt(5 * len(positions)), 4, MOST_CELLS))
    at = frame.unit(positions) * cells
    centres = np.stack(np.meshgrid(np.arange(cells), np.arange(cells)), axis=-1).reshape(-1, 2) + 0.5
    pairs = KDTree(centres).sparse_distance_matrix(KDTree(at), 1.0, output_type="ndarray")
    pairs = pairs[np.lexsort((pairs["i"], pairs["j"], pairs["v"]))]
    filled, shown = np.zeros(len(centres), bool), np.zeros(len(positions), bool)
    chosen = []
    for cell, example in zip(pairs["i"].tolist(), pairs["j"].tolist(), strict=True):
        if not filled[cell] and not shown[example]:
            filled[cell] = shown[example] = True
            chosen.append((cell, example))
    found = np.array(chosen, dtype=np.int64).reshape(-1, 2)
    return Placement(cells, found[:, 1], found[:, 0] // cells, found[:, 0] % cells)


def mosaic(placement: Placement, pictures: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """The picture (H, W, 3), bytes, rows from the top down, of thumbnails (m, s, s, 3) with classes (m,)."""
    side = pictures.shape[1]
    colours = np.round(255 * class_colours(classes)).astype(np.uint8)
    canvas = np.full((placement.cells * side, placement.cells * side, 3), 255, np.uint8)
    for picture, label, row, column in zip(pictures, labels, placement.rows, placement.columns, strict=True):
        top, left = (placement.cells - 1 - row) * side, column * side
        canvas[top : top + side, left : left + side] = colours[label]
        inside = picture[EDGE : side - EDGE, EDGE : side - EDGE]
        canvas[top + EDGE : top + side - EDGE, left + EDGE : left + side - EDGE] = inside
    used = np.flatnonzero((canvas != 255).any(axis=(1, 2))), np.flatnonzero((canvas != 255).any(axis=(0, 2)))
    return canvas[used[0][0] : used[0][-1] + 1, used[1][0] : used[1][-1] + 1]


def draw_image_map(picture: np.ndarray, names: list[str], path: Path, *, title: str) -> Path:
    """Write a mosaic, pixel by pixel, with a title and the colours of the classes."""
    height, width = (pixels / DPI for pixels in picture.shape[:2])
    size = max(10.0, min(22.0, 1.6 * width))
    handles, labels, columns = class_legend(names, (width - 0.5) * 11 / size)
    border, above = 0.25, 3.2 * size / 72
    below = 1.9 * size / 72 * -(-len(handles) // columns) + 0.2
    whole = (width + 2 * border, height + above + below)
    figure = pyplot().figure(figsize=whole)
    figure.text(0.5, 1 - above / 2 / whole[1], plain(title, 200), ha="center", va="center", fontsize=1.2 * size)
    axis = figure.add_axes((border / whole[0], below / whole[1], width / whole[0], height / whole[1]))
    axis.imshow(picture, interpolation="none", aspect="auto")
    axis.axis("off")
    if handles:
        figure.legend(
            handles, labels, loc="lower center", ncols=min(columns, len(handles)), frameon=False, handletextpad=0.1,
            fontsize=size, markerscale=size / 11,
        )  # fmt: skip
    return save_figure(figure, path, DPI)


def thumbnails(data: Dataset, rows: np.ndarray, side: int) -> np.ndarray | None:
    """Pictures of examples (n, side, side, 3), bytes; None of vectors that are no pictures.

    Digits are vectors, but of 8 x 8 pixels: these are drawn in ink on paper.
    """
    if data.kind == "images":
        sized = data.with_image_size(max(1, side * 10 // 13), cache_bytes=0)
        return _resized(sized.batch(rows).permute(0, 2, 3, 1).numpy(), side)
    if data.name == "digits":
        ink = data.batch(rows).reshape(-1, 8, 8, 1).numpy()
        return _resized(np.repeat(np.round(255 * (1 - ink)).astype(np.uint8), 3, axis=3), side)
    return None


def _resized(pictures: np.ndarray, side: int) -> np.ndarray:
    """Pictures (n, s, s, 3) at another side, by the nearest pixel: they are of nearly that size, or 8 pixels wide."""
    nearest = ((np.arange(side) + 0.5) * pictures.shape[1] / side).astype(int)
    return pictures[:, nearest][:, :, nearest]
