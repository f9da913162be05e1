"""The data behind the page, for other tools: one row an example and run, as CSV or Parquet."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from magnet.errors import UserError
from magnet.report.explorer.build import Explorer, Seen
from magnet.report.explorer.page_data import NEIGHBOURS
from magnet.report.explorer.snapshots import near_each_other
from magnet.report.html import write_whole

PARTS = np.array(["train", "validation", "test"])
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_table(explorer: Explorer, path: Path) -> None:
    """Write a row for each example and run, in the order of the data.

    The columns are ``projection_x``, ``projection_y`` and ``neighbors``, named and made as Embedding Atlas reads them
    (``neighbors`` holds ``ids``, numbers of rows of the table, and ``distances`` in sigma; in a CSV, as JSON), then
    label, cluster, loss, prediction, path, split, correct, run, held_out_loss and suggestion (what `magnet suspects`
    has as loss and suggestion).
    """
    columns: dict[str, Any] = {}
    for number, seen in enumerate(explorer.seen):
        for name, values in _columns(explorer.rows, seen, number * len(explorer.rows)).items():
            columns.setdefault(name, []).extend(values)
    if path.suffix.lower() == ".parquet":
        write_whole(path, _parquet(columns))
        return
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(columns)
    columns["neighbors"] = [json.dumps(near) for near in columns["neighbors"]]
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


def _columns(rows: np.ndarray, seen: Seen, start: int) -> dict[str, list[Any]]:
    """The columns of one run, whose first row is number ``start`` of the table."""
    order = np.argsort(rows)
    doubts = seen.predictions.doubts
    data, (end, (positions, _)) = seen.run.data, seen.end
    labels, predicted = data.labels.numpy()[rows[order]], seen.predictions.prediction.numpy()[order]
    squared, near = (part.numpy()[order] for part in near_each_other(end.representations, NEIGHBOURS))
    ids, distances = start + np.argsort(order)[near], (np.sqrt(squared) / end.sigma).round(4)
    x, y = positions[order].T
    return {
        "projection_x": x.astype(np.float32).tolist(),
        "projection_y": y.astype(np.float32).tolist(),
        "neighbors": [{"ids": i.tolist(), "distances": d.tolist()} for i, d in zip(ids, distances, strict=True)],
        "label": [data.classes[c] for c in labels],
        "cluster": end.clusters.numpy()[order].tolist(),
        "loss": seen.predictions.loss.numpy()[order].tolist(),
        "prediction": [data.classes[c] for c in predicted],
        "path": [data.names[i] for i in rows[order]],
        "split": PARTS[np.minimum(data.split[rows[order]], 2)].tolist(),
        "correct": (labels == predicted).tolist(),
        "run": [seen.run.folder.resolve().name] * len(order),
        "held_out_loss": doubts.loss.numpy()[order].tolist(),
        "suggestion": [data.classes[c] for c in doubts.suggestion.numpy()[order]],
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
