"""What the columns of a table are for: labels, names, parts, image files, and the numbers of vectors.

Nothing here imports torch: a missing column of labels is reported at once.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from magnet.data.listings import PARTS, Labelling, number_labels
from magnet.errors import UserError, did_you_mean

LARGEST_LABEL = 2**53  # of numbered classes that are floats: above it, neighbours are the same number
LABELS = ("label", "labels", "y", "target", "targets", "class", "category")  # which a table may call its labels
VECTORS = ("X", "x", "data", "features", "embeddings", "embedding", "vector", "vectors")
FILES = ("path", "file_name", "filename", "filepath")
NAMES = ("name", "id", "", "unnamed: 0", "__index_level_0__")  # the last three are the row numbers of a frame


@dataclass(frozen=True)
class Roles:
    """Names of columns by what they are for; None where there is none."""

    label: str | None
    judge: str | None
    split: str | None
    test: str | None
    name: str | None
    file: str | None
    others: tuple[str, ...]  # the rest, which may be vectors; columns with a usual name of labels are left out


def assign(columns: Sequence[str], where: str, *, label: str | None = "", judge: str = "") -> Roles:
    """Say what the columns of a table are for, by their names.

    Args:
        columns: names, as the table has them.
        where: the name of the table in messages.
        label: the column of the labels; "": the one that is called as in LABELS; None: no labels are needed.
        judge: the column of other labels, that are not trained on; "": none.

    >>> assign(["a", "b", "Species", "split"], "iris.csv", label="species").others
    ('a', 'b')
    """
    found = {name.strip().lower(): name for name in reversed(columns)}

    def first(*wanted: str) -> str | None:
        return next((found[name] for name in wanted if name in found), None)

    roles = {
        "label": None if label is None else find_label(columns, where, label),
        "judge": find_label(columns, where, judge, option="--judge") if judge else None,
        "split": first("split"),
        "test": first("test"),
        "name": first(*NAMES),
        "file": first(*FILES),
    }
    taken = set(roles.values())
    others = [column for column in columns if column not in taken and column.strip().lower() not in LABELS]
    return Roles(**roles, others=tuple(others))


def check_names(columns: Sequence[str], where: str) -> list[str]:
    """The names of the columns of a table, if there are some and they differ."""
    if not any(columns):
        raise UserError(f"{where}: found no names of columns; a CSV has them in its first line.")
    twice = sorted(name for name, count in Counter(columns).items() if count > 1)
    if twice:
        raise UserError(f"{where}: two columns are called {twice[0]!r}; names of columns must differ.")
    return list(columns)


def find_label(columns: Collection[str], where: str, label: str = "", *, option: str = "--label") -> str:
    """The column of the labels, by the name that was given or by one of LABELS; raises where there is none."""
    if label:
        if label in columns:
            return label
        same = [name for name in columns if name.strip().lower() == label.lower()]
        if len(same) == 1:
            return same[0]
        hint = did_you_mean(label, columns)
        raise UserError(f"{where}: there is no column {label!r} for {option}{hint} It has {_some(columns)}.")
    found = [name for wanted in LABELS for name in columns if name.strip().lower() == wanted]
    if len(found) == 1 or (found and found[0].strip().lower() == LABELS[0]):
        return found[0]
    if found:
        raise UserError(f"{where}: {' and '.join(found)} may all be the labels; say which: --label {found[0]}.")
    raise UserError(
        f"{where}: found no column of labels among {_some(columns)}; name one as --label NAME "
        f"(without it: {', '.join(LABELS)})."
    )


def read_labels(values: Any, where: str, classes: Sequence[str] | None = None) -> Labelling:
    """Labels from a column of numbers or text; ``classes`` names those that are numbered.

    ``where`` is the name of the column in messages.

    >>> read_labels(["10", "9", "9"], "table.csv: kind")
    Labelling(labels=array([1, 0, 0]), classes=['9', '10'])
    """
    found = np.asarray(values)
    if found.ndim != 1:
        raise UserError(f"{where} has shape {found.shape}, expected one label an example.")
    if classes is not None and len(set(classes)) < len(classes):
        twice = Counter(classes).most_common(1)[0][0]
        raise UserError(f"{where}: two classes are called {twice!r}; names of classes must differ.")
    if found.dtype.kind in "OU" or found.dtype.kind == "T":
        return _from_text(found, where, classes)
    if found.dtype.kind == "f":
        beyond = ~(np.abs(found) <= LARGEST_LABEL)
        wrong = beyond | (found != np.round(found))
        if wrong.any():
            value = found[beyond if beyond.any() else wrong][0]
            raise UserError(f"{where} holds {value}, expected class ids (whole numbers below 2^53) or class names.")
        found = found.astype(np.int64)
    if found.dtype.kind not in "biu":
        raise UserError(f"{where} is {found.dtype}, expected class ids (integers) or class names (strings).")
    if classes is None:
        values, labels = np.unique(found, return_inverse=True)
        return Labelling(labels.astype(np.int64), [str(value) for value in values])
    if len(found) and not (found.min() >= 0 and found.max() < len(classes)):
        raise UserError(f"{where} runs from {found.min()} to {found.max()}, but there are {len(classes)} classes.")
    return Labelling(found.astype(np.int64), list(classes))


def _from_text(found: np.ndarray, where: str, classes: Sequence[str] | None) -> Labelling:
    values = found.tolist()
    for row, value in enumerate(values, 1):
        if value is None or type(value).__name__ == "NAType" or value == "" or value != value:  # of pandas
            raise UserError(f"{where}: row {row} of {len(found)} is empty; all rows need a label.")
        if not isinstance(value, str | int):
            kind = type(value).__name__
            raise UserError(f"{where} holds {kind} (row {row}), expected class ids or class names (text).")
    words = [str(value) for value in values]
    if classes is None:
        return number_labels(words)
    ids = {value: i for i, value in enumerate(classes)}
    unknown = sorted(set(words) - ids.keys())
    if unknown:
        raise UserError(f"{where} holds {unknown[0]!r}, which is not among the {len(classes)} classes.")
    return Labelling(np.array([ids[word] for word in words], dtype=np.int64), list(classes))


def read_split(values: Any, where: str) -> np.ndarray:
    """The part of every example, int8 (N,), from a column ``split``: 0, 1, 2, or train, val(idation), test."""
    found = np.asarray(values)
    if found.dtype.kind in "biuf" and np.isin(found, (0, 1, 2)).all():
        return found.astype(np.int8)
    words = [str(value).strip().lower() for value in found.tolist()]
    numbers = {"0": 0, "1": 1, "2": 2} | PARTS
    wrong = next((i for i, word in enumerate(words) if word not in numbers), None)
    if wrong is not None:
        raise UserError(
            f"{where}: split holds {found.tolist()[wrong]!r} (row {wrong + 1}), expected 0 train, 1 validation, "
            "2 test, or these words."
        )
    return np.array([numbers[word] for word in words], np.int8)


def read_test(values: Any, where: str) -> np.ndarray:
    """The part of every example, int8 (N,), from a column ``test``: true or 1 for test examples."""
    found = np.asarray(values)
    if found.dtype.kind in "biuf" and np.isin(found, (0, 1)).all():
        return 2 * found.astype(np.int8)
    words = [str(value).strip().lower() for value in found.tolist()]
    known = {"true": 2, "1": 2, "false": 0, "0": 0}
    if any(word not in known for word in words):
        raise UserError(f"{where}: test is {found.dtype}, expected True for test examples.")
    return np.array([known[word] for word in words], np.int8)


def _some(columns: Collection[str]) -> str:
    listed = [repr(name) for name in list(columns)[:8]]
    more = f", ... ({len(columns)} in all)" if len(columns) > 8 else ""
    return f"the columns {', '.join(listed)}{more}" if listed else "no columns"
