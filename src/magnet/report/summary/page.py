"""The report: its sections, the page that holds them, and the pictures written beside it."""

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from magnet import __version__
from magnet.errors import UserError
from magnet.methods import Options, method_class
from magnet.report.html import write_whole
from magnet.report.plots import COLOURS
from magnet.report.summary.attributes import attribute_table, draw_attributes, each_attribute, with_attributes
from magnet.report.summary.canvas import Figure
from magnet.report.summary.curves import draw_curves, draw_times, time_parts, time_table
from magnet.report.summary.errors import confusion_table, draw_errors, error_table
from magnet.report.summary.findings import Story
from magnet.report.summary.markup import (
    RULES,
    Markup,
    duration,
    element,
    fold,
    join,
    listed,
    named,
    of_views,
    percent,
    swatch,
    table,
    text,
)
from magnet.training.config import TrainConfig
from magnet.training.workbench import absolute

# Colours of runs that are too dark for a dark page, or too light for a light one.
ON_DARK = {"#0072B2": "#4aa3df", "#332288": "#9b8cff", "#882255": "#d9699a", "#7F7F7F": "#a8a8a8"}
ON_LIGHT = {"#F0E442": "#b8a900"}
Section = tuple[str, Markup, list[Figure]]  # heading, content, the figures in it
ALWAYS = {"clusters_per_batch", "examples_per_cluster", "clusters_per_class"}  # batches and kNC of every method
PLACES = ("out",)  # differs always, and is said elsewhere


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
        for name, shade in time_parts()
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


def cards(stories: Sequence[Story]) -> Markup:
    """A card for each run."""
    return element("div", *(_card(story, number) for number, story in enumerate(stories)), kind="cards")


def notices(stories: Sequence[Story]) -> Markup:
    """What stands in the way of trusting or comparing the numbers."""
    said = [f"{story.name}: {note}" for story in stories for note in story.notes]
    said += [
        f"{story.name} is not finished: it stands at step {story.step:,}. "
        f"Go on with magnet train --resume {story.folder}"
        for story in stories
        if not story.finished
    ]
    said += [f"{story.name} was not evaluated: {story.trouble}." for story in stories if story.trouble]
    if not same_data(stories):
        said.append(
            "These runs were trained on different data. Their curves stand side by side, but neither curves nor "
            "errors can be compared."
        )
    elif not comparable(stories):
        said.append(
            "These runs were tested on different examples of the same data (a test part split off by another seed, "
            "merged classes, or data that changed since). Differences of their errors are partly those of the examples."
        )
    return join(element("p", sentence, kind="notice") for sentence in said)


def same_data(stories: Sequence[Story]) -> bool:
    """Whether all runs name the same data."""
    return len({absolute(story.config.data) for story in stories}) == 1


def comparable(stories: Sequence[Story]) -> bool:
    """Whether all runs that were evaluated were so on the same examples."""
    return same_data(stories) and len({story.findings.examples for story in stories if story.findings}) <= 1


def title(stories: Sequence[Story]) -> str:
    """Of the window."""
    return f"Magnet report: {listed([story.name for story in stories[:4]])}{' and more' * (len(stories) > 4)}"


def _card(story: Story, number: int) -> Markup:
    lines: list[object] = [
        element("div", swatch(number, len(COLOURS)), story.name, kind="name"),
        element("div", story.config.method, " on ", story.config.data, kind="what"),
    ]
    if story.findings:
        found = story.findings.evaluation
        error = percent(found[found["rule"]]["error"])
        about = (
            f"error of {RULES[found['rule']]} on {found['n']:,} test examples{of_views([found])}, {found['checkpoint']}"
        )
        lines += [element("div", error, kind="figure-number"), element("div", about, kind="what")]
    else:
        lines += [element("div", "–", kind="figure-number"), element("div", "not evaluated", kind="what")]
    state = "finished" if story.finished else "unfinished"
    total = duration(sum(story.seconds.values())) if story.seconds else "time unknown"
    lines.append(element("div", f"{state}, {story.step:,} steps, {total}", kind="what"))
    return element("div", *lines, kind="card", style=f"--own: var(--run-{number % len(COLOURS)})")


def settings_tables(stories: Sequence[Story]) -> Markup:
    """Several runs: what differs, then the rest. One run: what is not the paper's, then the rest."""
    names = [field.name for field in dataclasses.fields(TrainConfig) if field.name not in PLACES]
    values = [story.config.to_dict() for story in stories]
    if len(stories) == 1:
        default = TrainConfig(data="").to_dict()
        marked = [name for name in names if values[0][name] != default[name]]
        said, rest = "Settings that are not the defaults of the paper", "Settings at the defaults of the paper"
    else:
        marked = [name for name in names if len({str(value[name]) for value in values}) > 1]
        said, rest = "What differs between the runs", "What the runs have in common"
    same = [name for name in names if name not in marked]
    top = _table(stories, marked, "differs") if marked else element("p", "All settings are the same.")
    return join(
        [
            element("h3", f"{said} ({len(marked)})"),
            top,
            fold(f"{rest} ({len(same)})", _table(stories, same, "")),
            element("p", "Struck through: settings that the method does not read.", kind="caption"),
        ]
    )


def _table(stories: Sequence[Story], names: Sequence[str], kind: str) -> Markup:
    head = ["setting", *(named(stories, number) for number in range(len(stories)))]
    rows = [[element("code", name, kind=kind), *(_value(story, name) for story in stories)] for name in names]
    return table(head, rows)


def _value(story: Story, name: str) -> Markup:
    shown = _shown(story.config.to_dict()[name])
    return element("span" if _reads(story.config.method, name) else "s", shown)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in (None, ""):
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _reads(method: str, name: str) -> bool:
    """Whether a method reads a setting; of a method that is not known here, all are shown as read."""
    if name in ALWAYS or name not in {field.name for field in dataclasses.fields(Options)}:
        return True
    try:
        return name in method_class(method).uses
    except UserError:
        return True
