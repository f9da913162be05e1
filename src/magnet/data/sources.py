"""What --data names: from a name or a path to a listing, its kind, and whether it holds photographs.

Nothing here imports torch.
"""

import io
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

import numpy as np

from magnet.data import arrow, tars
from magnet.data.arrays import labels_beside, list_npy, list_npz, npz_keys, npz_names
from magnet.data.benchmarks import READERS, SOURCES
from magnet.data.benchmarks.source import incomplete, require_pieces
from magnet.data.columns import assign
from magnet.data.groups import LEVELS, take_levels
from magnet.data.listings import EncodedImage, Listing, list_folder, open_image, walk_images
from magnet.data.tables import check_metadata, csv_columns, find_metadata, list_csv, list_metadata, metadata_columns
from magnet.errors import UserError, did_you_mean
from magnet.files import reading

EXPECTED = (
    "a folder of class folders, a .csv, .tsv or .parquet with a column of labels, an .npz with X and y, an .npy with "
    "labels beside it, a folder saved by datasets, a .tar of images with their labels, digits, or "
    + ", ".join(f"{name}:FOLDER" for name in READERS)
)
SMALLEST = 64  # the short side of a photograph, in pixels: what is smaller is a digit, an icon or a thumbnail
FEW = 15  # files whose sizes are read


class Reader(NamedTuple):
    """How to read some data. ``read`` and ``check`` take the names of the columns of labels, if there are columns."""

    read: Callable[..., Listing]
    kind: str | Callable[[], str]  # "vectors" or "images", or a function that looks which
    columns: Callable[[], list[str]] | None = None  # the names of the columns; None: labels are levels of the layout
    check: Callable[[str, str], object] = lambda label, judge: None  # raises if these columns do not exist


def find_source(spec: str, *, label: str = "", judge: str = "") -> Callable[[], Listing]:
    """A function that reads the data that ``spec`` names. Missing files and columns are reported before it is called.

    Args:
        spec: what --data takes.
        label: the column, or the level, of the labels; "": the usual one.
        judge: the column, or the level, of other labels to judge by; "": none.
    """
    with reading(spec, "data"):
        source = _find(spec)
        names = source.columns() if source.columns else []
    levels = [name if name in LEVELS and name not in names else "" for name in (label, judge)]
    columns = ["" if level else name for level, name in zip(levels, (label, judge), strict=True)]
    if source.columns is None:
        if any(columns):
            found = next(filter(None, columns))
            raise UserError(f"{spec} has no columns: labels are {' or '.join(LEVELS)}; found {found!r}.")
        read = source.read
    else:
        with reading(spec, "data"):
            source.check(*columns)
        read = partial(source.read, *columns)

    def listing() -> Listing:
        with reading(spec, "data"):
            found = read()
            return take_levels(found, label=levels[0], judge=levels[1]) if any(levels) else found

    return listing


def kind_of(spec: str) -> str:
    """The kind of the data, "vectors" or "images": by its content, or by its name if it does not exist."""
    try:
        with reading(spec, "data"):
            kind = _find(spec).kind
            return kind if isinstance(kind, str) else kind()
    except UserError:
        return "vectors" if spec.lower().endswith((".npz", ".npy")) else "images"


def source_exists(spec: str) -> bool:
    """Whether there is anything at the place that ``spec`` names."""
    name, colon, folder = spec.partition(":")
    return spec == "digits" or Path(folder if colon and name in READERS else spec).expanduser().exists()


def has_label(spec: str, label: str) -> bool:
    """Whether the data that ``spec`` names has labels of this name: a column, or a level of its layout."""
    source = _find(spec)
    return label in LEVELS if source.columns is None else label in source.columns()


def _find(spec: str) -> Reader:
    if spec == "digits":
        return Reader(list_digits, "vectors")
    name, colon, folder = spec.partition(":")
    if colon and name in READERS:
        if not folder:
            raise UserError(f"{spec} names no folder; write {name}:FOLDER.")
        place = Path(folder).expanduser()
        if not place.is_dir():
            require_pieces(SOURCES[name], place)
            raise incomplete(SOURCES[name], place, ["the folder itself"])
        return Reader(partial(READERS[name], place), "images")
    path = Path(spec).expanduser()
    if path.is_dir():
        return _find_in(path)
    if not path.exists() and colon and re.fullmatch(r"[A-Za-z][\w-]+", name):
        hint = did_you_mean(name, READERS)
        raise UserError(f"{spec}: no benchmark set is called {name!r}{hint} There are: {', '.join(READERS)}.")
    readers: dict[str, Callable[[Path], Reader]] = {
        ".csv": _csv, ".tsv": _csv, ".npz": _npz, ".npy": _npy, ".parquet": _table, ".tar": _tar,
    }  # fmt: skip
    if path.suffix.lower() not in readers:
        found = "is a file of another kind" if path.exists() else "does not exist"
        raise UserError(f"{spec} {found}; expected {EXPECTED}.")
    if not path.is_file():
        raise UserError(f"{spec} does not exist.")
    return readers[path.suffix.lower()](path)


def _find_in(folder: Path) -> Reader:
    """The reader of a folder, chosen by the files in it."""
    if arrow.find_shards(folder):
        return _table(folder)
    if find_metadata(folder):
        reader, columns = partial(list_metadata, folder), partial(metadata_columns, folder)
        return Reader(reader, "images", columns, partial(check_metadata, folder))
    if tars.find_tars(folder):
        return _tar(folder)
    return Reader(partial(list_folder, folder), "images")


def _csv(path: Path) -> Reader:
    def check(label: str, judge: str) -> None:
        columns = csv_columns(path)
        if len(columns) == 1:
            raise UserError(
                f"{path}: found one column alone, {columns[0]!r}; expected names of columns in the first line, among "
                "them that of the labels, with commas, semicolons or tabs between them."
            )
        assign(columns, str(path), label=label, judge=judge)

    def kind() -> str:
        return "vectors" if assign(csv_columns(path), str(path), label=None).file is None else "images"

    return Reader(partial(list_csv, path), kind, partial(csv_columns, path), check)


def _npz(path: Path) -> Reader:
    return Reader(partial(list_npz, path), "vectors", partial(npz_names, path), partial(npz_keys, path))


def _npy(path: Path) -> Reader:
    def check(label: str, judge: str) -> None:
        labels_beside(path, label)
        if judge:
            labels_beside(path, judge)

    return Reader(partial(list_npy, path), "vectors", list, check)


def _table(path: Path) -> Reader:
    shards = arrow.find_shards(path)

    def check(label: str, judge: str) -> None:
        assign(arrow.table_columns(shards), str(path), label=label, judge=judge)

    columns, kind = partial(arrow.table_columns, shards), partial(arrow.kind_of_table, shards)
    return Reader(partial(arrow.list_shards, path, shards), kind, columns, check)


def _tar(path: Path) -> Reader:
    return Reader(partial(tars.list_tars, path), "images", partial(tars.tar_columns, path))


def are_photographs(spec: str, label: str = "") -> bool:
    """Whether the data consists of image files as large as photographs; False if it has no image files.

    Args:
        spec: what --data takes.
        label: the column of the labels, without which some tables cannot be read.
    """
    name, colon, folder = spec.partition(":")
    path = Path(folder if colon and name.replace("-", "").isalpha() else spec).expanduser()
    found: list[Path | EncodedImage] = [image for _, image in islice(walk_images([path], links=True), FEW)]
    if not found and path.exists() and kind_of(spec) == "images":  # in archives or tables, or at paths in a table
        with suppress(UserError):
            content = find_source(spec, label=label)().content
            found = [] if isinstance(content, np.ndarray) else list(content[:: max(1, len(content) // FEW)])
    return short_side(found) >= SMALLEST


def short_side(images: Iterable[Path | EncodedImage]) -> int:
    """The median short side of image files in pixels, from their headers; 0 where none can be read."""
    sides = []
    for image in images:
        file = image if isinstance(image, Path) else io.BytesIO(image.read())
        with suppress(Exception), open_image(file) as opened:  # a damaged image is reported when it is decoded
            sides.append(min(opened.size))
    return median_low(sides) if sides else 0


def list_digits() -> Listing:
    """1,797 vectors of 64 pixels in 0..1; the same stratified 70/30 split whatever the seed of the run."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    rows = np.arange(len(digits.target))
    _, test = train_test_split(rows, test_size=0.3, stratify=digits.target, random_state=0)
    split = np.zeros(len(rows), np.int8)
    split[test] = 2
    return Listing(
        name="digits",
        content=(digits.data / 16).astype(np.float32),
        labels=digits.target.astype(np.int64),
        classes=[str(name) for name in digits.target_names],
        names=[f"digit {i}" for i in rows],
        split=split,
    )
