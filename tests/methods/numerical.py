"""A torch function against a naive one of NumPy arrays: values, and gradients by central differences in double."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


def assert_same(
    function: Callable[[Tensor], Tensor], naive: Callable[[np.ndarray], np.ndarray], at: np.ndarray, step: float = 1e-5
) -> None:
    """``function`` and ``naive`` map (n, d) to (m,); compared are all values and the gradient of their mean."""
    r = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    values = function(r)
    np.testing.assert_allclose(values.detach().numpy(), naive(at), rtol=1e-8, atol=1e-10)
    values.mean().backward()
    assert r.grad is not None
    slopes = np.zeros_like(at)
    for place in np.ndindex(*at.shape):
        there = np.zeros_like(at)
        there[place] = step
        slopes[place] = (naive(at + there).mean() - naive(at - there).mean()) / (2 * step)
    np.testing.assert_allclose(r.grad.numpy(), slopes, rtol=1e-5, atol=1e-7)
