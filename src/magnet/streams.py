"""Random numbers as a function of keys: the same whatever is drawn beside them, and on every process."""

import torch
from torch import Tensor

# The constants of splitmix64, as signed numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


def streams(seed: int, labels: Tensor, restarts: int) -> Tensor:
    """The keys of one random stream for each label (G,) and restart: (G, restarts)."""
    keys = _hash(labels + _hash(torch.tensor(seed, device=labels.device)))
    return _hash(keys[:, None] + torch.arange(restarts, device=keys.device))


def uniform(keys: Tensor, steps: int, count: int) -> Tensor:
    """Numbers in [0, 1) of each stream (..., steps, count), float64: a function of the key, the step and the place."""
    places = torch.arange(count, device=keys.device) + (torch.arange(steps, device=keys.device)[:, None] << 20)
    return (_hash(keys[..., None, None] + _hash(places)) & (2**53 - 1)).double() * 2.0**-53


def _hash(x: Tensor) -> Tensor:
    """The finaliser of splitmix64 on int64 tensors; products wrap around, shifts fill with zeros."""
    x = x.long() + _GOLDEN
    for multiplier, shift in ((_FIRST, 30), (_SECOND, 27)):
        x = (x ^ (x >> shift & (1 << 64 - shift) - 1)) * multiplier
    return x ^ (x >> 31 & (1 << 33) - 1)
