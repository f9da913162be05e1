"""The map that training starts from: whitening of the variation inside classes, in closed form.

With S the covariance of examples around their class means and t its mean eigenvalue, the map whitens
``(1 - shrinkage) S + shrinkage t I``. Of the whitened space it keeps the directions between the class means first, then
those of the largest remaining variance. One cluster for each class on top of it is linear discriminant analysis, so
training starts from a classifier that already works.
"""

import torch
from sklearn.decomposition import PCA
from torch import Tensor

WIDE = 2048  # more features than this are first reduced to NARROW principal components
NARROW = 1024


class WithinClass:
    """The spectrum of the variation inside classes, from which `components` makes maps of any shrinkage.

    Args:
        x: (N, d) float64.
        labels: (N,) class ids 0..C-1.
        standardize: whether each feature is first divided by its own standard deviation; else the sizes of the
            features stay what they are.
        seed: of the randomised reduction of very wide data.

    Attributes:
        mean: (d,) of x.
    """

    def __init__(self, x: Tensor, labels: Tensor, *, standardize: bool, seed: int) -> None:
        self.mean = x.mean(dim=0)
        z = x - self.mean
        spread = z.square().mean(dim=0).sqrt()
        # A feature that is constant but for rounding says nothing, and must not be blown up.
        constant = spread <= 1e-12 * x.abs().amax(dim=0)
        scale = spread.masked_fill(constant, torch.inf) if standardize else torch.ones_like(spread)
        rows, width = z.shape
        self._basis: Tensor  # (d, q)
        if width > min(WIDE, rows):
            kept = min(rows, width, NARROW if width > WIDE else width)
            principal = PCA(kept, random_state=seed).fit((z / scale).numpy()).components_
            self._basis = torch.as_tensor(principal, dtype=z.dtype).T / scale[:, None]
        else:
            self._basis = torch.diag(1 / scale)
        z = z @ self._basis if standardize or self._basis.shape[0] != self._basis.shape[1] else z

        counts = torch.bincount(labels).to(z.dtype)
        means = z.new_zeros(len(counts), z.shape[1]).index_add(0, labels, z) / counts[:, None]
        residuals = z - means[labels]
        scatter = residuals.T @ residuals / max(rows - len(counts), 1)
        if not scatter.trace() > 1e-12 * z.square().sum() / rows:  # each class is one point: only the classes vary
            scatter = z.T @ z / rows
        if not scatter.trace() > 0:
            scatter = torch.eye(z.shape[1], dtype=z.dtype)
        values, self._vectors = torch.linalg.eigh(scatter)
        self._values = values.clamp_min(0)
        self._means = counts.sqrt()[:, None] * (means @ self._vectors)  # (C, q), weighted for the directions below

    def components(self, shrinkage: float, dim: int) -> Tensor:
        """The map (k, d) of this shrinkage, with k = min(dim, features): r = components (x - mean)."""
        level = self._values.mean()
        whitening = ((1 - shrinkage) * self._values + shrinkage * level).clamp_min(1e-9 * level).rsqrt()
        _, strength, between = torch.linalg.svd(self._means * whitening, full_matrices=False)
        between = between[strength > 1e-9 * strength[0].clamp_min(1e-300)][:dim]
        # Inside classes the whitened variance grows with the eigenvalue, and those come in ascending order.
        rest = torch.eye(len(self._values), dtype=self._values.dtype).flip(0)[: dim - len(between)]
        directions, _ = torch.linalg.qr(torch.cat([between, rest]).T)
        components: Tensor = (self._basis @ (self._vectors * whitening) @ directions).T
        return components.contiguous()
