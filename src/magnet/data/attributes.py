"""Attribute tables: what is known of each example beside its class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from magnet.errors import UserError

UNKNOWN = ("", "nan", "?")
MOST_VALUES = 100


@dataclass
class Attributes:
    """Binary attributes. ``values`` is float32 (N, A): 1 has it, 0 has it not, nan unknown.

    ``level`` says whether the annotation was made for each image or once for a whole class.
    """

    names: list[str]
    values: np.ndarray
    level: Literal["image", "class"]

    def keep(self, rows: np.ndarray) -> Attributes:
        """The same attributes of the examples at ``rows``."""
        return Attributes(self.names, self.values[rows], self.level)


def from_table(table: np.ndarray, names: Sequence[str] | None, examples: int) -> Attributes:
    """One-hot a categorical table (N, A) of strings or numbers; a 0/1 column stays one binary attribute.

    Empty strings, "?" and nan mean unknown, in all attributes that come of that column.
    """
    table = np.asarray(table)
    if table.ndim != 2 or len(table) != examples:
        raise UserError(f"attributes has shape {table.shape}, expected ({examples}, A): one row an example.")
    columns = _names(names, table.shape[1])
    found = [_one_hot(table[:, a], columns[a]) for a in range(table.shape[1])]
    return Attributes(
        names=[name for some, _ in found for name in some],
        values=np.concatenate([values for _, values in found], axis=1)
        if found
        else np.zeros((examples, 0), np.float32),
        level="image",
    )


def from_classes(percent: np.ndarray, names: Sequence[str] | None, labels: np.ndarray) -> Attributes:
    """Attributes of classes (C, A) in percent of agreement; an example has what its class has at 50 or more."""
    percent = np.asarray(percent, dtype=np.float32)
    if percent.ndim != 2 or len(percent) <= int(labels.max(initial=0)):
        raise UserError(
            f"class_attributes has shape {percent.shape}, expected ({int(labels.max(initial=0)) + 1}, A): "
            "one row a class."
        )
    binary = np.where(np.isnan(percent), np.nan, percent >= 50).astype(np.float32)
    return Attributes(_names(names, percent.shape[1]), binary[labels], "class")


def _names(names: Sequence[str] | None, columns: int) -> list[str]:
    if names is None:
        return [f"attribute {a}" for a in range(columns)]
    if len(names) != columns:
        raise UserError(f"attribute_names holds {len(names)} names, but the table has {columns} columns.")
    return [str(name) for name in names]


def _one_hot(column: np.ndarray, name: str) -> tuple[list[str], np.ndarray]:
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float32)
        unknown = np.isnan(numbers)
        if np.isin(numbers[~unknown], (0, 1)).all():
            return [name], numbers[:, None]
        column = np.array([f"{value:g}" for value in numbers])
    else:
        column = np.char.strip(column.astype(str))
        unknown = np.isin(np.char.lower(column), UNKNOWN)
    categories = np.unique(column[~unknown])
    if len(categories) > MOST_VALUES:
        raise UserError(
            f"attribute {name!r} has {len(categories)} different values; attributes are categories, "
            f"at most {MOST_VALUES}. Bin it or leave it out."
        )
    values = (column[:, None] == categories[None, :]).astype(np.float32)
    values[unknown] = np.nan
    return [f"{name}={category}" for category in categories], values
