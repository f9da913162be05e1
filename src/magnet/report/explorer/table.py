"""The data behind the page, for other tools: one row an example and run, as CSV or Parquet."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from magnet.errors import UserError
from magnet.report.explorer.build import Explorer, Seen
from magnet.report.html import write_whole

PARTS = np.array(["train", "validation", "test"])
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_table(explorer: Explorer, path: Path) -> None:
    """Write x, y, label, cluster, loss, prediction, path, split, correct and run, in the order of the data."""
    columns: dict[str, Any] = {}
    for seen in explorer.seen:
        for name, values in _columns(explorer.rows, seen).items():
            columns.setdefault(name, []).extend(values)
    if path.suffix.lower() == ".parquet":
        write_whole(path, _parquet(columns))
        return
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(columns)
    writer.writerows([safe_cell(value) for value in row] for row in zip(*columns.values(), strict=True))
    write_whole(path, stream.getvalue().encode("utf-8", "surrogateescape"))


def safe_cell(value: Any) -> Any:
    """A value for a CSV: text that a spreadsheet would take for a formula starts with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def check_table(path: Path) -> None:
    """Raise a UserError if the table could not be written, before any work is done."""
    if path.suffix.lower() == ".parquet":
        _pyarrow()
    elif path.suffix.lower() != ".csv":
        raise UserError(f"--table {path} must end in .csv or .parquet")


def _columns(rows: np.ndarray, seen: Seen) -> dict[str, list[Any]]:
    order = np.argsort(rows)
    data, end = seen.run.data, seen.moments[-1]
    labels, predicted = data.labels.numpy()[rows[order]], seen.predictions.prediction.numpy()[order]
    x, y = seen.maps[-1][0][order].T
    return {
        "x": x.astype(np.float32).tolist(),
        "y": y.astype(np.float32).tolist(),
        "label": [data.classes[c] for c in labels],
        "cluster": end.clusters.numpy()[order].tolist(),
        "loss": seen.predictions.loss.numpy()[order].tolist(),
        "prediction": [data.classes[c] for c in predicted],
        "path": [data.names[i] for i in rows[order]],
        "split": PARTS[np.minimum(data.split[rows[order]], 2)].tolist(),
        "correct": (labels == predicted).tolist(),
        "run": [seen.run.folder.resolve().name] * len(order),
    }


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    pyarrow, parquet = _pyarrow()
    text = {name: [_utf8(value) for value in values] for name, values in columns.items()}
    stream = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(text), stream)
    written: bytes = stream.getvalue().to_pybytes()
    return written


def _utf8(value: Any) -> Any:
    # Parquet holds Unicode only; the bytes of an undecodable file name are shown as question marks.
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UserError("a .parquet needs pyarrow: pip install 'magnet-loss[explore]'; a .csv needs nothing") from error
    return pyarrow, parquet
