"""Image maps (the paper's appendix): the examples themselves, each near its place on the map, none over another."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

from magnet.report.colours import class_colours
from magnet.report.densities import Frame
from magnet.report.figures import class_legend, save_figure
from magnet.report.plotting import pyplot
from magnet.report.text import plain

THUMBNAIL, EDGE = 48, 3  # pixels: side of a picture, and of its edge in the colour of the class
MOST_CELLS = 64  # a side
DPI = 100


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
