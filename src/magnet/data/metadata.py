"""A folder of images with a table of what they are: ``metadata.csv`` or ``metadata.jsonl``, as Hugging Face has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from magnet.data.columns import Roles, assign
from magnet.data.listings import PARTS, Labelling, Listing, list_files, number_labels
from magnet.data.tables import csv_columns, list_images, read_rows
from magnet.errors import UserError

FILES = ("metadata.csv", "metadata.jsonl")


def find_metadata(folder: Path) -> dict[Path, int | None]:
    """The tables of a folder and the parts that they are of: its own, or those of its folders train, val and test."""
    own = [folder / name for name in FILES if (folder / name).is_file()]
    if own:
        return {own[0]: None}
    return {
        place / name: part
        for place, part in ((folder / word, part) for word, part in PARTS.items())
        for name in FILES
        if (place / name).is_file()
    }


def metadata_columns(folder: Path) -> list[str]:
    """The names of the columns."""
    table = next(iter(find_metadata(folder)))
    return csv_columns(table) if table.suffix == ".csv" else list(_read_jsonl(table))


def check_metadata(folder: Path, label: str = "", judge: str = "") -> Roles:
    """What the columns are for; raises where the labels or the files have none."""
    table = next(iter(find_metadata(folder)))
    roles = assign(metadata_columns(folder), str(table), label=label, judge=judge)
    if roles.file is None:
        raise UserError(f"{table}: found no column file_name among {', '.join(metadata_columns(folder))}.")
    return roles


def list_metadata(folder: Path, label: str = "", judge: str = "") -> Listing:
    """The images that the tables name; their paths are relative to the table."""
    roles = check_metadata(folder, label, judge)
    found = [
        (list_images(_read(table, roles), roles, table), part, table) for table, part in find_metadata(folder).items()
    ]
    if len(found) == 1:
        listing, _, _ = found[0]
        listing.name = folder.resolve().name
        return listing
    return _joined(folder, found)


def _joined(folder: Path, found: list[tuple[Listing, int | None, Path]]) -> Listing:
    """One listing of the parts train, validation and test."""
    files = [file for listing, _, _ in found for file in listing.content if isinstance(file, Path)]
    words = [listing.classes[i] for listing, _, _ in found for i in listing.labels]
    split = np.concatenate([np.full(len(listing.names), part, np.int8) for listing, part, _ in found])
    joined = list_files(folder.resolve().name, files, words, root=folder, split=split)
    if all(listing.judge is not None for listing, _, _ in found):
        joined.judge = _join_labels([listing.judge for listing, _, _ in found if listing.judge is not None])
    return joined


def _join_labels(parts: list[Labelling]) -> Labelling:
    return number_labels([part.classes[i] for part in parts for i in part.labels])


def _read(table: Path, roles: Roles) -> Mapping[str, list[str]]:
    return read_rows(table, roles) if table.suffix == ".csv" else _read_jsonl(table)


def _read_jsonl(table: Path) -> dict[str, list[str]]:
    """The columns of a file with an object of JSON in each line, as text."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(table.read_text(encoding="utf-8-sig").splitlines(), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise UserError(f"{table}, line {number}: cannot be read as JSON ({error}).") from error
            if not isinstance(rows[-1], dict):
                raise UserError(f"{table}, line {number}: found no names and values.")
    return {str(name): [str(row.get(name, "")) for row in rows] for name in (rows[0] if rows else {})}
