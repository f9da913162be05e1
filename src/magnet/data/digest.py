"""Digest: what a data set holds, in short hashes. A changed data set is noticed, and what changed can be said.

SHA-256, which processors compute in hardware: more than twice as fast here as BLAKE2.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor

from magnet.data.arrays import Numbered
from magnet.data.attributes import Attributes
from magnet.files import file_digest

BLOCK = 2**24  # bytes of an array, and names, that are looked at together
GONE = "gone"  # stands for a file that is no longer there
OTHER = {
    "vectors": "other values in X",
    "pixels": "other pixels",
    "file times": "other sizes or modification times of image files",
    "file bytes": "other bytes in image files",
}


@dataclass(frozen=True)
class Digest:
    """Hashes of a data set, one for each thing that can change in it.

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

    def changes(self, before: Digest) -> str:
        """What is different from an earlier digest of the same source, in words; "" if nothing is.

        ``parts`` do not count: which examples are held out is the choice of whoever opens the data.
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

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self | None:
        """The inverse of `to_dict`; None for what another version wrote."""
        return cls(**values) if values.keys() == {field.name for field in fields(cls)} else None


def digest_content(content: np.ndarray | Sequence[Path], *, hash_files: bool) -> tuple[str, str]:
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
    if names == Numbered(len(names)):
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


def _times(file: Path) -> str:
    try:
        found = os.stat(file)
    except FileNotFoundError:  # whoever wants to see the image is told so
        return GONE
    return f"{found.st_size} {found.st_mtime_ns}"


def _bytes(file: Path) -> str:
    try:
        return file_digest(file)
    except FileNotFoundError:
        return GONE
