"""The classes that go wrong most, what they are taken for, and the impostor clusters next to them."""

from typing import Any

from magnet.report.summary.findings import Findings
from magnet.report.summary.markup import Markup, breakable, element, join, table
from magnet.report.summary.words import RULES, percent


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
