"""What an experiment gives: tables, figures, and all of its numbers."""

import json
import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable

from magnet.files import replacing

RESULTS = "results.json"  # in the folder of an experiment
PACKAGES = ("magnet", "torch", "numpy", "scikit-learn", "openTSNE", "pytorch-metric-learning", "timm")


@dataclass
class Table:
    """A table of text, printed on a terminal or as Markdown."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    caption: str = ""

    def rich(self) -> RichTable:
        """For a terminal."""
        table = RichTable(
            title=self.title,
            caption=self.caption or None,
            caption_justify="left",
            title_justify="left",
            box=SIMPLE_HEAD,  # and little room between columns, so that five of them fit 80 characters
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a page."""
        lines = [f"**{self.title}**", ""] if self.title else []
        lines += ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in self.rows]
        return "\n".join([*lines, *(["", self.caption] if self.caption else [])])


@dataclass
class Outcome:
    """The result of one experiment; ``values`` is ready for JSON and holds every number of the tables."""

    tables: list[Table]
    figures: list[Path] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path, about: dict[str, Any]) -> Path:
        """Write results.json, with what is needed to repeat it; figures by their names."""
        content = {
            **about,
            "versions": versions(),
            "machine": machine(),
            "tables": [vars(table) for table in self.tables],
            "figures": [figure.name for figure in self.figures],
            "values": self.values,
        }
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / RESULTS) as draft:
            draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return folder / RESULTS


def versions() -> dict[str, str]:
    """Of the packages that a result may depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """What the numbers were computed on; nothing that names the machine or its owner."""
    return {"system": platform.system(), "architecture": platform.machine(), "processors": os.cpu_count()}
