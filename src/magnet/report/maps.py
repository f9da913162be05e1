"""Maps of examples: as densities (the paper's figures 2 and 5), as points, or as the pictures themselves (appendix).

Maps of densities show classes as soft fields, clusters as dots, and pictures of examples at the rim.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial import KDTree

from magnet.data import Dataset
from magnet.report.plots import (
    ARROW,
    ATTRIBUTE,
    COLOURS,
    class_colours,
    class_legend,
    dot,
    hex_colour,
    plain,
    pyplot,
    save_figure,
)

SIDE = 480  # pixels of a field
REACH = 4  # a kernel is cut at this many bandwidths, and the frame leaves as much room around the points
PANEL = 5.6  # inches
TITLE, LEGEND_ROW = 0.5, 0.26  # inches
CALLOUT_SIDE = 0.104  # of a picture at the rim, as a share of the map's
THUMBNAIL, EDGE = 48, 3  # pixels: side of a picture, and of its edge in the colour of the class
MOST_CELLS = 64  # a side
DPI = 100


@dataclass(frozen=True)
class Frame:
    """A square of the plane that holds all of some points, and the width of the kernel that suits them."""

    left: float
    bottom: float
    width: float
    bandwidth: float

    @classmethod
    def around(cls, positions: np.ndarray) -> "Frame":
        """The frame of points (n, 2): the more there are, the finer the kernel."""
        low, high = positions.min(axis=0), positions.max(axis=0)
        spread = float((high - low).max()) or 1.0
        bandwidth = 0.05 * spread * len(positions) ** (-1 / 6)  # Scott's exponent in two dimensions
        width = spread + 2 * REACH * bandwidth
        left, bottom = (low + high - width) / 2
        return cls(float(left), float(bottom), width, bandwidth)

    def unit(self, positions: np.ndarray) -> np.ndarray:
        """The same points (n, 2) in a frame of 0..1."""
        return (positions - [self.left, self.bottom]) / self.width


def density(positions: np.ndarray, frame: Frame, side: int = SIDE) -> np.ndarray:
    """Kernel density of points (n, 2) on a grid (side, side), rows from the bottom up.

    Its integral over the frame is 1: ``density.sum() * (frame.width / side) ** 2``. The kernel is a Gaussian over
    binned points; a bin is far narrower than the kernel.
    """
    cells = np.clip((frame.unit(positions) * side).astype(int), 0, side - 1)
    counts = np.zeros((side, side))
    np.add.at(counts, (cells[:, 1], cells[:, 0]), 1)
    field = gaussian_filter(counts, frame.bandwidth / frame.width * side, mode="constant", truncate=REACH)
    return np.asarray(field / max(field.sum(), 1e-12) * (side / frame.width) ** 2)


def class_fields(positions: np.ndarray, labels: np.ndarray, classes: int, frame: Frame, side: int = SIDE) -> np.ndarray:
    """A picture (side, side, 4), RGBA in 0..1, rows from the bottom up, of the densities of all classes.

    The colour of a pixel is the mean of the classes' colours, weighted by their densities there; its opacity grows
    with the sum of them. One class is held in memory at a time, so there may be many.
    """
    mixed, total = np.zeros((side, side, 3)), np.zeros((side, side))
    for label, colour in enumerate(class_colours(classes)):
        own = positions[labels == label]
        if len(own):
            field = density(own, frame, side) * len(own) / len(positions)
            mixed += field[..., None] * colour
            total += field
    colours = mixed / np.maximum(total, 1e-300)[..., None]
    return np.dstack([colours, opacity(total)])


def attribute_field(positions: np.ndarray, has: np.ndarray, frame: Frame, side: int = SIDE) -> np.ndarray:
    """A picture as that of `class_fields`: orange, the more opaque the more of the examples there have it (n,)."""
    everyone = density(positions, frame, side) * len(positions)
    owners = density(positions[has], frame, side) * has.sum() if has.any() else np.zeros_like(everyone)
    share = owners / np.maximum(everyone, 1e-300)
    colour = np.broadcast_to(hex_colour(ATTRIBUTE), (side, side, 3))
    return np.dstack([colour, np.clip(share, 0, 1) * opacity(everyone)])


def opacity(field: np.ndarray) -> np.ndarray:
    """Opacity (side, side) in 0..1: nearly full where the field is as high as in the denser half of its mass."""
    ordered = np.sort(field.ravel())[::-1]
    half = ordered[np.searchsorted(ordered.cumsum(), ordered.sum() / 2)]
    return np.asarray(1 - np.exp(-1.8 * field / max(half, 1e-300)))


@dataclass
class Callout:
    """A cluster and the examples closest to it: their pictures, or where there are none their names."""

    centre: np.ndarray  # (2,) on the map
    labels: list[int]  # classes of the examples
    pictures: np.ndarray | None  # (n, side, side, 3) bytes
    names: list[str]


@dataclass
class DensityMap:
    """One panel: what it shows, and where everything lies."""

    title: str
    positions: np.ndarray  # (n, 2)
    labels: np.ndarray  # (n,)
    centres: np.ndarray  # (J, 2)
    callouts: list[Callout] = field(default_factory=list)


def draw_density_maps(maps: list[DensityMap], names: list[str], path: Path, *, title: str) -> Path:
    """Write the maps side by side; ``names`` are the names of the classes."""
    rim = 0.29 if any(panel.callouts for panel in maps) else 0.0
    figure, axes = _panels(len(maps), 1, rim, names, title, clusters=True)
    for axis, panel in zip(axes, maps, strict=True):
        frame = _draw_fields(axis, panel, len(names), 1.0)
        axis.scatter(*frame.unit(panel.centres).T, c="white", s=20, edgecolors="#222222", linewidths=0.7, zorder=3)
        axis.text(0.5, 1 + rim + 0.02, plain(panel.title), ha="center", va="bottom", fontsize=14)
        _draw_callouts(axis, panel.callouts, frame, class_colours(len(names)))
    return save_figure(figure, path)


def draw_attribute_maps(
    maps: list[DensityMap], names: list[str], attributes: dict[str, np.ndarray], path: Path, *, title: str
) -> Path:
    """The maps under a veil, and over them in orange the examples that have an attribute: a row an attribute.

    ``attributes`` are by name (n,): which of the examples have it, in the order of every map.
    """
    figure, axes = _panels(len(maps), len(attributes), 0.0, names, title, clusters=False)
    for row, (name, has) in enumerate(attributes.items()):
        for axis, panel in zip(axes[row * len(maps) :], maps, strict=False):
            frame = _draw_fields(axis, panel, len(names), 0.4)
            _show(axis, attribute_field(panel.positions, has, frame))
            shown = f"{plain(panel.title)}: {plain(name, 40)}"
            axis.text(0.5, 1.02, shown, ha="center", va="bottom", fontsize=13)
    return save_figure(figure, path)


def _panels(columns: int, rows: int, rim: float, names: list[str], title: str, *, clusters: bool) -> tuple[Any, Any]:
    """A figure with empty panels in whose coordinates the map is 0..1 and the rim lies above and below it."""
    width, high = PANEL * columns, PANEL * (1.1 + 2 * rim)
    handles, labels, wide = class_legend(names, width - 0.4)
    if clusters:
        handles.append(dot("white", "#222222"))
        labels.append("cluster centre")
    else:
        handles.append(dot(ATTRIBUTE))
        labels.append("has the attribute")
    legend = LEGEND_ROW * -(-len(handles) // wide) + 0.25
    height = TITLE + rows * high + legend
    figure = pyplot().figure(figsize=(width, height))
    figure.suptitle(plain(title, 200), fontsize=16, y=1 - 0.22 / height, va="top")
    figure.legend(
        handles, labels, loc="lower center", ncols=min(wide, len(handles)), frameon=False, handletextpad=0.1,
        columnspacing=1.2, fontsize=11,
    )  # fmt: skip
    axes = []
    for row in range(rows):
        for column in range(columns):
            bottom = legend + (rows - 1 - row) * high
            axis = figure.add_axes((column / columns, bottom / height, 1 / columns, high / height))
            axis.set(xlim=(-0.02, 1.02), ylim=(-rim, 1 + rim + 0.1), aspect="equal")
            axis.axis("off")
            axes.append(axis)
    return figure, axes


def _draw_fields(axis: Any, panel: DensityMap, classes: int, strength: float) -> Frame:
    frame = Frame.around(np.concatenate([panel.positions, panel.centres]))
    fields = class_fields(panel.positions, panel.labels, classes, frame)
    fields[..., 3] *= strength
    _show(axis, fields)
    return frame


def _draw_callouts(axis: Any, callouts: list[Callout], frame: Frame, colours: np.ndarray) -> None:
    """Callouts above and below, each on the side and in the order in which its cluster lies, so that few cross."""
    at = frame.unit(np.array([callout.centre for callout in callouts]).reshape(-1, 2))
    upwards = np.argsort(-at[:, 1], kind="stable")
    half = -(-len(callouts) // 2)
    sides = ((upwards[:half], 1.05, 1.0), (upwards[half:], -0.05, -1.0))
    letters = iter("abcdefghijklmnopqrstuvwxyz")  # as in the paper's figure
    for chosen, edge, away in sides:
        for slot, number in enumerate(sorted(chosen, key=lambda i: at[i, 0])):
            x = (slot + 0.5) / max(len(chosen), 1)
            axis.annotate(
                "", (x, edge), at[number],
                arrowprops={"arrowstyle": "-|>", "color": ARROW, "linewidth": 1.3, "shrinkA": 3, "shrinkB": 1},
            )  # fmt: skip
            axis.scatter(*at[number], c="white", s=34, edgecolors=ARROW, linewidths=1.6, zorder=4)
            _draw_examples(axis, callouts[number], f"({next(letters)})", x, edge + away * 0.005, away, colours)


def _draw_examples(
    axis: Any, callout: Callout, letter: str, x: float, edge: float, away: float, colours: np.ndarray
) -> None:
    """Four pictures in a square, or some names, between ``edge`` and the border that lies ``away`` from the map."""
    gap, side = 0.006, CALLOUT_SIDE
    top = edge + 2 * side + gap if away > 0 else edge
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
    axis.text(x - side, top - 0.006, letter, ha="left", va="top", fontsize=9, color=ARROW, bbox=paper, zorder=7)
    if callout.pictures is None:
        for line, (name, label) in enumerate(zip(callout.names, callout.labels, strict=True)):
            y = top - 0.045 * (line + 1)
            axis.text(
                x - side, y, plain(name, 19), ha="left", va="top", fontsize=7.5, color=tuple(0.75 * colours[label])
            )
        return
    for number, (picture, label) in enumerate(zip(callout.pictures, callout.labels, strict=True)):
        left = x - side - gap / 2 + (number % 2) * (side + gap)
        bottom = top - side - (number // 2) * (side + gap)
        where = (left, left + side, bottom, bottom + side)
        axis.imshow(picture, extent=where, interpolation="antialiased", zorder=5)
        x_edge = [left, left + side, left + side, left, left]
        y_edge = [bottom, bottom, bottom + side, bottom + side, bottom]
        axis.plot(x_edge, y_edge, color=tuple(colours[label]), linewidth=2.2, zorder=6, solid_joinstyle="miter")


def _show(axis: Any, picture: np.ndarray) -> None:
    """An RGBA picture (rows from the bottom up) over the map."""
    axis.imshow(picture, extent=(0, 1, 0, 1), origin="lower", interpolation="bilinear")


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
