"""An estimator as one safetensors file: arrays as tensors, all else as JSON in its metadata."""

import json
import os
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator

from magnet.errors import UserError
from magnet.files import replacing

FORMAT = "magnet-estimator/1"
LABELS = ("classes_", "centre_labels_", "feature_names_in_")  # kept as JSON, with their type
Estimator = TypeVar("Estimator", bound=BaseEstimator)


def save(estimator: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder: give the name of a file")
    arrays: dict[str, NDArray[Any]] = {}
    values: dict[str, Any] = {}
    for name, value in vars(estimator).items():
        if not name.endswith("_") or name.startswith("_"):
            continue
        if name in LABELS:
            values[name] = _labels_to_json(value)
        elif isinstance(value, np.ndarray):
            arrays[name] = np.ascontiguousarray(value)
        else:
            values[name] = _plain(value, name)
    params = {name: _param_to_json(value, name) for name, value in estimator.get_params(deep=False).items()}
    about = {"kind": type(estimator).__name__, "params": params, "values": values}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        save_file(arrays, draft, metadata={"format": FORMAT, "estimator": json.dumps(about)})


def load_estimator(kind: type[Estimator], path: str | os.PathLike[str]) -> Estimator:
    """Read an estimator of this kind."""
    if not Path(path).is_file():
        raise UserError(f"no estimator at {path}: expected a file written by {kind.__name__}.save")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise UserError(f"{path} is not an estimator: its format is {metadata.get('format')!r}, not {FORMAT!r}")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} cannot be read as an estimator ({error}): it may be cut short") from error
    about = json.loads(metadata["estimator"])
    if about["kind"] != kind.__name__:
        raise UserError(f"{path} holds a {about['kind']}, not a {kind.__name__}: load it with {about['kind']}.load")
    try:
        estimator: Estimator = kind(**{name: _param_from_json(value) for name, value in about["params"].items()})
    except TypeError as error:
        raise UserError(f"{path} was written by another version of magnet ({error})") from error
    for name, value in about["values"].items():
        setattr(estimator, name, _labels_from_json(value) if name in LABELS else value)
    for name, array in arrays.items():
        setattr(estimator, name, array)
    return estimator


def _labels_to_json(labels: NDArray[Any]) -> dict[str, Any]:
    kind = labels.dtype.str if labels.dtype.kind in "biufU" else "object"
    return {"dtype": kind, "items": [_plain(label, "a label") for label in labels.tolist()]}


def _labels_from_json(value: dict[str, Any]) -> NDArray[Any]:
    labels = np.empty(len(value["items"]), dtype=object)
    labels[:] = value["items"]
    return labels if value["dtype"] == "object" else labels.astype(value["dtype"])


def _param_to_json(value: Any, name: str) -> Any:
    if isinstance(value, dict):  # class_weight: JSON would turn its keys into strings
        return {"pairs": [[_plain(key, name), _plain(item, name)] for key, item in value.items()]}
    return None if isinstance(value, np.random.RandomState | np.random.Generator) else _plain(value, name)


def _param_from_json(value: Any) -> Any:
    return {key: item for key, item in value["pairs"]} if isinstance(value, dict) else value


def _plain(value: Any, name: str) -> Any:
    """A value that JSON gives back as it was."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list):
        return [_plain(item, name) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise UserError(f"{name} cannot be saved: {value!r} is a {type(value).__name__}, not a string, number or boolean")
