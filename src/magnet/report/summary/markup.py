"""HTML from text that anybody may have written, with numbers and names as people read them."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

from magnet.report.plots import COLOURS
from magnet.report.summary.findings import Story

RULES = {"knc": "kNC", "knn": "soft kNN", "head": "own head"}


class Markup(str):
    """HTML that this package made itself."""


def text(words: object) -> Markup:
    """Words as they are: no markup in them acts, and no control character."""
    if isinstance(words, Markup):
        return words
    shown = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(words))
    return Markup(html.escape(shown))


def breakable(name: object) -> Markup:
    """A name that is rather broken after an underscore than anywhere."""
    return Markup(text(name).replace("_", "_<wbr>"))


def join(parts: Iterable[object]) -> Markup:
    """Several pieces, one after the other."""
    return Markup("".join(text(part) for part in parts))


def element(name: str, *content: object, **attributes: object) -> Markup:
    """An element. Attributes are escaped too; ``kind`` is its class."""
    if "kind" in attributes:
        attributes["class"] = attributes.pop("kind")
    given = "".join(f' {key}="{text(value)}"' for key, value in attributes.items() if value not in (None, ""))
    return Markup(f"<{name}{given}>{join(content)}</{name}>")


def table(head: Sequence[object], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()) -> Markup:
    """A table that scrolls by itself where it is too wide; the columns ``numbers`` are set to the right."""
    kinds = ["number" if place in numbers else "" for place in range(len(head))]
    top = element("tr", *(element("th", cell, kind=kind) for cell, kind in zip(head, kinds, strict=True)))
    body = [_row(row, kinds) for row in rows]
    return element("div", element("table", element("thead", top), element("tbody", *body)), kind="wide")


def fold(summary: object, *content: object) -> Markup:
    """Content that is there for those who ask."""
    return element("details", element("summary", summary), *content)


def swatch(number: int, colours: int) -> Markup:
    """A dot in the colour of a run."""
    return Markup(f'<span class="swatch" style="--own: var(--run-{number % colours})"></span>')


def _row(cells: Sequence[Any], kinds: Sequence[str]) -> Markup:
    return element("tr", *(element("td", cell, kind=kind) for cell, kind in zip(cells, kinds, strict=True)))


def percent(share: float | None, digits: int = 1) -> str:
    """A fraction."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def duration(seconds: float) -> str:
    """A time that may be short or long."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def of_views(evaluations: Iterable[dict[str, Any]]) -> str:
    """Which views of images errors are of, to follow a comma; nothing where there is one view only, as of vectors."""
    counts = sorted({found["views"] for found in evaluations})
    return "" if counts == [1] else f", mean of {listed([str(count) for count in counts])} test views of each image"


def named(stories: Sequence[Story], number: int) -> Markup:
    """The run at a place among the others."""
    return element("span", swatch(number, len(COLOURS)), stories[number].name, kind="run")
