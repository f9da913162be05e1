"""Checks of parameters, made when an estimator is fitted."""

from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from magnet.errors import UserError

_OR_AUTO = ' or "auto"'


def check_number(value: Any, name: str, *, least: float, whole: bool = False, auto: bool = False) -> None:
    """Raise unless ``value`` is a number > ``least`` (>= for whole numbers), or "auto" where that is allowed."""
    if auto and isinstance(value, str) and value == "auto":
        return
    kind = Integral if whole else Real
    if not _is(value, kind) or not (value >= least if whole else value > least):
        wanted = f"a whole number >= {least:g}" if whole else f"a number > {least:g}"
        raise UserError(f"{name} must be {wanted}{_OR_AUTO if auto else ''}; found {value!r}")


def check_fraction(value: Any, name: str, *, auto: bool = False) -> None:
    """Raise unless 0 <= ``value`` < 1, or "auto" if allowed."""
    if auto and isinstance(value, str) and value == "auto":
        return
    if not _is(value, Real) or not 0 <= value < 1:
        raise UserError(f"{name} must be in [0, 1){_OR_AUTO if auto else ''}; found {value!r}")


def check_device(value: Any) -> None:
    """Raise unless torch knows the device."""
    try:
        torch.device(value)
    except (RuntimeError, TypeError) as error:
        raise UserError(f'device must be "cpu", "cuda" or another of torch\'s; found {value!r}') from error


def checked_targets(y: Any) -> NDArray[Any]:
    """Labels (n,) that a classifier can tell apart and put in order; objects may be strings, integers or booleans."""
    y = column_or_1d(y, warn=True)
    # scikit-learn knows objects as strings only; integers among them are just as good.
    plain = np.asarray(y.tolist()) if y.dtype == object and all(isinstance(label, Integral) for label in y) else y
    check_classification_targets(plain)
    return y


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
