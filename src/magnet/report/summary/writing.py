"""The page and the pictures beside it, written when all of them are made."""

from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from string import Template

from magnet import __version__
from magnet.report.maps import COLOURS
from magnet.report.page import write_whole
from magnet.report.summary.markup import Markup, element, join, text
from magnet.report.summary.overview import cards, notices, title
from magnet.report.summary.sections import Section, sections
from magnet.report.summary.stories import Story

# Colours of runs that are too dark for a dark page, or too light for a light one.
ON_DARK = {"#0072B2": "#4aa3df", "#332288": "#9b8cff", "#882255": "#d9699a", "#7F7F7F": "#a8a8a8"}
ON_LIGHT = {"#F0E442": "#b8a900"}


def write_report(stories: Sequence[Story], out: Path) -> list[Path]:
    """Write ``out``, one HTML file that needs nothing else, and its figures as PNG in a folder named like it.

    Returns:
        The files written, the page last.
    """
    made = sections(stories)
    written = []
    for figure in [figure for _, _, figures in made for figure in figures]:
        path = out.with_suffix("") / f"{figure.name}.png"
        write_whole(path, figure.png)
        written.append(path)
    write_whole(out, page(stories, made))
    return [*written, out]


def page(stories: Sequence[Story], made: Sequence[Section]) -> str:
    """The text of the page."""
    assets = files(__package__) / "assets"
    body = join(element("section", element("h2", heading), content) for heading, content, _ in made)
    return Template((assets / "page.html").read_text(encoding="utf-8")).substitute(
        title=text(title(stories)),
        style=(assets / "style.css").read_text(encoding="utf-8"),
        light=_colours(ON_LIGHT),
        dark=_colours(ON_DARK),
        heading=element("h1", stories[0].name if len(stories) == 1 else f"{len(stories)} runs side by side"),
        cards=cards(stories),
        notices=notices(stories),
        body=body,
        foot=text(f"magnet {__version__}, {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}"),
    )


def _colours(instead: dict[str, str]) -> Markup:
    return Markup(" ".join(f"--run-{i}: {instead.get(shade, shade)};" for i, shade in enumerate(COLOURS)))
