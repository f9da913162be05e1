"""Errors of all runs under each classifier, and the classes that go wrong most."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

from magnet.report.summary.canvas import INK, Figure, canvas, colour, line_style
from magnet.report.summary.findings import Findings, Story
from magnet.report.summary.markup import RULES, Markup, breakable, element, join, named, of_views, percent, table


def draw_errors(stories: Sequence[Story]) -> Figure | None:
    """A group of bars for each classifier, a bar for each run that has it; the line on a bar is one standard error."""
    measured = _measured(stories)
    rules = [rule for rule in RULES if any(rule in found for _, found in measured)]
    if not rules:
        return None
    caption = f"Error on the test part{of_views(found for _, found in measured)}. The line on a bar is one standard "
    caption += "error, from the number of test examples."
    legend = [(stories[number].name, line_style(number) | {"linewidth": 6}) for number, _ in measured]
    width = min(0.8 / len(measured), 0.3)
    with canvas("errors", "Error under each classifier", caption, legend, size=(7.2, 2.6)) as made:
        axis = made.axis
        for place, (number, found) in enumerate(measured):
            for group, rule in enumerate(rules):
                if rule not in found:
                    continue
                error, at = found[rule]["error"], group + (place - (len(measured) - 1) / 2) * width
                spread = 100 * standard_error(error, found["n"])
                axis.bar(at, 100 * error, width * 0.9, color=colour(number), linewidth=0)
                axis.errorbar(at, 100 * error, spread, color=INK, linewidth=1, capsize=0)
                axis.annotate(
                    f"{100 * error:.1f}", (at, 100 * error + spread), (0, 2), textcoords="offset points",
                    ha="center", fontsize=8,
                )  # fmt: skip
        axis.set_xticks(range(len(rules)), [RULES[rule] for rule in rules])
        axis.set_xlim(-0.5, len(rules) - 0.5)
        axis.grid(axis="x", visible=False)
        axis.yaxis.set_major_formatter("{x:g} %")
        axis.margins(y=0.12)
    return made.figure


def error_table(stories: Sequence[Story], comparable: bool) -> Markup:
    """The same in numbers, with what else was measured; the best of a column is bold where runs can be compared."""
    measured = _measured(stories)
    columns: dict[str, tuple[str, ...]] = {RULES[rule]: (rule, "error") for rule in RULES}
    if any(found["views"] > 1 for _, found in measured):
        columns |= {f"{RULES[rule]}, plain view": ("plain", rule, "error") for rule in RULES}
    columns |= {
        "kNC, top 5": ("knc", "error@5"),
        "recall@1": ("retrieval", "recall@1"),
        "MAP@R": ("retrieval", "map@r"),
        "calibration": ("", "ece_calibrated"),
    }
    best: dict[str, float] = {}
    for name, path in columns.items():
        values = [value for _, found in measured if (value := _value(found, path)) is not None]
        if comparable and len(measured) > 1 and values:
            best[name] = max(values) if path[0] == "retrieval" else min(values)
    rows = []
    for number, found in measured:
        cells: list[object] = [named(stories, number)]
        for name, path in columns.items():
            value, spread = _value(found, path), path[-1] == "error"
            shown = join(_with_spread(value, found["n"]) if spread and value is not None else [percent(value)])
            cells.append(element("strong", shown) if value is not None and value == best.get(name) else shown)
        rows.append([*cells, f"{found['n']:,}"])
    head = ["run", *columns, "examples"]
    return table(head, rows, numbers=range(1, len(head)))


def standard_error(share: float, count: int) -> float:
    """Of a share among so many examples."""
    return sqrt(share * (1 - share) / count)


def _with_spread(value: float, count: int) -> list[object]:
    return [percent(value), element("small", f" ± {100 * standard_error(value, count):.1f}")]


def _measured(stories: Sequence[Story]) -> list[tuple[int, dict[str, Any]]]:
    return [(number, story.findings.evaluation) for number, story in enumerate(stories) if story.findings]


def _value(found: dict[str, Any], path: tuple[str, ...]) -> float | None:
    """A number of the evaluation by the keys that lead to it; "" stands for the rule that the method is judged by."""
    value: Any = found
    for key in path:
        value = (value or {}).get(key or found["rule"])
    return None if value is None else float(value)


def confusion_table(findings: Findings) -> Markup:
    """One row a class, the worst first."""
    found = findings.evaluation
    rule = RULES.get(found["rule"], found["rule"])
    if not found["worst"]:
        return element("p", f"No test example gets a wrong label under {rule}.")
    most = float(found["worst"][0]["error"])
    rows = [
        [
            element("b", breakable(row["class"])),
            element("span", percent(row["error"]), kind="meter", style=f"--share: {row['error'] / most:.4f}"),
            f"{row['n']:,}",
            join(element("div", breakable(mistake["class"]), _times(mistake["n"])) for mistake in row["taken_for"]),
            join(_rival(rival) for rival in findings.impostors.get(row["class"], [])),
        ]
        for row in found["worst"]
    ]
    head = ["class", f"error ({rule})", "of", "taken for", "nearest impostor clusters"]
    return table(head, rows, numbers=(1, 2))


def _times(count: int) -> Markup:
    return element("small", f" {count} times" if count > 1 else " once")


def _rival(rival: dict[str, Any]) -> Markup:
    distance = element("span", f"{rival['distance']:.2f} σ", kind="distance")
    clusters = f" #{rival['cluster']} ({rival['size']:,}) ↔ #{rival['own']} ({rival['own_size']:,})"
    return element("div", distance, breakable(rival["class"]), element("small", clusters))
