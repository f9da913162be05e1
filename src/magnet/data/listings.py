"""Listing: the examples of a source, with labels, attributes and parts; listings of image files; and splits.

The train, validation and test parts that a source states are kept; missing ones are drawn by class.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, Protocol, Self, overload

import numpy as np

from magnet.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

TRAIN, VALIDATION, TEST = 0, 1, 2
PARTS = {"train": TRAIN, "validation": VALIDATION, "val": VALIDATION, "test": TEST}
TEST_FRACTION = 0.3
EXTENSIONS = frozenset([".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"])
# Of the formats that Pillow knows, those that images to learn from have. Others are refused, whatever the file is
# called: EPS, for one, is a program, which Pillow has run by Ghostscript.
FORMATS = frozenset(["AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP"])
UNKNOWN = ("", "nan", "?")  # values of an attribute
MOST_OTHERS = 50_000  # files and folders that are no images, met in a search for images
MOST_VALUES = 100  # of a categorical attribute


def open_image(file: Path | BinaryIO) -> "Image.Image":
    """An image file, opened and not yet decoded."""
    from PIL import Image

    Image.init()  # which formats there are depends on how Pillow was built
    return Image.open(file, formats=sorted(FORMATS & Image.OPEN.keys()))


class EncodedImage(Protocol):
    """An image file inside an archive or a cell of a table. ``str`` of it is its name for people."""

    def read(self) -> bytes:
        """The bytes of the image file."""

    def mark(self) -> str:
        """Text that changes whenever the image changes: a hash of the bytes, or what is cheaper to compute."""
        return hashlib.sha256(self.read()).hexdigest()


Content = np.ndarray | Sequence[Path | EncodedImage]


class Labelling(NamedTuple):
    """Labels (N,), ids into ``classes``."""

    labels: np.ndarray
    classes: list[str]


def is_image(name: str) -> bool:
    """Whether a file of this name counts as an image: its extension is known, and it is not hidden."""
    return not name.startswith(".") and Path(name).suffix.lower() in EXTENSIONS


class Numbered(Sequence[str]):
    """The names "0", "1", ... of rows without names, made on demand: five million strings would take 300 MB.

    >>> Numbered(1000)[2:4]
    ['2', '3']
    """

    def __init__(self, count: int) -> None:
        self._rows = range(count)

    @overload
    def __getitem__(self, key: int) -> str: ...
    @overload
    def __getitem__(self, key: slice) -> list[str]: ...
    def __getitem__(self, key: int | slice) -> str | list[str]:
        found = self._rows[key]
        return [str(row) for row in found] if isinstance(found, range) else str(found)

    def __len__(self) -> int:
        return len(self._rows)


@dataclass
class Attributes:
    """Binary attributes of N examples. ``values`` is float32 (N, A), 1: has the attribute, 0: does not, nan: unknown.

    ``level`` states whether each image was annotated, or each class as a whole.
    """

    names: list[str]
    values: np.ndarray
    level: Literal["image", "class"]

    def keep(self, rows: np.ndarray) -> "Attributes":
        """The same attributes of the examples at ``rows``."""
        return Attributes(self.names, self.values[rows], self.level)

    @classmethod
    def from_table(cls, table: np.ndarray, names: Sequence[str] | None, examples: int) -> Self:
        """One-hot a categorical table (N, A) of strings or numbers; a 0/1 column stays one binary attribute.

        Empty strings, "?" and nan mean unknown, in all attributes that come of that column.
        """
        table = np.asarray(table)
        if table.ndim != 2 or len(table) != examples:
            raise UserError(f"attributes has shape {table.shape}, expected ({examples}, A): one row an example.")
        found = [_one_hot(table[:, a], name) for a, name in enumerate(_names(names, table.shape[1]))]
        values = np.concatenate([np.zeros((examples, 0), np.float32), *(values for _, values in found)], axis=1)
        return cls([name for some, _ in found for name in some], values, "image")

    @classmethod
    def from_classes(cls, percent: np.ndarray, names: Sequence[str] | None, labels: np.ndarray) -> Self:
        """Attributes of classes (C, A) in percent of agreement; an example has what its class has at 50 or more."""
        percent = np.asarray(percent, dtype=np.float32)
        if percent.ndim != 2 or len(percent) <= int(labels.max(initial=0)):
            raise UserError(
                f"class_attributes has shape {percent.shape}, expected ({int(labels.max(initial=0)) + 1}, A): "
                "one row a class."
            )
        binary = np.where(np.isnan(percent), np.nan, percent >= 50).astype(np.float32)
        return cls(_names(names, percent.shape[1]), binary[labels], "class")


@dataclass
class Listing:
    """The examples of a source in its own order.

    ``content`` is vectors (N, d), images as uint8 (N, H, W) or (N, H, W, 3), or N image files. ``labels`` (N,) are ids
    into ``classes``, some of which may have no example yet. ``split`` (N,) is 0 train, 1 validation, 2 test, or None if
    the source has no split. ``feature_names`` (d,) are the names of the columns of vectors, or None. ``judge`` are
    other labels of the same examples, which are not trained on. ``levels`` are coarse and fine labels by name, if the
    source has both. ``notes`` say what was left out.
    """

    name: str
    content: Content
    labels: np.ndarray
    classes: list[str]
    names: Sequence[str]
    split: np.ndarray | None = None
    attributes: Attributes | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    feature_names: list[str] | None = None
    judge: Labelling | None = None
    levels: dict[str, Labelling] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def keep(self, rows: np.ndarray) -> "Listing":
        """Only the examples at ``rows``, in that order."""
        content = self.content
        return replace(
            self,
            content=content[rows] if isinstance(content, np.ndarray) else [content[i] for i in rows],
            labels=self.labels[rows],
            names=[self.names[i] for i in rows],
            split=None if self.split is None else self.split[rows],
            attributes=None if self.attributes is None else self.attributes.keep(rows),
            judge=None if self.judge is None else Labelling(self.judge.labels[rows], self.judge.classes),
            levels={name: Labelling(level.labels[rows], level.classes) for name, level in self.levels.items()},
        )


def compact_classes(labels: np.ndarray, classes: list[str]) -> tuple[np.ndarray, list[str]]:
    """Leave out classes without examples, so that the ids that remain are 0..C-1, each with a member."""
    present, compact = np.unique(labels, return_inverse=True)
    return compact.astype(np.int64), [classes[i] for i in present]


def list_folder(folder: Path) -> Listing:
    """One class a subfolder, images at any depth below it.

    Where the subfolders are train, test and perhaps val(idation), with the class folders inside them, they are
    the split. Folders inside of all class folders are a finer level of labels.
    """
    parts = [name for name in _subfolders(folder) if name.lower() in PARTS]
    given = "train" in map(str.lower, parts) and len(parts) == len(_subfolders(folder))
    if not (given and all(_subfolders(folder / part) for part in parts)):
        parts, given = [""], False
    rows: list[tuple[str, Path, int]] = []
    for part in parts:
        own = [folder / part / name for name in _subfolders(folder / part)]
        rows += [(place.name, image, PARTS.get(part.lower(), 0)) for place, image in walk_images(own)]
    if not rows:
        raise UserError(
            f"{folder}: found no images in subfolders; expected one folder a class, holding "
            f"{', '.join(sorted(suffix[1:] for suffix in EXTENSIONS))} files."
        )
    labels, classes = number_labels([name for name, _, _ in rows])
    files, prefix = [file for _, file, _ in rows], f"{folder}{os.sep}"
    listing = Listing(
        name=folder.resolve().name,
        content=files,
        labels=labels,
        classes=classes,
        names=[str(file).removeprefix(prefix) for file in files],
        split=np.array([part for _, _, part in rows], np.int8) if given else None,
    )
    return replace(listing, levels=_nested_levels(listing, depth=2 if given else 1))


def _nested_levels(listing: Listing, depth: int) -> dict[str, Labelling]:
    """Coarse and fine labels, if every image is in a subfolder of the folder of its class.

    Args:
        listing: of image files, its names being paths.
        depth: how many folders lead to the images of a class.
    """
    folders = [Path(name).parent.parts for name in listing.names]
    if min(map(len, folders)) <= depth:
        return {}
    coarse = Labelling(listing.labels, listing.classes)
    return {"coarse": coarse, "fine": number_labels(["/".join(path[depth - 1 : depth + 1]) for path in folders])}


def number_labels(words: Sequence[str]) -> Labelling:
    """Names of classes as labels; the classes are sorted, by number when they are all numbers.

    >>> number_labels(["10", "9", "9"])
    Labelling(labels=array([1, 0, 0]), classes=['9', '10'])
    """
    found = set(words)
    numbers = all(word.isdecimal() for word in found)
    classes = sorted(found, key=(lambda word: (int(word), word)) if numbers else None)
    ids = {word: i for i, word in enumerate(classes)}
    return Labelling(np.array([ids[word] for word in words], dtype=np.int64), classes)


def _subfolders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))


def walk_images(folders: Iterable[Path], *, links: bool = False) -> Iterator[tuple[Path, Path]]:
    """Image files below folders, each with the folder of ``folders`` that it was found in, in the order of names.

    Hidden folders are left out. With ``links``, links to folders are followed, each folder once. A walk that meets
    very many files of which hardly any are images, such as one through a whole disk, is given up with a `UserError`.
    """
    seen: set[str] = set()
    images = others = 0
    for start in folders:
        for place, below, files in os.walk(start, followlinks=links):
            real = os.path.realpath(place) if links else place
            if real in seen:
                below.clear()
                continue
            seen.add(real)
            below[:] = sorted(name for name in below if not name.startswith("."))
            found = sorted(name for name in files if is_image(name))
            images, others = images + len(found), others + len(files) - len(found) + len(below)
            if others > max(MOST_OTHERS, 10 * images):
                raise UserError(
                    f"{start}: {others:,} files and folders were found that are no images, and {images:,} images: is "
                    "it the right folder? Give the one that holds the images alone."
                )
            for name in found:
                yield start, Path(place, name)


def stratified(labels: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a fraction of every class. ``labels`` (N,) -> bool (N,), True where drawn.

    The total is the rounded fraction of N as far as classes allow: every class gives the whole part of its
    quota and the largest remainders give one more. No class is ever drawn empty.

    >>> labels = np.array([0] * 10 + [1] * 20 + [2])
    >>> np.bincount(labels[stratified(labels, 0.3, np.random.default_rng(0))], minlength=3)
    array([3, 6, 0])
    """
    classes, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    quota = fraction * counts
    take = np.minimum(np.floor(quota + 1e-9).astype(np.int64), counts - 1)
    # Ties between equal remainders are common (balanced classes), so they are broken by chance, not by name.
    order = np.lexsort((rng.random(len(classes)), -(quota - take)))
    missing = round(fraction * len(labels)) - int(take.sum())
    open_to_more = order[(take < counts - 1)[order] & (quota > take)[order]]
    take[open_to_more[: max(missing, 0)]] += 1

    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(inverse[shuffled], kind="stable")]
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    drawn = np.zeros(len(labels), dtype=bool)
    drawn[by_class[rank < take[inverse[by_class]]]] = True
    return drawn


def complete_split(split: np.ndarray | None, labels: np.ndarray, *, seed: int, validation: float) -> np.ndarray:
    """Draw the parts that a source does not state; returns int8 (N,).

    Without a test part, 30 % of the training part are drawn as one. A validation part of the source is kept; otherwise
    a fraction ``validation`` of the rest of the training part is drawn.
    """
    if not 0 <= validation < 1:
        raise UserError(f"validation is {validation}, expected a fraction of the training part in [0, 1).")
    done = np.zeros(len(labels), np.int8) if split is None else np.asarray(split).astype(np.int8)
    for part, fraction in ((TEST, TEST_FRACTION), (VALIDATION, validation)):
        if fraction > 0 and not (done == part).any():
            rows = np.flatnonzero(done == TRAIN)
            # Each part has its own random stream: the test part does not depend on the validation fraction.
            drawn = stratified(labels[rows], fraction, np.random.default_rng([seed, part]))
            done[rows[drawn]] = part
    if not (done == TRAIN).any():
        raise UserError(f"no example is left for training: all {len(done)} are marked validation or test.")
    return done


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
