"""Dataset: labelled vectors or images, their split, and what else is known of them; `open_data` makes one."""

import copy
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from magnet.data.arrays import KEYS, list_arrays
from magnet.data.images import MOST_PIXELS, RESCALE, ImageCache, decode, find_unreadable, room
from magnet.data.listings import (
    PARTS,
    TEST,
    Attributes,
    Content,
    EncodedImage,
    Listing,
    Numbered,
    compact_classes,
    complete_split,
)
from magnet.data.sources import FEW, find_source, short_side
from magnet.errors import UserError, first_few
from magnet.files import file_digest

GIBIBYTE = 2**30
DEFAULT_IMAGE_SIZE = 224
BLOCK = 2**24  # bytes of an array, and names, that are looked at together
GONE = "gone"  # stands for a file that is no longer there
OTHER = {
    "vectors": "other values in X",
    "pixels": "other pixels",
    "file times": "other sizes or modification times of image files",
    "file bytes": "other bytes in image files",
}


class Dataset(torch.utils.data.Dataset[Tensor]):
    """N labelled examples: vectors, float32 (d,), or images, uint8 (3, S, S).

    Attributes:
        name, spec: a short name, and what the dataset was opened with.
        kind: "vectors" or "images".
        labels: LongTensor (N,), ids into ``classes``.
        names: N file paths or row names.
        split: int8 array (N,): 0 train, 1 validation, 2 test.
        attributes: None, or the attribute table in the order of the examples.
        skipped: (path, reason) of the images left out when opened.
        feature_names: of the columns of vectors (d,), where the source has them.
        fine_labels, fine_classes: the labels before `merge_classes`, or those to judge by; None otherwise.
        judged: whether the data brings these, and they are no labels before merging.
        notes: what was left out when opened, in words.
    """

    max_pixels = MOST_PIXELS  # of an image

    def __init__(
        self,
        listing: Listing,
        *,
        spec: str,
        seed: int = 0,
        validation: float = 0.0,
        cache_bytes: int = GIBIBYTE,
        hash_images: bool = False,
    ) -> None:
        labels, classes = compact_classes(listing.labels, listing.classes)
        if len(classes) < 2:
            found = f"one class ({classes[0]!r})" if classes else "no examples"
            raise UserError(f"{spec}: found {found}, expected examples of at least two classes.")
        if len(classes) == len(labels):
            some = first_few(classes)
            raise UserError(
                f"{spec}: each of the {len(labels)} examples has a label of its own ({some}); expected classes of "
                "several examples: is it the right column? Name it as --label NAME."
            )
        self.name, self.spec = listing.name, spec
        self.labels = torch.from_numpy(labels)
        self.classes = classes
        self.names: Sequence[str] = listing.names
        self.split = complete_split(listing.split, labels, seed=seed, validation=validation)
        self._given_split = listing.split
        self.attributes: Attributes | None = listing.attributes
        self.skipped = listing.skipped
        self.feature_names = listing.feature_names
        self.notes = listing.notes
        self.fine_labels: Tensor | None = None
        self.fine_classes: list[str] | None = None
        self.judged = listing.judge is not None
        if listing.judge is not None:
            fine, self.fine_classes = compact_classes(*listing.judge)
            self.fine_labels = torch.from_numpy(fine)
        self._content = listing.content
        self.kind: Literal["vectors", "images"] = "images"
        if isinstance(self._content, np.ndarray):
            self.kind = "vectors" if self._content.ndim == 2 else "images"
        self.cache_bytes = cache_bytes
        self.image_size, self.rescale = DEFAULT_IMAGE_SIZE, RESCALE
        if self.kind == "images" and isinstance(self._content, np.ndarray):
            self.image_size = min(self._content.shape[1:3])
        self._cache: ImageCache | None = None
        self._hash_images = hash_images
        self._hashes: dict[str, str] = {}  # of content and names, once they are known; copies share it

    @classmethod
    def from_arrays(cls, X: Any, y: Any, *, seed: int = 0, validation: float = 0.0, **others: Any) -> "Dataset":
        """A dataset of vectors X (N, d) with labels y (N,): class ids or class names.

        ``others`` are the further members an ``.npz`` may have, by the same names: ``test``, ``split``, ``name``,
        ``classes``, ``attributes``, ``class_attributes``, ``attribute_names``, ``feature_names``.

        >>> data = Dataset.from_arrays(np.eye(4), ["cat", "dog", "cat", "dog"], test=[0, 0, 1, 1])
        >>> data.classes, data.labels, data.indices("test")
        (['cat', 'dog'], tensor([0, 1, 0, 1]), tensor([2, 3]))
        """
        unknown = sorted(others.keys() - set(KEYS))
        if unknown:
            raise TypeError(f"from_arrays() knows no {unknown[0]!r}; expected some of {', '.join(KEYS[2:])}")
        return cls(list_arrays({"X": X, "y": y, **others}, "arrays"), spec="arrays", seed=seed, validation=validation)

    @property
    def vectors(self) -> np.ndarray:
        """The vectors as they are stored, (N, d) in their own dtype; memory-mapped where the file allows it."""
        if self.kind != "vectors" or not isinstance(self._content, np.ndarray):
            raise UserError(f"{self.spec} holds images; vectors are there only for vector data.")
        _check_mapped(self._content)
        return self._content

    def image_file(self, index: int) -> Path | None:
        """The file of an image; None of vectors, and of images that are held in memory."""
        found = None if isinstance(self._content, np.ndarray) else self._content[index]
        return found if isinstance(found, Path) else None

    @property
    def stored_side(self) -> int:
        """The shorter side of images that are held in memory, all of one size; 0 of files, which may differ in size."""
        held = self._content
        return min(held.shape[1:3]) if isinstance(held, np.ndarray) and self.kind == "images" else 0

    @property
    def digest(self) -> "Digest":
        """Hashes of what the data set holds. The content is read once, when they are first asked for."""
        if not self._hashes:
            known_by, content = digest_content(self._content, hash_files=self._hash_images)
            self._hashes.update(known_by=known_by, content=content, names=digest_names(self.names))
        return Digest(
            **self._hashes,
            examples=len(self),
            labels=digest_labels((self.labels, self.classes), (self.fine_labels, self.fine_classes)),
            attributes=digest_attributes(self.attributes),
            split=digest_parts(self._given_split),
            parts=digest_parts(self.split),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example: (d,) or (3, S, S)."""
        if self.kind == "vectors":
            return (self.vectors.shape[1],)
        side = room(self.image_size, self.rescale)
        return (3, side, side)

    @property
    def short_side(self) -> int:
        """The short side of the images as the source has them: the median of a few files; 0 where it is not known."""
        if isinstance(self._content, np.ndarray):
            return self.stored_side
        return short_side(self._content[:: max(1, len(self) // FEW)])

    def example_digests(self, rows: Tensor) -> np.ndarray:
        """The SHA-256 (n, 32), uint8, of what each of the examples ``rows`` holds: its file's bytes, or its values."""
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(self._example_digest, rows.tolist()))
        return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), 32)

    def _example_digest(self, row: int) -> bytes:
        if isinstance(self._content, np.ndarray):
            return hashlib.sha256(np.ascontiguousarray(self._content[row]).data).digest()
        found = _bytes(self._content[row])
        if found == GONE:
            raise UserError(f"{self._content[row]}: the image is no longer there.")
        return bytes.fromhex(found)

    def as_vectors(self, rows: Tensor, vectors: Tensor) -> "Dataset":
        """A data set of the examples ``rows`` alone, with vectors (n, d) in place of what they hold.

        Labels, names, parts and classes are kept.
        """
        if len(vectors) != len(rows):
            raise UserError(f"there are {len(rows)} examples and {len(vectors)} vectors for them")
        other, places = copy.copy(self), rows.tolist()
        other._content, other.kind = vectors.numpy(), "vectors"
        other.names = [self.names[i] for i in places]
        other.labels, other.split = self.labels[rows], self.split[rows.numpy()]
        other.attributes, other.feature_names, other._given_split = None, None, None
        other.fine_labels = None if self.fine_labels is None else self.fine_labels[rows]
        other._cache, other._hashes = None, {}
        return other

    def indices(self, part: str) -> Tensor:
        """The examples of "train", "validation", "test" or "all", ascending, LongTensor."""
        if part == "all":
            return torch.arange(len(self))
        if part not in PARTS:
            raise UserError(f"part is {part!r}, expected train, validation, test or all.")
        return torch.from_numpy(np.flatnonzero(self.split == PARTS[part]))

    def with_image_size(self, size: int, rescale: float = RESCALE, *, cache_bytes: int | None = None) -> "Dataset":
        """A copy whose images are decoded for crops of ``size`` that are enlarged by up to ``rescale``."""
        if self.kind != "images":
            raise UserError(f"{self.spec} holds vectors, which have no image size.")
        if size < 1:
            raise UserError(f"image size is {size}, expected a number of pixels.")
        other = copy.copy(self)
        other.image_size, other.rescale, other._cache = size, rescale, None
        other.cache_bytes = self.cache_bytes if cache_bytes is None else cache_bytes
        return other

    @property
    def cache(self) -> ImageCache:
        """Decoded images; made when first asked for, which must be before workers are forked if they are to share."""
        if self._cache is None:
            self._cache = ImageCache(len(self), self.shape, self.cache_bytes)
        return self._cache

    def batch(self, indices: Tensor | np.ndarray | Sequence[int]) -> Tensor:
        """Several examples: float32 (B, d), gathered at once, or uint8 (B, 3, S, S)."""
        rows = np.asarray(indices, dtype=np.int64)
        if self.kind == "vectors":
            return torch.from_numpy(np.asarray(self.vectors[rows], dtype=np.float32))
        if not len(rows):
            return torch.empty((0, *self.shape), dtype=torch.uint8)
        return torch.stack([self._image(int(i)) for i in rows])

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Tensor:
        if self.kind == "vectors":
            return torch.from_numpy(np.array(self.vectors[index], dtype=np.float32))
        return self._image(int(index)).clone()  # a caller may write into it; the cache must not see that

    def _image(self, index: int) -> Tensor:
        index = range(len(self))[index]
        cached = self.cache.get(index)
        if cached is None:
            cached = decode(self._content[index], self.shape[1], self.max_pixels)
            self.cache.put(index, cached)
        return cached

    def __getstate__(self) -> dict[str, Any]:
        # A DataLoader worker that is started afresh fills its own cache instead of being sent this one.
        return {**self.__dict__, "_cache": None}

    def __repr__(self) -> str:
        parts = ", ".join(f"{len(self.indices(part))} {part}" for part in ("train", "validation", "test"))
        return f"Dataset({self.name!r}: {len(self)} {self.kind}, {len(self.classes)} classes; {parts})"


class Unlabelled(Dataset):
    """Vectors (N, d) or N image files of which no class is known: all labels are -1, all examples are test ones."""

    def __init__(
        self, content: Content, names: list[str], *, image_size: int = DEFAULT_IMAGE_SIZE, rescale: float = RESCALE
    ) -> None:
        # Without Dataset.__init__, which expects classes and draws a split.
        self.name = self.spec = "queries"
        self.kind = "vectors" if isinstance(content, np.ndarray) else "images"
        self.labels = torch.full((len(names),), -1)
        self.classes, self.names = [], names
        self.split = np.full(len(names), TEST, np.int8)
        self.attributes, self.skipped, self.feature_names = None, [], None
        self.fine_labels, self.fine_classes, self.judged, self.notes = None, None, False, []
        self.image_size, self.rescale, self.cache_bytes = image_size, rescale, 0
        self._content, self._cache = content, None
        self._given_split, self._hash_images, self._hashes = None, False, {}


def open_data(
    spec: str,
    *,
    label: str = "",
    judge: str = "",
    seed: int = 0,
    validation: float = 0.0,
    on_bad_image: Literal["error", "skip"] = "error",
    cache_bytes: int = GIBIBYTE,
    hash_images: bool = False,
    max_pixels: int = MOST_PIXELS,
) -> Dataset:
    """Open labelled data.

    Args:
        spec: a folder of class folders; a ``.csv`` or ``.parquet`` of image files or vectors; an ``.npz`` with ``X``,
            ``y`` and perhaps ``test`` or ``split``, ``name``, ``classes``, ``attributes``, ``class_attributes``,
            ``attribute_names``, ``feature_names``; an ``.npy`` with labels beside it; a folder saved by `datasets`, or
            of images with their metadata; WebDataset's ``.tar``; ``digits``; or ``name:folder`` for a benchmark set
            in its official layout. docs/training.md has a line on each.
        label: the column of the labels (of an ``.npy``, their file); "": label, y, target or class. Where there are no
            columns: ``coarse`` or ``fine``.
        judge: other labels of the same examples, kept as ``fine_labels``: not trained on, but judged by.
        seed: of the random split: where the source gives no test part, 30 % of every class become one.
        validation: fraction of the training part that becomes the validation part, where the source gives none.
        on_bad_image: "error" names an unreadable image when it is met; "skip" decodes all images once now and
            leaves the unreadable out, listed in ``Dataset.skipped``.
        cache_bytes: how much memory decoded images may take in each process.
        hash_images: image files are known by a hash of their bytes, which reads them all once, instead of by their
            sizes and modification times; see ``Dataset.digest``.
        max_pixels: larger images count as unreadable.

    >>> open_data("digits", validation=0.1)
    Dataset('digits': 1797 vectors, 10 classes; 1131 train, 126 validation, 540 test)
    """
    if on_bad_image not in ("error", "skip"):
        raise UserError(f"on_bad_image is {on_bad_image!r}, expected 'error' or 'skip'.")
    listing = find_source(spec, label=label, judge=judge)()
    if on_bad_image == "skip" and not isinstance(listing.content, np.ndarray):
        bad = find_unreadable(listing.content, max_pixels)
        listing.skipped = [(str(listing.content[i]), reason) for i, reason in bad.items()]
        listing = listing.keep(np.setdiff1d(np.arange(len(listing.names)), list(bad)))
    data = Dataset(
        listing, spec=spec, seed=seed, validation=validation, cache_bytes=cache_bytes, hash_images=hash_images
    )
    data.max_pixels = max_pixels
    return data


@dataclass(frozen=True)
class Digest:
    """Hashes of a data set, one for each thing that can change in it: a change is noticed, and can be named.

    SHA-256, which processors compute in hardware: more than twice as fast here as BLAKE2.

    Attributes:
        known_by: what ``content`` was computed from: one of OTHER.
        examples: how many.
        content: of vectors, their values in float32; of image arrays, their pixels; of image files, sizes and
            modification times, or all bytes.
        names: of the examples.
        labels: with the names of the classes, and the labels before merging.
        attributes: of the attribute table; "" without one.
        split: as the source gives it; "" where it gives none.
        parts: the part of every example, as it is used.
    """

    known_by: str
    examples: int
    content: str
    names: str
    labels: str
    attributes: str
    split: str
    parts: str

    @property
    def whole(self) -> str:
        """One hash of everything, for the key of a cache."""
        return _hash(repr(self).encode())

    def changes(self, before: "Digest") -> str:
        """What is different from an earlier digest of the same source, in words; "" if nothing is.

        ``parts`` do not count: which examples are held out is chosen when the data is opened.
        """
        if self.examples != before.examples:
            return f"{before.examples} examples then, {self.examples} now"
        found = ["other names of the examples"] * (self.names != before.names)
        found += ["other labels"] * (self.labels != before.labels)
        if self.known_by == before.known_by and self.content != before.content:
            found.append(OTHER[self.known_by])
        found += ["another split"] * (self.split != before.split)
        found += ["other attributes"] * (self.attributes != before.attributes)
        same = " (the labels are the same)" if found and self.labels == before.labels else ""
        return ", ".join(found) + same

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def digest_content(content: Content, *, hash_files: bool) -> tuple[str, str]:
    """(what it is computed from, the digest) of vectors (N, d), of pixels (N, H, W) or (N, H, W, 3), or of files.

    Files count by their sizes and modification times, or with ``hash_files`` by their bytes.
    """
    if isinstance(content, np.ndarray):
        return "vectors" if content.ndim == 2 else "pixels", _of_array(content)
    if not hash_files:
        return "file times", _hash("\0".join(map(_times, content)).encode())
    with ThreadPoolExecutor() as pool:
        return "file bytes", _hash("\0".join(pool.map(_bytes, content)).encode())


def _of_array(array: np.ndarray) -> str:
    """The hash of a table as float32, whatever it is stored as, or of pixels as they are stored."""
    dtype = np.dtype("<f4") if array.ndim == 2 else array.dtype
    found = hashlib.sha256(f"{array.shape} {dtype.str}".encode())
    # In blocks, so that a file larger than memory is walked through and not loaded.
    step = max(1, BLOCK // max(1, dtype.itemsize * int(np.prod(array.shape[1:]))))
    for start in range(0, len(array), step):
        found.update(np.ascontiguousarray(array[start : start + step], dtype=dtype).data)
    return found.hexdigest()


def digest_names(names: Sequence[str]) -> str:
    """The hash of names in their order."""
    if isinstance(names, Numbered) or all(name == str(row) for row, name in enumerate(names)):
        return "numbers"
    found = hashlib.sha256()
    for start in range(0, len(names), BLOCK // 256):
        some = names[start : start + BLOCK // 256]
        found.update("".join(f"{name}\0" for name in some).encode(errors="surrogateescape"))
    return found.hexdigest()


def digest_labels(*given: tuple[Tensor | None, Sequence[str] | None]) -> str:
    """The hash of several labellings: labels (N,) with the names of their classes; None where there is none."""
    found = hashlib.sha256()
    for labels, classes in given:
        if labels is not None and classes is not None:
            found.update(digest_names(classes).encode())
            found.update(labels.contiguous().numpy().data)
    return found.hexdigest()


def digest_attributes(attributes: Attributes | None) -> str:
    """The hash of an attribute table."""
    if attributes is None:
        return ""
    about = f"{attributes.level} {digest_names(attributes.names)} {_of_array(attributes.values)}"
    return _hash(about.encode())


def digest_parts(split: np.ndarray | None) -> str:
    """The hash of a split (N,), the part of every example."""
    return "" if split is None else _hash(split.astype(np.int8).tobytes())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _times(source: Path | EncodedImage) -> str:
    if not isinstance(source, Path):
        return source.mark()
    try:
        found = os.stat(source)
    except OSError:  # gone, or a link in a circle: reported when the image is read
        return GONE
    return f"{found.st_size} {found.st_mtime_ns}"


def _bytes(source: Path | EncodedImage) -> str:
    if not isinstance(source, Path):
        return _hash(source.read())
    try:
        return file_digest(source)
    except FileNotFoundError:
        return GONE


def _check_mapped(array: np.ndarray) -> None:
    """Refuse to read an array whose file was cut short while it was mapped: the system would kill the process."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return
    try:
        size = os.stat(array.filename).st_size
    except FileNotFoundError:  # only its name is gone
        return
    if size < array.offset + array.nbytes:
        raise UserError(f"{array.filename}: was cut to {size:,} bytes while it was in use: put it back and go on.")
