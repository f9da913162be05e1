"""Maps of densities (the paper's figures 2 and 5): classes as soft fields, clusters as dots, examples at the rim."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from magnet.report.plots import (
    ARROW,
    ATTRIBUTE,
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
THUMBNAIL = 0.104  # side, as a share of the map's


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
    gap, side = 0.006, THUMBNAIL
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
