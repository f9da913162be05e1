"""Attribute precision: the fraction of neighbours that share an attribute, by the size of the neighbourhood."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from magnet.report.summary.canvas import INK, Figure, canvas, line_style
from magnet.report.summary.findings import Story
from magnet.report.summary.markup import Markup, fold, named, percent, table

SHOWN = (1, 8, 32, 128)  # sizes in the table
MOST = 400  # attributes listed one by one


def with_attributes(stories: Sequence[Story]) -> list[tuple[int, dict[str, Any]]]:
    """The runs whose data has attributes, by number."""
    return [
        (number, story.findings.attributes)
        for number, story in enumerate(stories)
        if story.findings and story.findings.attributes
    ]


def draw_attributes(stories: Sequence[Story]) -> list[Figure]:
    """Mean precision against the size of the neighbourhood; and within the classes, as a lift over their own rate."""
    measured = with_attributes(stories)
    if not measured:
        return []
    by_class = [found["level"] == "class" for _, found in measured]
    whose = "neighbours of other classes" if all(by_class) else "neighbours"
    caption = f"Mean fraction of the nearest {whose} that share an attribute. Dotted: {whose} drawn by lot."
    figures = [_draw("attributes", "Attribute precision", caption, stories, measured, "all")]
    inside = [(number, found) for number, found in measured if found["within"]]
    if inside:
        caption = (
            "Of the nearest neighbours of the same class, the fraction that share an attribute, divided by the rate in "
            "the class. 1 is chance: above it, the space orders a class by its attributes."
        )
        figures.append(_draw("attribute-lift", "Lift within the class", caption, stories, inside, "within"))
    return figures


def attribute_table(stories: Sequence[Story]) -> Markup:
    """The means in numbers."""
    rows = []
    measured = with_attributes(stories)
    lifts = any(found["within"] for _, found in measured)
    for number, found in measured:
        at = [found["sizes"].index(size) for size in SHOWN]
        cells = [percent(found["all"]["precision"][place]) for place in at]
        within = found["within"]
        more = [f"{within['lift'][place]:.3f}" if within and within["lift"][place] else "–" for place in at[:3]]
        spoken = sum(count > 0 for count in found["all"]["counts"])
        rows.append(
            [named(stories, number), f"{spoken}", *cells, percent(found["all"]["base"]), *(more if lifts else [])]
        )
    head = ["run", "attributes", *(f"of {size}" for size in SHOWN), "by lot"]
    head += [f"lift in class, of {size}" for size in SHOWN[:3]] if lifts else []
    return table(head, rows, numbers=range(1, len(head)))


def each_attribute(stories: Sequence[Story]) -> Markup:
    """All attributes, for those who ask; runs on the same attributes side by side, the best gain over chance first."""
    groups: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for number, found in with_attributes(stories):
        groups.setdefault(tuple(found["names"]), []).append((number, found))
    return Markup("".join(_each(stories, list(names), group) for names, group in groups.items()))


def _each(stories: Sequence[Story], names: list[str], group: list[tuple[int, dict[str, Any]]]) -> Markup:
    first = group[0][1]["all"]
    place = group[0][1]["sizes"].index(8)
    spoken = [a for a in range(len(names)) if all(found["all"]["counts"][a] for _, found in group)]

    def gain(a: int) -> float:
        return float(np.mean([found["all"]["per_attribute"][a][place] for _, found in group])) - (
            first["chance"][a] or 0
        )

    rows = [
        [
            names[a],
            f"{first['counts'][a]:,}",
            percent(first["chance"][a]),
            *(percent(found["all"]["per_attribute"][a][place]) for _, found in group),
        ]
        for a in sorted(spoken, key=gain, reverse=True)[:MOST]
    ]
    head = ["attribute", "examples", "by lot", *(named(stories, number) for number, _ in group)]
    left_out = f", of which {MOST} are shown" if len(spoken) > MOST else ""
    title = f"Each of the {len(spoken)} attributes: precision among the nearest 8{left_out}"
    return fold(title, table(head, rows, numbers=range(1, len(head))))


def _draw(
    name: str, title: str, caption: str, stories: Sequence[Story], measured: list[tuple[int, dict[str, Any]]], part: str
) -> Figure:
    legend = [(stories[number].name, line_style(number)) for number, _ in measured]
    with canvas(name, title, caption, legend) as made:
        axis = made.axis
        for number, found in measured:
            values = found[part]["precision" if part == "all" else "lift"]
            heights = np.array([np.nan if value is None else value for value in values])
            axis.plot(
                found["sizes"],
                heights * (100 if part == "all" else 1),
                marker="o",
                markersize=3.5,
                **line_style(number),
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks(measured[0][1]["sizes"], [str(size) for size in measured[0][1]["sizes"]])
        axis.set_xlabel("neighbours")
        if part == "all":
            for level in sorted({found["all"]["base"] for _, found in measured if found["all"]["base"] is not None}):
                axis.axhline(100 * level, color=INK, linestyle=":", linewidth=1)
            axis.yaxis.set_major_formatter("{x:g} %")
        else:
            axis.axhline(1, color=INK, linestyle=":", linewidth=1)
    return made.figure
