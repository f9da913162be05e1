"""Vectors given as arrays: checked, and listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from magnet.data.attributes import Attributes, from_classes, from_table
from magnet.data.listing import Listing
from magnet.data.numbered import Numbered
from magnet.errors import UserError

KEYS = (
    "X", "y", "test", "split", "name", "classes", "attributes", "class_attributes", "attribute_names", "feature_names",
)  # fmt: skip


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
