"""The name of a run with the dot of its colour, as it stands everywhere in the page."""

from collections.abc import Sequence

from magnet.report.maps import COLOURS
from magnet.report.summary.markup import Markup, element, swatch
from magnet.report.summary.stories import Story


def named(stories: Sequence[Story], number: int) -> Markup:
    """The run at a place among the others."""
    return element("span", swatch(number, len(COLOURS)), stories[number].name, kind="run")
