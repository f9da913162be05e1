"""Gaussian kernel features: with them the start tells apart what no linear map can, such as a class inside another.

An example is described by how near it is to some landmarks, examples of the training data: ``exp(-|w (x - l)|^2)`` for
each landmark l, where the weights w divide every feature by its standard deviation, and all of them by ``width`` times
the median distance between landmarks. The rest of the start (`magnet.start`) works on these features as it does on
others; in the coordinates of `Landmarks.root` their products are those of the kernel (Nystroem's approximation).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from magnet.neighbours import squared_distances

WIDTHS = (0.5, 1.0)  # that are tried
LANDMARKS = 256  # at most
WIDEST = 256  # more features than these are told apart by linear maps
MOST_ROWS = 20_000  # of more examples no kernel is tried
LEAST = 1e-5  # of the largest eigenvalue of the kernel: smaller ones are rounding of the landmarks and weights


class Landmarks(NamedTuple):
    """Landmarks, and the weights of the features by which distances to them are measured."""

    points: Tensor  # (m, d)
    weights: Tensor  # (d,)

    @classmethod
    def fit(cls, x: Tensor, width: float, seed: int, count: int = LANDMARKS) -> "Landmarks":
        """Some of the rows x (N, d) float64, drawn by the seed.

        >>> Landmarks.fit(torch.eye(2, dtype=torch.float64), width=1.0, seed=0)(torch.eye(2)).round(decimals=2)
        tensor([[1.0000, 0.6100],
                [0.6100, 1.0000]], dtype=torch.float64)
        """
        spread, largest = x.std(dim=0, correction=0), x.abs().amax(dim=0)
        weights = torch.where(spread > 1e-12 * largest, 1 / spread, 0.0)  # constant but for rounding: says nothing
        points = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:count]]
        far = squared_distances((points - points.mean(dim=0)) * weights).flatten()
        far = far[far > 1e-9 * far.max()]
        middle = far.median() if len(far) else far.new_ones(())
        return cls(points, weights / (2 * middle).sqrt() / width)

    def __call__(self, x: Tensor) -> Tensor:
        """Features (n, m) of x (n, d), between 0 and 1."""
        return gaussian(x, self.points, self.weights)

    def root(self) -> Tensor:
        """Coordinates (m, q), so that products of ``self(x) @ root`` are those of the kernel, where they are known."""
        values, vectors = torch.linalg.eigh(self(self.points))
        kept = values > LEAST * values[-1]
        found: Tensor = vectors[:, kept] * values[kept].rsqrt()
        return found


def gaussian(x: Tensor, points: Tensor, weights: Tensor) -> Tensor:
    """``exp(-|weights (x - points)|^2)``: (n, m) from (n, d), (m, d) and (d,); double where the device has it.

    Where landmarks lie close together a map of these features has large weights of both signs, which cancel: computed
    in single precision, it would lose several digits.
    """
    middle = points.mean(dim=0)  # distances are the same from here, and keep their digits
    distances = squared_distances((x - middle) * weights, (points - middle) * weights)
    return torch.exp(-distances.clamp_min(0))
