"""Tables: a CSV of image files or of vectors, frames of pandas or polars, and folders of images with metadata.

Metadata are a table ``metadata.csv`` or ``metadata.jsonl`` in the folder, as Hugging Face has it.
"""

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from magnet.data.arrays import list_arrays
from magnet.data.columns import VECTORS, Roles, assign, check_names, read_labels, read_split, read_test
from magnet.data.listings import PARTS, Content, Listing
from magnet.errors import UserError, first_few
from magnet.files import opened, reading

LONGEST_LINE = 2**24  # characters
WORDS = {"": np.nan, "na": np.nan, "null": np.nan, "none": np.nan, "true": 1.0, "false": 0.0}  # numbers in a CSV
FILES = ("metadata.csv", "metadata.jsonl")


def csv_columns(path: Path) -> list[str]:
    """The names of the columns of a CSV file, from its first line."""
    with _rows(path) as rows:
        return _header(rows, path)


def list_csv(path: Path, label: str = "", judge: str = "") -> Listing:
    """A CSV with a column of labels: of image files, where it has a column of paths, or of vectors otherwise.

    Paths are relative to the file. Columns ``split`` or ``test`` are the parts, ``name`` or ``id`` name the vectors.
    """
    with _rows(path) as rows:
        columns = _header(rows, path)
        roles = assign(columns, str(path), label=label, judge=judge)
        if roles.file is not None:
            return list_images(_read_text(rows, columns, roles, path), roles, path)
        found, numbers = _read_numbers(rows, columns, roles, path)
    arrays = {"X": found.pop("X"), "feature_names": np.array(numbers)}
    left_out = [name for name in roles.others if name not in numbers]
    return finish(arrays, found, roles, path.stem, str(path), left_out)


def read_vectors(path: Path) -> tuple[np.ndarray, list[str]]:
    """The numbers of a CSV of vectors, float64 (n, d), and the names of its rows, if any; it needs no labels."""
    with _rows(path) as rows:
        columns = _header(rows, path)
        roles = assign(columns, str(path), label=None)
        found, _ = _read_numbers(rows, columns, roles, path)
    return found.pop("X"), [] if roles.name is None else found[roles.name]


def list_frame(frame: Any, label: str = "", judge: str = "") -> Listing:
    """The rows of a pandas or polars frame: numbers in columns, and a column of labels."""
    frame = frame.collect() if hasattr(frame, "collect") else frame  # a lazy frame of polars
    names = check_names([str(column) for column in frame.columns], "frame")
    columns = {name: _cells(frame[column]) for name, column in zip(names, frame.columns, strict=True)}
    roles = assign(names, "frame", label=label, judge=judge)
    vector = vector_column([name for name in roles.others if columns[name].ndim == 2], "frame")
    if vector is None:
        return list_columns(columns, roles, "frame", "frame")
    return finish({"X": columns[vector]}, columns, roles, "frame", "frame", [])


def vector_column(found: Sequence[str], where: str) -> str | None:
    """The one of these columns of lists that holds the vectors; None if there are none."""
    best = [name for name in VECTORS if name in found] or list(found)
    if len(found) > 1 and best == list(found):
        raise UserError(f"{where}: {', '.join(found)} all hold lists; leave one, or call the vectors X.")
    return best[0] if best else None


def _cells(column: Any) -> np.ndarray:
    """A column of a frame: (N,), or (N, d) where all cells are lists of numbers of one length."""
    values = np.asarray(column)
    if values.dtype != object or not len(values) or not isinstance(values[0], list | tuple | np.ndarray):
        return values
    lengths = {np.shape(value) for value in values}
    if len(lengths) > 1:
        some = ", ".join(map(str, sorted(lengths)[:3]))
        raise UserError(f"frame: the lists in {getattr(column, 'name', '')} have shapes {some}; expected one length.")
    return np.stack([np.asarray(value) for value in values])


def list_columns(
    columns: Mapping[str, Any], roles: Roles, name: str, where: str, classes: Mapping[str, Sequence[str]] | None = None
) -> Listing:
    """Vectors, one number from each column (N,) of numbers; other columns are left out, which the listing notes.

    Args:
        columns: by name.
        roles: what they are for.
        name: of the listing.
        where: the name of the table in messages.
        classes: names of the classes of columns of numbered labels.
    """
    X, numbers = stack_numbers(columns, roles, where)
    arrays = {"X": X, "feature_names": np.array(numbers)}
    return finish(arrays, columns, roles, name, where, [c for c in roles.others if c not in numbers], classes)


def stack_numbers(columns: Mapping[str, Any], roles: Roles, where: str) -> tuple[np.ndarray, list[str]]:
    """Vectors (N, d), float32 or float64, from the columns (N,) that are numbers, and the names of these columns."""
    given = {column: np.asarray(columns[column]) for column in roles.others}
    numbers = [column for column, values in given.items() if values.ndim == 1 and values.dtype.kind in "biuf"]
    if not numbers:
        raise no_numbers(where, roles)
    kind = np.result_type(np.float32, *(given[column].dtype for column in numbers))
    return np.stack([given[column].astype(kind, copy=False) for column in numbers], axis=1), numbers


def finish(
    arrays: dict[str, Any],
    columns: Mapping[str, Any],
    roles: Roles,
    name: str,
    where: str,
    left_out: Sequence[str],
    classes: Mapping[str, Sequence[str]] | None = None,
) -> Listing:
    """The listing of vectors ``X`` among ``arrays`` with labels, parts and names from the columns of a table."""
    called = {"y": roles.label, "judge": roles.judge, "name": roles.name, "split": roles.split, "test": roles.test}
    for key, column in called.items():
        if column is not None:
            arrays[key] = np.asarray(columns[column])
    for key, column in {"classes": roles.label, "judge_classes": roles.judge}.items():
        if classes and column is not None and column in classes:
            arrays[key] = np.array(list(classes[column]))
    given = {key: column for key, column in called.items() if column is not None}
    listing = list_arrays(arrays, where, given)  # which refuses what is lost in float32
    listing.name, listing.content = name, arrays["X"].astype(np.float32, copy=False)
    if left_out:
        listing.notes.append(f"columns left out, because they are not numbers: {first_few(left_out, 5)}")
    return listing


def no_numbers(where: str, roles: Roles) -> UserError:
    """The error for a table that has labels, but neither images nor vectors."""
    found = ", ".join([*filter(None, [roles.label]), *roles.others][:8])
    return UserError(f"{where}: found the columns {found}; expected numbers beside the labels, or a column path.")


def folder_of(table: Path) -> Path:
    """The folder that paths in a table are relative to: the table's own, which may be several files in one."""
    return table if table.is_dir() else table.parent


def list_images(
    rows: Mapping[str, Any], roles: Roles, path: Path, classes: Mapping[str, Sequence[str]] | None = None
) -> Listing:
    """Image files by the columns of a table; paths are relative to its folder."""
    assert roles.file is not None
    root = folder_of(path)
    files = [root / str(name) for name in rows[roles.file]]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        more = f" For vectors, call the column {roles.file} name instead." if roles.others else ""
        raise UserError(
            f"{path}: {len(missing)} of {len(files)} images do not exist, as {', '.join(missing[:3])}; "
            f"paths are taken relative to {root}.{more}"
        )
    prefix = f"{root}{os.sep}"
    names = [str(file).removeprefix(prefix) for file in files]
    return list_content(path.stem, files, names, rows, roles, str(path), classes)


def list_content(
    name: str,
    content: Content,
    names: Sequence[str],
    columns: Mapping[str, Any],
    roles: Roles,
    where: str,
    classes: Mapping[str, Sequence[str]] | None = None,
) -> Listing:
    """The listing of images with labels and parts from the columns of a table."""
    assert roles.label is not None
    named = classes or {}
    labels = read_labels(columns[roles.label], f"{where}: {roles.label}", named.get(roles.label))
    judge = None
    if roles.judge is not None:
        judge = read_labels(columns[roles.judge], f"{where}: {roles.judge}", named.get(roles.judge))
    split = None
    if roles.split is not None:
        split = read_split(columns[roles.split], where)
    elif roles.test is not None:
        split = read_test(columns[roles.test], where)
    return Listing(name, content, labels.labels, labels.classes, names, split=split, judge=judge)


@contextmanager
def _rows(path: Path) -> Iterator[Any]:
    """The rows of a CSV file, a reader of the csv module."""
    with (
        reading(path, "a CSV file in UTF-8"),
        opened(path) as file,
        io.TextIOWrapper(file, newline="", encoding="utf-8-sig") as stream,
    ):
        lines = _lines(stream, path)
        first = next(lines, "")
        # Commas, or what spreadsheets write where the comma is for decimals.
        delimiter = max(",;\t", key=first.count)
        rows = csv.reader(chain([first], lines), skipinitialspace=True, delimiter=delimiter, strict=True)
        try:
            yield rows
        except csv.Error as error:
            raise UserError(f"{path}, line {rows.line_num}: {error}; is a quotation mark left open?") from error


def _lines(stream: io.TextIOWrapper, path: Path) -> Iterator[str]:
    """The lines of a file, none of which may be so long that it fills the memory."""
    while line := stream.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise UserError(f"{path}: has a line of {LONGEST_LINE:,} characters or more, which is no row of a table.")
        yield line


def _header(rows: Any, path: Path) -> list[str]:
    columns = [name.strip() for name in next(rows, [])]
    if any(columns) and all(_number(name) is not None for name in columns):
        raise UserError(f"{path}: the first line holds numbers; expected the names of the columns there.")
    return check_names(columns, str(path))


def _read_text(rows: Any, columns: list[str], roles: Roles, path: Path) -> dict[str, list[str]]:
    """The columns of a table of image files, as text."""
    assert roles.file is not None
    assert roles.label is not None
    named = (roles.file, roles.label, roles.judge, roles.split, roles.test)
    wanted = [name for name in named if name is not None]
    absent = [name for name in wanted if name not in columns]
    if absent:
        raise UserError(f"{path}: found no column {absent[0]} among {', '.join(columns)}.")
    found: dict[str, list[str]] = {name: [] for name in wanted}
    for row in rows:
        if not row:
            continue
        cells = dict(zip(columns, row, strict=False))
        for name in wanted:
            found[name].append(cells.get(name, "").strip())
        file, label = found[roles.file][-1], found[roles.label][-1]
        if not file or not label:
            raise UserError(f"{path}, line {rows.line_num}: path {file!r}, label {label!r}; both are needed.")
    return found


def _read_numbers(rows: Any, columns: list[str], roles: Roles, path: Path) -> tuple[dict[str, Any], list[str]]:
    """The columns of a table of vectors: ``X`` float64 (n, d), the others as text; and the names of the numbers.

    The first row says which of the columns are numbers. Beside other separators than commas, a comma is for decimals.
    """
    named = (roles.label, roles.judge, roles.split, roles.test, roles.name)
    texts: dict[str, list[str]] = {name: [] for name in named if name is not None}
    places = [(columns.index(name), texts[name]) for name in texts]
    numbers: list[int] | None = None
    vectors: list[np.ndarray] = []
    commas = rows.dialect.delimiter != ","
    for row in rows:
        if not row:
            continue
        if len(row) != len(columns):
            raise UserError(f"{path}, line {rows.line_num}: {len(row)} cells, but there are {len(columns)} columns.")
        if numbers is None:
            numbers = [i for i in map(columns.index, roles.others) if _number(row[i], commas) is not None]
        for place, text in places:
            text.append(row[place].strip())
        try:
            found = [float(row[i]) for i in numbers]
        except ValueError:
            found = [_expect_number(row[i], commas, columns[i], path, rows.line_num) for i in numbers]
        vectors.append(np.array(found))
    if numbers is None:
        raise UserError(f"{path}: has no rows below the names of its columns.")
    if not numbers:
        raise no_numbers(str(path), roles)
    return {"X": np.stack(vectors), **texts}, [columns[i] for i in numbers]


def _expect_number(cell: str, commas: bool, column: str, path: Path, line: int) -> float:
    found = _number(cell, commas)
    if found is None:
        raise UserError(f"{path}, line {line}: {column} is {cell!r}, expected a number as in the rows before.")
    return found


def _number(cell: str, commas: bool = False) -> float | None:
    """The number in a cell, which may have a comma for decimals; None where there is none."""
    word = cell.strip().lower()
    try:
        return WORDS[word] if word in WORDS else float(word.replace(",", ".") if commas else word)
    except ValueError:
        return None


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
    given = roles = check_metadata(folder, label, judge)
    assert roles.file is not None
    columns: dict[str, list[Any]] = {}
    for table, part in find_metadata(folder).items():
        rows: dict[str, list[Any]] = {**_read_metadata(table, given)}
        missing = [name for name in (roles.file, roles.label, roles.judge) if name is not None and name not in rows]
        if missing:
            raise UserError(f"{table}: found no column {missing[0]} among {', '.join(rows)}.")
        rows[roles.file] = [str(table.parent.relative_to(folder) / name) for name in rows[roles.file]]
        if part is not None:
            rows["split"] = [part] * len(rows[roles.file])
            roles = replace(roles, split="split")
        for name, values in rows.items():
            columns.setdefault(name, []).extend(values)
    listing = list_images(columns, roles, folder)
    listing.name = folder.resolve().name
    return listing


def _read_metadata(table: Path, roles: Roles) -> dict[str, list[Any]]:
    if table.suffix != ".csv":
        return _read_jsonl(table)
    with _rows(table) as rows:
        return _read_text(rows, _header(rows, table), roles, table)


def _read_jsonl(table: Path) -> dict[str, list[Any]]:
    """The columns of a file with an object of JSON in each line: text, or what is neither text nor a number."""
    rows: list[dict[str, Any]] = []
    with reading(table, "UTF-8 text"):
        lines = table.read_text(encoding="utf-8-sig").splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise UserError(f"{table}, line {number}: cannot be read as JSON ({error}).") from error
            if not isinstance(rows[-1], dict):
                raise UserError(f"{table}, line {number}: found no names and values.")

    def text(value: Any) -> Any:
        return value if value is None or isinstance(value, list | dict) else str(value)

    return {str(name): [text(row.get(name, "")) for row in rows] for name in (rows[0] if rows else {})}
