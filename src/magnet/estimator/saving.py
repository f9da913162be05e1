"""An estimator as one safetensors file: arrays as tensors, all else as JSON beside them.

What is read is checked against `ARRAYS` and `VALUES`, and nothing else is ever set.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from magnet.errors import Bounds, Count, Positive, UserError, checked
from magnet.files import check_layout, memory, read_tensors, write_tensors

FORMAT = "magnet-estimator/4"
LABELS = ("classes_", "centre_labels_", "feature_names_in_")  # kept as JSON, with their type
# The fitted attributes of both estimators. C classes, J clusters, k dimensions of representations, d features, m
# landmarks, f the features that the map takes, which are d or m; e is k, or 0.
ARRAYS = {
    "centres_": "float J k", "centre_counts_": "int J", "centre_shifts_": "float J k", "class_weight_": "float C",
    "mean_": "?float f", "components_": "?float k f", "landmarks_": "?float m d", "landmark_weights_": "?float d",
    "map_": "?float e e",
}  # fmt: skip
VALUES: dict[str, Any] = {
    "variance_": Annotated[float, Bounds(0)], "scaling_": Positive, "novelty_threshold_": Annotated[float, Bounds(0)],
    "n_clusters_": Annotated[int, Bounds(1, 2**31)], "start_clusters_": Annotated[int, Bounds(1, 2**31)],
    "n_features_in_": Annotated[int, Bounds(1, 2**31)],
    "power_": Positive, "shrinkage_": Annotated[float, Bounds(0, 1)], "standardize_": bool,
    "kernel_width_": Annotated[float, Bounds(0)], "unit_length_": bool, "length_": Annotated[float, Bounds(0)],
    "training_scaling_": Positive, "pull_": Positive | None,
    "n_iter_": Count, "loss_curve_": list[float], "validation_loss_curve_": list[float],
}  # fmt: skip
PLAIN = {"variance_", "scaling_", "novelty_threshold_", "n_clusters_", "n_features_in_"}  # without a map
MOST_LETTERS = 2**26  # of all labels together
MEMBER_BYTES = 64  # that `extend` needs for each member of a cluster
Estimator = TypeVar("Estimator", bound=BaseEstimator)


class _About(TypedDict):
    kind: str
    params: dict[str, Any]
    values: dict[str, Any]


class _Labels(TypedDict):
    dtype: str
    items: list[str | int | float | bool | None]


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
        elif name in ARRAYS:
            arrays[name] = np.ascontiguousarray(value)
        elif name in VALUES:
            values[name] = _plain(value, name)
        else:
            raise UserError(f"{name} cannot be saved: it is not an attribute that `fit` sets")
    params = {name: _param_to_json(value, name) for name, value in estimator.get_params(deep=False).items()}
    about = {"kind": type(estimator).__name__, "params": params, "values": values}
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    write_tensors(path, tensors, {"format": FORMAT, "estimator": json.dumps(about)})


def load_estimator(kind: type[Estimator], path: str | os.PathLike[str]) -> Estimator:
    """Read an estimator of this kind."""
    if not Path(path).is_file():
        raise UserError(f"no estimator at {path}: expected a file written by {kind.__name__}.save")
    tensors, metadata, _ = read_tensors(path, None, form=FORMAT, what="an estimator")
    try:
        about: _About = checked(json.loads(metadata.get("estimator", "")), _About, str(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as an estimator ({error}): it may be cut short") from error
    if about["kind"] != kind.__name__:
        raise UserError(f"{path} holds a {about['kind']}, not a {kind.__name__}: load it with {about['kind']}.load")
    params = {name: _param_from_json(value, f"{path}: {name}") for name, value in about["params"].items()}
    try:
        estimator: Estimator = kind(**params)
        estimator._check_parameters()
    except (TypeError, ValueError) as error:
        raise UserError(f"{path} was written by another version of magnet ({error})") from error
    for name, value in (_fitted(kind, about["values"], tensors, str(path))).items():
        setattr(estimator, name, value)
    return estimator


def _fitted(kind: type, values: Mapping[str, Any], tensors: dict[str, Any], where: str) -> dict[str, Any]:
    """The fitted attributes, all of which are known, needed, and fit each other."""
    unknown = sorted(values.keys() - VALUES.keys() - set(LABELS))
    if unknown:
        raise UserError(f"{where} has {unknown[0]!r}, which is not known here")
    found = {name: checked(value, VALUES[name], f"{where}: {name}") for name, value in values.items() if name in VALUES}
    labels = {name: _labels_from_json(values[name], f"{where}: {name}") for name in LABELS if name in values}
    maps = hasattr(kind, "transform")
    needed = {"classes_", "centre_labels_"} | (VALUES.keys() | ARRAYS.keys() if maps else PLAIN)
    absent = sorted(needed - labels.keys() - found.keys() - tensors.keys())
    if absent:
        raise UserError(f"{where} lacks {absent[0]!r}")
    sizes = {"C": len(labels["classes_"]), "J": len(labels["centre_labels_"])}
    sizes["d" if "mean_" in tensors else "k"] = found["n_features_in_"]
    if "landmarks_" in tensors:
        sizes["f"] = len(tensors["landmarks_"]) or found["n_features_in_"]
    sizes = check_layout(tensors, ARRAYS, where, sizes)
    if sizes.get("e", 0) != (sizes["k"] if found.get("length_") else 0):
        raise UserError(
            f"{where}: a map of {sizes.get('e', 0)} dimensions does not fit representations of {sizes['k']}"
        )
    if not set(labels["centre_labels_"].tolist()) <= set(labels["classes_"].tolist()):
        raise UserError(f"{where}: a cluster has a label that is not among the classes")
    if int(tensors["centre_counts_"].min()) < 1 or float(tensors["class_weight_"].min()) < 0:
        raise UserError(f"{where}: a cluster has no members, or a class a negative weight")
    if float(tensors["centre_counts_"].double().sum()) > memory() / MEMBER_BYTES:
        raise UserError(f"{where}: the clusters have more members than memory could hold")
    arrays = {name: (t.double() if t.is_floating_point() else t.long()).numpy().copy() for name, t in tensors.items()}
    return found | labels | arrays


def _labels_to_json(labels: NDArray[Any]) -> dict[str, Any]:
    kind = labels.dtype.str if labels.dtype.kind in "biufU" else "object"
    return {"dtype": kind, "items": [_plain(label, "a label") for label in labels.tolist()]}


def _labels_from_json(value: Any, where: str) -> NDArray[Any]:
    given: _Labels = checked(value, _Labels, where)
    items, dtype = given["items"], given["dtype"]
    labels = np.empty(len(items), dtype=object)
    labels[:] = items
    if dtype == "object":
        return labels
    if not re.fullmatch(r"[<>|=]?([biuf]\d{1,2}|U\d{1,7})", dtype):
        raise UserError(f"{where} are of type {dtype[:20]!r}, expected numbers or text")
    try:
        room = len(items) * np.dtype(dtype).itemsize
        if room <= MOST_LETTERS:
            return labels.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{where} are not of type {dtype} ({error})") from error
    raise UserError(f"{where} are of type {dtype}: too large for {len(items)} labels")


def _param_to_json(value: Any, name: str) -> Any:
    if isinstance(value, dict):  # class_weight: JSON would turn its keys into strings
        return {"pairs": [[_plain(key, name), _plain(item, name)] for key, item in value.items()]}
    return None if isinstance(value, np.random.RandomState | np.random.Generator) else _plain(value, name)


def _param_from_json(value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        return checked(value, str | int | float | bool | None, where)
    plain = str | int | float | bool | None
    return dict(checked(value, dict[str, list[tuple[plain, plain]]], where).get("pairs", []))


def _plain(value: Any, name: str) -> Any:
    """A value that JSON gives back as it was."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list):
        return [_plain(item, name) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise UserError(f"{name} cannot be saved: {value!r} is a {type(value).__name__}, not a string, number or boolean")
