"""Checks of what the core functions are given: each error names what was found and what was expected."""

import torch
from torch import Tensor

from magnet.errors import RangeError

# The largest entry of representations lies between these, so that neither squares and their sums nor the variance of
# clusters 10,000 times narrower overflow or vanish. All computations are in one of these two types.
SIZES = {torch.float32: (1e-12, 1e15), torch.float64: (1e-100, 1e120)}


def check_representations(
    representations: Tensor, what: str = "representations", *, finite: bool = True, whole: bool = False
) -> None:
    """Raise unless ``representations`` is a floating (n, d) tensor with n, d >= 1.

    Args:
        representations: what was given.
        what: their name in the message.
        finite: look at the entries too: all must be finite, and not so large that their squares overflow.
        whole: these are all the points of a space, not some among others: then they must not all be so small that
            their squares vanish, either. Zeros are fine: they are one point.
    """
    if not isinstance(representations, Tensor):
        raise TypeError(f"{what} must be a torch.Tensor of shape (n, d); found {type(representations).__name__}")
    if representations.ndim != 2 or 0 in representations.shape:
        raise ValueError(f"{what} must have shape (n, d) with n, d >= 1; found {tuple(representations.shape)}")
    if not representations.is_floating_point():
        raise TypeError(f"{what} must be floating point; found {representations.dtype}: convert with .float()")
    if finite:
        _check_entries(representations, what, whole)


def check_ids(ids: Tensor, length: int, what: str, per: str = "representations") -> None:
    """Raise unless ``ids`` is an integer vector of ``length`` entries (labels, clusters, neighbourhoods)."""
    if not isinstance(ids, Tensor):
        raise TypeError(f"{what} must be a torch.Tensor of integers; found {type(ids).__name__}")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise TypeError(f"{what} must be integers; found {ids.dtype}: map your labels to ids 0..C-1 first")
    if ids.ndim != 1 or len(ids) != length:
        raise ValueError(f"{what} must have shape ({length},), one for each of the {per}; found {tuple(ids.shape)}")


def check_variance(variance: Tensor | float | None) -> None:
    """Raise unless ``variance`` is None or one positive number."""
    if variance is None:
        return
    if isinstance(variance, Tensor) and variance.numel() != 1:
        raise ValueError(f"variance must be one number; found a tensor of shape {tuple(variance.shape)}")
    if reads_are_free(variance):
        value = variance.item() if isinstance(variance, Tensor) else variance
        if not value > 0:
            raise ValueError(f"variance must be positive; found {value}")


def check_positive(value: float, what: str) -> None:
    """Raise unless ``value`` > 0."""
    if not value > 0:
        raise ValueError(f"{what} must be positive; found {value}")


def reads_are_free(value: Tensor | float) -> bool:
    """Whether looking at the value costs neither a device synchronisation nor a break in a compiled graph."""
    return not torch.compiler.is_compiling() and (not isinstance(value, Tensor) or value.device.type == "cpu")


def _check_entries(values: Tensor, what: str, whole: bool) -> None:
    if torch.compiler.is_compiling():
        return
    size = max(abs(float(end)) for end in values.detach().aminmax())  # one pass, no temporary of n x d
    smallest, largest = SIZES[torch.float64 if values.dtype == torch.float64 else torch.float32]
    if size <= largest and not (whole and 0 < size < smallest):
        return
    bad = int((~torch.isfinite(values)).any(dim=1).sum())
    if bad:
        raise RangeError(
            f"{what} must be finite; found NaN or infinity in {bad} of {len(values)} rows: "
            "look for a learning rate that is too high, or for missing values in the data"
        )
    wide = "" if largest > 1e100 else ", or give float64"
    if size > largest:
        raise RangeError(
            f"{what} must not exceed {largest:g}, or squared distances overflow; found {size:.3g}: "
            f"look for a learning rate that is too high, divide them by a constant{wide}"
        )
    raise RangeError(
        f"{what} must not all be below {smallest:g}, or squared distances vanish; found {size:.3g} at most: "
        f"multiply them by a constant{wide}"
    )
