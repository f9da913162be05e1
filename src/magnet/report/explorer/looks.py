"""What the examples look like on the page: photographs, small images, or the values of their features."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from magnet.data import Dataset
from magnet.report.explorer.page_data import Keep, encode
from magnet.report.pictures import data_uri, photographs, square_side, squares, webp

SIDE = 48  # of a small picture, for the map
COLUMNS = 32  # of small pictures on a sheet
LARGE = 160  # side of a picture that a label can be told from
LARGE_COLUMNS = 8  # of large pictures on a sheet, where every example has one
LARGE_BYTES = 9_000_000  # of large pictures inside a page; as text they take a third more
FEATURES = 32  # of a vector that a page of one file shows; each takes 53 kB of a page with 10,000 examples
FEATURE_BYTES = 100_000_000  # of the features of all examples that lie beside a page, where these are more
Report = Callable[[int, int], None]


def looks(
    data: Dataset, rows: np.ndarray, first: Sequence[int], report: Report, keep: Keep | None = None
) -> dict[str, Any]:
    """The looks of the examples ``rows`` (n,), in this order.

    Args:
        data: where they are from.
        rows: ids into the data.
        first: places in ``rows``, those that are looked at most first: they get a large picture while there is room.
        report: told how many pictures are made, of how many.
        keep: puts files beside the page; then every example has a large picture, or all its features. None: all is
            inside the page.
    """
    if data.kind == "images":
        return _photographs(data, rows, first, report, keep)
    side = square_side(data)
    if side:
        return {"kind": "squares", "side": side, "pixels": encode(squares(data, rows), "u1")}
    return _features(data, rows, FEATURES if keep is None else max(FEATURES, FEATURE_BYTES // (4 * len(rows))))


def _photographs(
    data: Dataset, rows: np.ndarray, first: Sequence[int], report: Report, keep: Keep | None
) -> dict[str, Any]:
    stored = data.stored_side or LARGE
    side = min(SIDE, stored)
    place = keep or (lambda name, picture: data_uri(picture))
    sheets = []
    for number, (sheet, done) in enumerate(_sheets(photographs(data, rows, side), len(rows), side, COLUMNS)):
        sheets.append(place(f"pictures/small-{number}.webp", webp(sheet)))
        report(done, len(rows))
    found = {"kind": "images", "side": side, "columns": COLUMNS, "sheets": sheets, "large": None}
    if stored > side:
        found["large"] = _large(data, rows, first, min(LARGE, stored), report, keep)
    return found


def _large(
    data: Dataset, rows: np.ndarray, first: Sequence[int], side: int, report: Report, keep: Keep | None
) -> dict[str, Any]:
    """Large pictures: of every example, on sheets beside the page; or of the first ones, one by one, inside it."""
    if keep:
        pictures = photographs(data, rows, side)
        sheets = [
            keep(f"pictures/large-{number}.webp", webp(sheet))
            for number, (sheet, _) in enumerate(_sheets(pictures, len(rows), side, LARGE_COLUMNS))
        ]
        return {"side": side, "columns": LARGE_COLUMNS, "ids": encode(np.arange(len(rows)), "i4"), "sheets": sheets}
    sheets, room = [], LARGE_BYTES
    for picture in photographs(data, rows[np.asarray(first, dtype=np.int64)], side):
        file = webp(picture)
        room -= len(file)
        if room < 0:
            break
        sheets.append(data_uri(file))
        report(len(sheets), len(first))
    ids = np.asarray(first[: len(sheets)], dtype=np.int64)
    return {"side": side, "columns": 1, "ids": encode(ids, "i4"), "sheets": sheets}


def _sheets(pictures: Iterator[np.ndarray], count: int, side: int, columns: int) -> Iterator[tuple[np.ndarray, int]]:
    """Pictures (side, side, 3) on sheets of columns x columns; with each, how many of ``count`` are done."""
    for start in range(0, count, columns**2):
        some = min(columns**2, count - start)
        high = -(-some // columns)
        cells = np.zeros((high * columns, side, side, 3), np.uint8)
        for i in range(some):
            cells[i] = next(pictures)
        grid = cells.reshape(high, columns, side, side, 3).transpose(0, 2, 1, 3, 4)
        yield grid.reshape(high * side, columns * side, 3), start + some


def _features(data: Dataset, rows: np.ndarray, most: int) -> dict[str, Any]:
    width = data.shape[0]
    columns = np.linspace(0, width - 1, min(width, most)).round().astype(int)
    values = data.batch(rows).numpy()[:, columns]
    return {
        "kind": "features",
        "width": width,
        "columns": columns.tolist(),
        "names": None if data.feature_names is None else [data.feature_names[column] for column in columns],
        "values": encode(values, "f4"),
        "low": encode(values.min(axis=0), "f4"),  # each feature has a range of its own
        "high": encode(values.max(axis=0), "f4"),
        "mean": encode(values.mean(axis=0, dtype=np.float64), "f4"),
        "spread": encode(values.std(axis=0, dtype=np.float64), "f4"),
    }
