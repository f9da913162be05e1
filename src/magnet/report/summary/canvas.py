"""A figure twice: as SVG whose colours follow the page, light or dark, and as PNG that stands alone."""

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from magnet.report.plots import COLOURS, plain, pyplot

INK, FAINT = "#1f2933", "#d5dae1"  # in the PNG; in the page, the colours of its text and lines
PARTS = ("#5b6c8f", "#93a8c6", "#c39bd3", "#d9a86c", "#8fb996")  # of a whole, none of them a run's
DASHES = ("-", "--", ":", "-.")  # of runs beyond the number of colours
STYLE = {
    "font.size": 9.5, "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK,
    "ytick.color": INK, "grid.color": FAINT, "grid.linewidth": 0.7, "axes.linewidth": 0.7, "legend.frameon": False,
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A finished figure."""

    name: str  # of the file, without its ending
    title: str
    caption: str
    svg: str
    png: bytes


class Canvas:
    """One axis to draw on, and afterwards the `figure`."""

    axis: Any
    figure: Figure


def colour(number: int) -> str:
    """That of a run, by its place."""
    return COLOURS[number % len(COLOURS)].lower()


def line_style(number: int) -> dict[str, Any]:
    """How the line of a run looks; with more runs than colours, dashes tell them apart."""
    return {"color": colour(number), "linestyle": DASHES[number // len(COLOURS) % len(DASHES)], "linewidth": 1.8}


@contextmanager
def canvas(
    name: str,
    title: str,
    caption: str,
    legend: Sequence[tuple[str, dict[str, Any]]],
    *,
    size: tuple[float, float] = (5.4, 3.0),
) -> Iterator[Canvas]:
    """Draw on the ``axis`` inside; ``legend`` is drawn in the PNG only, for the page has its own.

    Args:
        name: of the file.
        title, caption: what is shown. The title is drawn in the PNG.
        legend: names, untrusted text, and how their lines look.
        size: in inches.
    """
    plt = pyplot()
    with plt.rc_context({**STYLE, "svg.hashsalt": name}):
        made = Canvas()
        sheet, made.axis = plt.subplots(figsize=size, layout="constrained")
        try:
            yield made
            svg = _svg(sheet, title)
            sheet.suptitle(title, fontsize=10.5, x=0.01, ha="left")
            if legend:
                handles = [plt.Line2D([], [], **look) for _, look in legend]
                names = [plain(label, 40) for label, _ in legend]
                columns = max(1, min(len(names), int(size[0] / (0.5 + 0.08 * max(map(len, names))))))
                sheet.legend(handles, names, loc="outside lower left", ncols=columns, fontsize=8.5)
            png = io.BytesIO()
            sheet.savefig(png, format="png", dpi=150)
            made.figure = Figure(name, title, caption, svg, png.getvalue())
        finally:
            plt.close(sheet)


def _svg(sheet: Any, title: str) -> str:
    """SVG to stand inside a page: its colours are names that the style sheet of the page gives a meaning."""
    text = io.StringIO()
    sheet.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' id="[a-z0-9A-Z]+_\d+"', "", drawn)  # the others are referred to, and salted
    drawn = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-label="{html.escape(title)}">', drawn
    )
    names = {INK: "var(--ink)", FAINT: "var(--line)"}
    names |= {shade.lower(): f"var(--run-{number})" for number, shade in enumerate(COLOURS)}
    for shade, variable in names.items():
        drawn = drawn.replace(shade, variable)
    return re.sub(r"\n\s*", "\n", drawn).strip()
