"""The sections of the page, in the order in which a reader wants them."""

from collections.abc import Sequence

from magnet.report.summary.attributes import attribute_table, draw_attributes, each_attribute, with_attributes
from magnet.report.summary.canvas import Figure
from magnet.report.summary.confusions import confusion_table
from magnet.report.summary.curves import draw_curves
from magnet.report.summary.errors import draw_errors, error_table
from magnet.report.summary.markup import Markup, element, join
from magnet.report.summary.overview import comparable
from magnet.report.summary.run_names import named
from magnet.report.summary.settings import settings_tables
from magnet.report.summary.stories import Story
from magnet.report.summary.times import draw_times, legend, time_table

Section = tuple[str, Markup, list[Figure]]  # heading, content, the figures in it


def sections(stories: Sequence[Story]) -> list[Section]:
    """All sections that there is anything to say in."""
    made = [_errors(stories), _curves(stories), _confusions(stories), _attributes(stories), _times(stories)]
    return [*(section for section in made if section), ("Configuration", settings_tables(stories), [])]


def _errors(stories: Sequence[Story]) -> Section:
    drawn = draw_errors(stories)
    if drawn is None:
        return "Errors", _caption("No run could be evaluated; the reasons are given above."), []
    notes = (
        "± is one standard error from the number of test examples; it says nothing of other seeds. recall@1 and MAP@R: "
        "retrieval among the test examples. Calibration: expected calibration error of the method's own rule, after "
        "its temperature."
    )
    if any(story.findings and story.findings.evaluation["views"] > 1 for story in stories):
        notes += (
            " Plain view: the centre of an image alone, as the explorer and an ONNX file see it; all else is of the "
            "mean of the test views."
        )
    return "Errors", join([show(drawn), error_table(stories, comparable(stories)), _caption(notes)]), [drawn]


def _curves(stories: Sequence[Story]) -> Section:
    drawn = draw_curves(stories)
    figures = [curve for curve in drawn if isinstance(curve, Figure)]
    content = element("div", *(show(figure) for figure in figures), kind="grid")
    missing = [_caption(curve) for curve in drawn if isinstance(curve, str)]
    return "Curves", join([_legend(stories), content, *missing]), figures


def _confusions(stories: Sequence[Story]) -> Section | None:
    measured = [(number, story.findings) for number, story in enumerate(stories) if story.findings]
    if not measured:
        return None
    parts: list[object] = [
        _caption(
            "Impostor clusters: the clusters of other classes nearest to any cluster of the class. Distances between "
            "the two centres are in units of the run's own σ. After the class: the number of its cluster ↔ that of "
            "the own one, with their training examples in brackets."
        )
    ]
    for number, findings in measured:
        parts += [element("h3", named(stories, number)), element("div", confusion_table(findings), kind="confusions")]
    return "Worst confused classes", join(parts), []


def _attributes(stories: Sequence[Story]) -> Section | None:
    if not with_attributes(stories):
        return None
    figures = draw_attributes(stories)
    grid = element("div", *(show(figure) for figure in figures), kind="grid")
    return (
        "Attributes",
        join([_legend(stories), grid, attribute_table(stories), each_attribute(stories)]),
        figures,
    )


def _times(stories: Sequence[Story]) -> Section:
    drawn = draw_times(stories)
    if drawn is None:
        return "Time", _caption("No times were noted."), []
    keys = [
        element("span", element("span", "", kind="swatch", style=f"--own: {shade}"), name, kind="run")
        for name, shade in legend()
    ]
    return "Time", join([element("p", *keys, kind="legend"), show(drawn), time_table(stories)]), [drawn]


def show(figure: Figure) -> Markup:
    """A figure in the page."""
    caption = element("figcaption", element("b", figure.title), element("span", figure.caption))
    return element("figure", caption, Markup(figure.svg))


def _legend(stories: Sequence[Story]) -> Markup:
    return element("p", *(named(stories, number) for number in range(len(stories))), kind="legend")


def _caption(words: str) -> Markup:
    return element("p", words, kind="caption")
