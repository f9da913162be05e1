"""Squared distances and the shares that classes have of them: what NCA, cluster-NCA and NCM have in common."""

import torch
from torch import Tensor
from torch.nn import functional

from magnet import neighbours


def full_precision(x: Tensor) -> Tensor:
    """Half precision as float32; anything else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """``|a_i - b_j|^2``: (n, m) from (n, d) and (m, d), never in half precision."""
    with torch.autocast(a.device.type, enabled=False):
        a, b = full_precision(a), full_precision(b)
        # The expanded squares lose digits far from the origin, and distances do not care where it is.
        origin = b.detach().mean(dim=0)
        return neighbours.squared_distances(a - origin, b - origin).clamp_min(0).to(a.dtype)


def variance_within(representations: Tensor, labels: Tensor) -> Tensor:
    """``sum |r - mean of its class|^2 / (N - 1)``: () from (N, d) and (N,)."""
    r = full_precision(representations)
    _, own, sizes = torch.unique(labels.to(r.device), return_inverse=True, return_counts=True)
    means = r.new_zeros(len(sizes), r.shape[1]).index_add(0, own, r) / sizes[:, None]
    return (r - means[own]).square().sum() / max(len(r) - 1, 1)


def share_loss(distances: Tensor, own: Tensor, others: Tensor) -> Tensor:
    """``-log sum_own exp(-d) / (sum_own exp(-d) + sum_others exp(-d))`` of each row.

    It is written as softplus(log sum_others - log sum_own), which neither overflows nor falls below zero. A row
    without any ``own`` has nothing to be drawn to: its loss is zero.

    Args:
        distances: (B, J).
        own: (B, J) bool, what the row is to be near.
        others: (B, J) bool, what it is to be far from.

    Returns:
        (B,).
    """
    # A finite stand-in for -inf keeps the gradient of an empty sum at zero instead of NaN.
    hidden = torch.finfo(distances.dtype).min / 4
    near, far = (torch.logsumexp(torch.where(mask, -distances, hidden), dim=1) for mask in (own, others))
    return torch.where(own.any(dim=1), functional.softplus(far - near), 0.0)
