"""The configurations of the runs, with what differs between them marked."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from magnet.errors import UserError
from magnet.methods import Options, method_class
from magnet.report.summary.markup import Markup, element, fold, join, table
from magnet.report.summary.run_names import named
from magnet.report.summary.stories import Story
from magnet.training.config import TrainConfig

ALWAYS = {"clusters_per_batch", "examples_per_cluster", "clusters_per_class"}  # batches and kNC of every method
PLACES = ("out",)  # differs always, and is said elsewhere


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
