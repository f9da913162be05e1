"""What the pictures of maps share: the legend of classes, and writing the file."""

from pathlib import Path
from typing import Any

from magnet.files import replacing
from magnet.report.colours import class_colours
from magnet.report.plotting import pyplot
from magnet.report.text import plain

MOST_NAMED = 40  # classes in a legend; of more, the colours cannot be told apart anyway


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
