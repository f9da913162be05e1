"""Vectors given as arrays or in an .npz file: read, checked and listed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, overload

import numpy as np
from numpy.lib import format as npy

from magnet.data.attributes import Attributes, from_classes, from_table
from magnet.data.listings import Listing
from magnet.errors import UserError

KEYS = (
    "X", "y", "test", "split", "name", "classes", "attributes", "class_attributes", "attribute_names", "feature_names",
)  # fmt: skip
MAP_FROM_BYTES = 2**20
LOCAL_HEADER_BYTES = 30


class Numbered(Sequence[str]):
    """The names "0", "1", ... of rows without names, made when asked for: five million strings would take 300 MB.

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

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbered):
            return len(self) == len(other)
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Numbered({len(self)})"


def list_arrays(given: Mapping[str, Any], name: str) -> Listing:
    """List vectors ``X`` (N, d) with labels ``y`` (N,) and the optional arrays of KEYS."""
    for key in ("X", "y"):
        if given.get(key) is None:
            raise UserError(f"{name}: no {key!r} among {sorted(given)}; expected X (N, d) and y (N,).")
    arrays = {key: np.asanyarray(given[key]) for key in KEYS if given.get(key) is not None}
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise UserError(f"{name}: {key} is an array of Python objects; expected plain numbers or strings.")
    X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or not X.shape[1] or X.dtype.kind not in "biuf":
        raise UserError(f"{name}: X is {X.dtype} of shape {X.shape}, expected numbers of shape (N, d).")
    for key in ("y", "test", "split", "name"):
        if key in arrays and arrays[key].shape != (len(X),):
            raise UserError(f"{name}: {key} has shape {arrays[key].shape}, but X has {len(X)} rows.")
    _check_finite(X, name)
    labels, classes = _labels(y, arrays.get("classes"), name)
    return Listing(
        name=name,
        content=X,
        labels=labels,
        classes=classes,
        names=[str(row) for row in arrays["name"]] if "name" in arrays else Numbered(len(X)),
        split=_split(arrays, name),
        attributes=_attributes(arrays, labels, len(classes), name),
        feature_names=_feature_names(arrays, name),
    )


def read_npz(path: Path, keys: tuple[str, ...], required: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file that ``keys`` name, without pickle; those that ``required`` names must be there.

    Large arrays that are stored uncompressed are memory-mapped.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if not set(required) <= members.keys():
                raise UserError(f"{path}: holds {sorted(members)}, expected at least {', '.join(required)}.")
            return {key: _read(path, archive, members[key]) for key in keys if key in members}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise UserError(f"{path}: cannot be read as an .npz file ({error}).") from error


def _check_finite(X: np.ndarray, name: str) -> None:
    if X.dtype.kind != "f":
        return
    # In blocks, so that a file larger than memory is walked through and not loaded.
    step = max(1, 2**24 // max(1, X.shape[1]))
    bad = sum(int((~np.isfinite(X[i : i + step]).all(axis=1)).sum()) for i in range(0, len(X), step))
    if bad:
        raise UserError(f"{name}: {bad} of {len(X)} rows of X hold NaN or infinity; remove or repair them.")


def _labels(y: np.ndarray, classes: np.ndarray | None, name: str) -> tuple[np.ndarray, list[str]]:
    if y.dtype.kind == "f" and np.array_equal(y, np.round(y)):
        y = y.astype(np.int64)
    if y.dtype.kind not in "biuU":
        raise UserError(f"{name}: y is {y.dtype}, expected class ids (integers) or class names (strings).")
    if classes is None:
        found, labels = np.unique(y, return_inverse=True)
        return labels.astype(np.int64), [str(value) for value in found]
    listed = [str(value) for value in classes]
    if y.dtype.kind == "U":
        ids = {value: i for i, value in enumerate(listed)}
        unknown = sorted(set(y.tolist()) - ids.keys())
        if unknown:
            raise UserError(f"{name}: y holds {unknown[0]!r}, which is not among the {len(listed)} classes.")
        return np.array([ids[value] for value in y.tolist()], dtype=np.int64), listed
    if len(y) and not (y.min() >= 0 and y.max() < len(listed)):
        raise UserError(f"{name}: y runs from {y.min()} to {y.max()}, but there are {len(listed)} classes.")
    return y.astype(np.int64), listed


def _split(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray | None:
    if "split" in arrays:
        if not np.isin(arrays["split"], (0, 1, 2)).all():
            found = np.unique(arrays["split"])[:5].tolist()
            raise UserError(f"{name}: split holds {found}, expected 0 train, 1 validation, 2 test.")
        return arrays["split"].astype(np.int8)
    if "test" in arrays:
        if not np.isin(arrays["test"], (0, 1)).all():
            raise UserError(f"{name}: test is {arrays['test'].dtype}, expected True for test examples.")
        return 2 * arrays["test"].astype(np.int8)
    return None


def _feature_names(arrays: Mapping[str, np.ndarray], name: str) -> list[str] | None:
    names, width = arrays.get("feature_names"), arrays["X"].shape[1]
    if names is None:
        return None
    if names.shape != (width,):
        raise UserError(f"{name}: feature_names has shape {names.shape}, but X has {width} columns.")
    return [str(value) for value in names]


def _attributes(arrays: Mapping[str, np.ndarray], labels: np.ndarray, classes: int, name: str) -> Attributes | None:
    names = arrays.get("attribute_names")
    listed = None if names is None else [str(value) for value in names]
    if "attributes" in arrays:
        return from_table(arrays["attributes"], listed, len(labels))
    if "class_attributes" in arrays:
        if len(arrays["class_attributes"]) != classes:
            found = len(arrays["class_attributes"])
            raise UserError(f"{name}: class_attributes has {found} rows, but there are {classes} classes.")
        return from_classes(arrays["class_attributes"], listed, labels)
    return None


def _read(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    try:
        if member.compress_type == zipfile.ZIP_STORED and member.file_size >= MAP_FROM_BYTES:
            mapped = _map(path, member)
            if mapped is not None:
                return mapped
        with archive.open(member) as stream:
            return npy.read_array(stream, allow_pickle=False)
    except ValueError as error:
        # Objects in an .npy are pickles, and reading a pickle runs code of whoever wrote the file.
        raise UserError(f"{path}: {member.filename} cannot be read ({error}).") from error


def _map(path: Path, member: zipfile.ZipInfo) -> np.ndarray | None:
    """The member's array mapped in place, or None when its header is of a kind that must be read."""
    with path.open("rb") as file:
        file.seek(_data_offset(file, member))
        version = npy.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = npy.read_array_header_2_0(file)
        else:
            return None
        if dtype.hasobject:
            return None
        return np.memmap(path, dtype, "r", offset=file.tell(), shape=shape, order="F" if fortran else "C")


def _data_offset(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    # The local header repeats the name and may have more extra bytes than the directory says: read its own.
    file.seek(member.header_offset)
    header = file.read(LOCAL_HEADER_BYTES)
    if len(header) < LOCAL_HEADER_BYTES or header[:4] != b"PK\x03\x04":
        raise UserError(f"{member.filename}: damaged zip header.")
    name, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    return member.header_offset + LOCAL_HEADER_BYTES + name + extra
