"""A tree of sums: draws from J weights, and changes one of them, in O(log J)."""

from array import array
from collections.abc import Sequence

import torch
from torch import Tensor


class SumTree:
    """Non-negative weights in a complete binary tree of partial sums.

    Inner sums are always made anew from their two children, so they never drift, and equal weights give equal trees
    whatever the order in which the weights were set.
    """

    def __init__(self, weights: Tensor | Sequence[float]) -> None:
        leaves = torch.as_tensor(weights, dtype=torch.float64)
        self._size = 1 << max(0, len(leaves) - 1).bit_length()
        # Node n has the children 2n and 2n + 1; the leaves come last. Python reads single numbers from an array
        # faster than from a tensor, and a tensor over the same memory fills whole levels at once.
        self._sums = array("d", bytes(16 * self._size))
        nodes = torch.frombuffer(self._sums, dtype=torch.float64)
        nodes[self._size : self._size + len(leaves)] = leaves
        level = self._size
        while level > 1:
            level //= 2
            nodes[level : 2 * level] = nodes[2 * level : 4 * level : 2] + nodes[2 * level + 1 : 4 * level : 2]

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return self._sums[1]

    def __getitem__(self, j: int) -> float:
        return self._sums[self._size + j]

    def __setitem__(self, j: int, weight: float) -> None:
        sums, node = self._sums, self._size + j
        sums[node] = weight
        while node > 1:
            node >>= 1
            sums[node] = sums[2 * node] + sums[2 * node + 1]

    def find(self, point: float) -> int:
        """The entry at ``point`` in [0, total) along the weights laid end to end; never one of weight zero."""
        sums, node = self._sums, 1
        while node < self._size:
            node *= 2
            # The right half only if it has any weight: rounding must not lead to an empty entry.
            if point >= sums[node] and sums[node + 1] > 0:
                point -= sums[node]
                node += 1
        return node - self._size
