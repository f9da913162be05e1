"""Vectors in arrays, or in .npz and .npy files: read, checked and listed."""

import ctypes
import faulthandler
import math
import os
import signal
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from magnet.data.columns import LABELS, VECTORS, find_label, read_labels, read_split, read_test
from magnet.data.listings import Attributes, Listing, Numbered
from magnet.errors import UserError, first_few
from magnet.files import memory, opened, reading

KEYS = (
    "X", "y", "test", "split", "name", "classes", "attributes", "class_attributes", "attribute_names", "feature_names",
    "judge", "judge_classes",
)  # fmt: skip
SPARSE = (
    "vectors must be dense: X.toarray() if it fits into memory, or "
    "sklearn.decomposition.TruncatedSVD(256).fit_transform(X), which keeps what varies most"
)
LEVELS = 64  # steps of float32 that the values of a column take at least, or they are lost in it
MAP_FROM_BYTES = 2**28  # smaller arrays are read: a mapped file that is cut in the middle of a read ends the process
LOCAL_HEADER_BYTES = 30


def list_arrays(given: Mapping[str, Any], name: str, called: Mapping[str, str] | None = None) -> Listing:
    """List vectors ``X`` (N, d) with labels ``y`` (N,) and the optional arrays of KEYS.

    Messages name the data as ``name``, and its arrays as ``called``, if that is another name than that among KEYS.
    """
    named = {key: key for key in KEYS} | {key: name for key, name in (called or {}).items() if name}
    for key in ("X", "y"):
        if given.get(key) is None:
            raise UserError(f"{name}: no {key!r} among {sorted(given)}; expected X (N, d) and y (N,).")
    if hasattr(given["X"], "toarray"):
        raise UserError(f"{name}: X is a sparse matrix of shape {given['X'].shape}; {SPARSE}.")
    arrays = {key: np.asanyarray(given[key]) for key in KEYS if given.get(key) is not None}
    for key, array in arrays.items():
        if array.dtype.hasobject and key not in ("y", "judge", "name", "split"):
            raise UserError(f"{name}: {named[key]} is an array of Python objects; expected plain numbers or strings.")
    X = arrays["X"]
    if X.ndim != 2 or not X.shape[1] or X.dtype.kind not in "biuf":
        raise UserError(f"{name}: {named['X']} is {X.dtype} of shape {X.shape}, expected numbers of shape (N, d).")
    for key in ("y", "test", "split", "name", "judge"):
        if key in arrays and arrays[key].shape != (len(X),):
            found = f"{named[key]} has shape {arrays[key].shape}, but {named['X']} has {len(X)} rows"
            raise UserError(f"{name}: {found}; expected shape ({len(X)},), one value a row.")
    for key in ("classes", "judge_classes", "attribute_names", "feature_names"):
        if key in arrays and arrays[key].ndim != 1:
            raise UserError(f"{name}: {named[key]} has shape {arrays[key].shape}, expected a list of names.")
    if "feature_names" in arrays and arrays["feature_names"].shape != X.shape[1:]:
        shape = arrays["feature_names"].shape
        raise UserError(f"{name}: feature_names has shape {shape}, but X has {X.shape[1]} columns.")
    _check_numbers(X, name, _words(arrays.get("feature_names")))
    labels, classes = read_labels(arrays["y"], f"{name}: {named['y']}", _words(arrays.get("classes")))
    judge = None
    if "judge" in arrays:
        judge = read_labels(arrays["judge"], f"{name}: {named['judge']}", _words(arrays.get("judge_classes")))
    return Listing(
        name=name,
        content=X,
        labels=labels,
        classes=classes,
        names=[str(row) for row in arrays["name"]] if "name" in arrays else Numbered(len(X)),
        split=_split(arrays, name),
        attributes=_attributes(arrays, labels, len(classes), name),
        feature_names=_words(arrays.get("feature_names")),
        judge=judge,
    )


def list_npz(path: Path, label: str = "", judge: str = "") -> Listing:
    """The vectors of an .npz file; see `npz_keys` for what its arrays may be called."""
    called = npz_keys(path, label, judge)
    found = read_npz(path, tuple(called.values()), required=(called["X"], called["y"]))
    listing = list_arrays({key: found[name] for key, name in called.items() if name in found}, str(path), called)
    listing.name = path.stem
    return listing


def npz_keys(path: Path, label: str = "", judge: str = "") -> dict[str, str]:
    """What the arrays of an .npz file are called, by what `list_arrays` calls them. The arrays are not read.

    Vectors and labels may be called as in VECTORS and LABELS too, such as ``data`` and ``target``. ``classes`` names
    the labels that are trained on by default; labels under another name bring their own, or NAME_classes.
    """
    names = npz_names(path)
    if {"indptr", "indices", "shape"} <= set(names):
        raise UserError(f"{path}: holds a sparse matrix; {SPARSE}.")
    vectors = next((name for name in VECTORS if name in names), None)
    if vectors is None:
        raise UserError(f"{path}: holds {names}, expected at least X, y.")
    default = "y" if "y" in names else ""
    if not (label or default or set(LABELS) & set(names)):
        raise UserError(f"{path}: holds {names}, expected at least X, y; name the labels as --label NAME.")
    chosen = find_label(names, str(path), label or default)
    default = default or next((name for name in LABELS if name in names), "")
    called = {key: key for key in KEYS if key in names and key not in ("judge", "judge_classes")}
    called |= {"X": vectors, "y": chosen}
    if "classes" not in called and "target_names" in names:  # as scikit-learn calls them
        called["classes"] = "target_names"
    if chosen != default:  # the names of the classes are those of other labels
        called.pop("classes", None)
    if f"{chosen}_classes" in names:
        called["classes"] = f"{chosen}_classes"
    if judge:
        called["judge"] = find_label(names, str(path), judge, option="--judge")
        classes = "classes" if called["judge"] == default else f"{called['judge']}_classes"
        called |= {"judge_classes": classes} if classes in names else {}
    return called


def npz_names(path: Path) -> list[str]:
    """The names of the arrays in an .npz file."""
    with reading(path, "an .npz file"), opened(path) as file, zipfile.ZipFile(file) as archive:
        return sorted(name.removesuffix(".npy") for name in archive.namelist())


def list_npy(path: Path, label: str = "", judge: str = "") -> Listing:
    """The vectors of an .npy file, with labels in a file beside it: see `labels_beside`."""
    arrays = {"X": read_npy(path), "y": _read_label_file(labels_beside(path, label))}
    if judge:
        arrays["judge"] = _read_label_file(labels_beside(path, judge))
    listing = list_arrays(arrays, str(path), {"y": f"the file of labels {label}".strip()})
    listing.name = path.stem
    return listing


def labels_beside(path: Path, label: str = "") -> Path:
    """The file with the labels of the vectors in an .npy file: the file that was given, or one with a usual name.

    ``X.npy`` has ``y.npy``, ``X_train.npy`` has ``y_train.npy``, any file has ``y``, ``labels`` or ``target`` as .npy
    or .txt, one label a line.
    """
    if label:
        given = [Path(label).expanduser(), path.parent / label]
        found = next((file for file in given if file.is_file()), None)
        if found is None:
            raise UserError(
                f"--label {label} is no file that exists; of {path} it is an .npy, or a .txt with a label a line."
            )
        return found
    stems = [path.stem.replace("X", "y", 1), *LABELS]
    files = (path.with_name(f"{stem}{kind}") for stem in stems for kind in (".npy", ".txt"))
    tried = [file for file in files if file.stem != path.stem]
    beside = next((file for file in tried if file.is_file()), None)
    if beside is None:
        raise UserError(
            f"{path}: found no labels beside it, such as {tried[0].name} or labels.txt; name them as --label FILE."
        )
    return beside


def read_npy(path: Path) -> np.ndarray:
    """The array in an .npy file, memory-mapped if it is large, without pickle."""
    with reading(path, "an .npy file"), opened(path) as file:
        return _mapped(path, file, os.fstat(file.fileno()).st_size)


def _read_label_file(path: Path) -> np.ndarray:
    if path.suffix.lower() == ".npy":
        return np.array(read_npy(path))
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
        return np.array([line.strip() for line in lines])
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot be read as UTF-8 text ({error}).") from error


def read_npz(path: Path, keys: tuple[str, ...], required: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file that ``keys`` name, without pickle; the arrays that ``required`` names must exist.

    Large arrays that are stored uncompressed are memory-mapped.
    """
    with reading(path, "an .npz file"), opened(path) as file, zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if not set(required) <= members.keys():
            raise UserError(f"{path}: holds {sorted(members)[:20]}, expected at least {', '.join(required)}.")
        return {key: _read(path, file, archive, members[key]) for key in keys if key in members}


def _check_numbers(X: np.ndarray, name: str, columns: list[str] | None) -> None:
    """Raise if numbers are not finite, or if float32, in which they are used, cannot tell them apart."""
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    # In blocks, so that a file larger than memory is walked through and not loaded.
    step = max(1, 2**22 // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        block = X[start : start + step]
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        bad = sum(int((~np.isfinite(X[i : i + step]).all(axis=1)).sum()) for i in range(0, len(X), step))
        if bad:
            where = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
            raise UserError(
                f"{name}: {bad} of {len(X)} rows of X hold NaN or infinity, in {len(where)} of {X.shape[1]} columns "
                f"({first_few([_called(int(c), columns) for c in where])}); remove or repair them."
            )
    size = np.maximum(np.abs(low), np.abs(high))
    if len(X) and float(size.max()) > float(np.finfo(np.float32).max):
        raise UserError(
            f"{name}: X holds {float(size.max()):.3g}, beyond the range of float32: divide it by a constant."
        )
    if len(X) < 2 or X.dtype in (np.float32, np.float16, np.bool_):
        lost = np.zeros(0, np.intp)
    else:
        narrow = (high - low < LEVELS * np.finfo(np.float32).eps * size) | (size < np.finfo(np.float32).tiny)
        lost = np.flatnonzero((narrow & (high > low)) | ((X.dtype.kind in "iu") & (size > 2**53)))
    if len(lost):
        c = int(lost[0])
        raise UserError(
            f"{name}: {len(lost)} of {X.shape[1]} columns of X, as {_called(c, columns)}, from {low[c]:.12g} to "
            f"{high[c]:.12g}, are lost in float32: subtract the mean of each column and divide by its deviation first."
        )


def _called(column: int, names: list[str] | None) -> str:
    return f"number {column}" if names is None else names[column]


def _words(names: np.ndarray | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


def _split(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray | None:
    if "split" in arrays:
        return read_split(arrays["split"], name)
    return read_test(arrays["test"], name) if "test" in arrays else None


def _attributes(arrays: Mapping[str, np.ndarray], labels: np.ndarray, classes: int, name: str) -> Attributes | None:
    listed = _words(arrays.get("attribute_names"))
    if "attributes" in arrays:
        return Attributes.from_table(arrays["attributes"], listed, len(labels))
    if "class_attributes" in arrays:
        if len(arrays["class_attributes"]) != classes:
            found = len(arrays["class_attributes"])
            raise UserError(f"{name}: class_attributes has {found} rows, but there are {classes} classes.")
        return Attributes.from_classes(arrays["class_attributes"], listed, labels)
    return None


def _read(path: Path, file: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array of an .npz file: memory-mapped if it is large and stored uncompressed, else read into memory."""
    if member.compress_type == zipfile.ZIP_STORED and member.file_size >= MAP_FROM_BYTES:
        file.seek(_data_offset(file, member))
        return _mapped(path, file, member.file_size)
    if member.file_size > memory():
        size = f"{member.file_size / 1e9:,.0f} GB"
        raise UserError(f"{path}: {member.filename} has {size} unpacked, which does not fit into memory.")
    with reading(f"{path}: {member.filename}", "an array"), archive.open(member) as stream:
        try:
            return np.asarray(npy.read_array(stream, allow_pickle=False))
        except ValueError as error:
            if "Object arrays" in str(error):
                raise _objects(f"{path}: {member.filename}") from None
            raise


def _mapped(path: Path, file: IO[bytes], size: int) -> np.ndarray:
    """The array whose header comes next in an open file, mapped if large; header and numbers have ``size`` bytes."""
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(file)
    if version not in readers:
        raise UserError(f"{path}: is of version {version} of the format, which plain numbers and strings do not need.")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:  # pickles: reading them runs code of whoever wrote the file
        raise _objects(str(path))
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise UserError(f"{path}: says that it holds {dtype} of shape {shape}, but has {size:,} bytes for that.")
    if not math.prod(shape):
        return np.empty(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    if size >= MAP_FROM_BYTES:
        return np.memmap(watched(path), dtype, "r", offset=file.tell(), shape=shape, order="F" if fortran else "C")
    found = np.frombuffer(file.read(size), dtype)
    return found.reshape(shape[::-1]).T if fortran else found.reshape(shape)


def watched(path: Path) -> Path:
    """The path of a file that is about to be mapped; from now on a read beyond its end says so.

    The system ends a process that reads what was cut off a mapped file, with SIGBUS and without a word. A handler of
    Python's would run after the read, which cannot end: this one is called by the C library. Where Python's own report
    of such faults is on, it stays.
    """
    if not _mapped_files and hasattr(signal, "SIGBUS") and not faulthandler.is_enabled():
        ctypes.CDLL(None).signal(signal.SIGBUS, _ON_BUS_ERROR)
    _mapped_files.add(path)
    return path


def _say_what_was_cut(_: int) -> None:
    files = " or ".join(map(str, sorted(_mapped_files)))
    line = f"magnet: {files} was cut while it was being read: put it back and go on.\n"
    os.write(2, line.encode(errors="backslashreplace"))
    os._exit(1)


_mapped_files: set[Path] = set()
_ON_BUS_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_int)(_say_what_was_cut)


def _objects(where: str) -> UserError:
    return UserError(
        f"{where} cannot be read: it holds Python objects, as text columns of pandas do; save plain numbers or "
        "strings: values.astype(str)."
    )


def _data_offset(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    # The local header repeats the name and may have more extra bytes than the directory says: read its own.
    file.seek(member.header_offset)
    header = file.read(LOCAL_HEADER_BYTES)
    if len(header) < LOCAL_HEADER_BYTES or header[:4] != b"PK\x03\x04":
        raise UserError(f"{member.filename}: damaged zip header.")
    name, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    return member.header_offset + LOCAL_HEADER_BYTES + name + extra
