"""Backbones for feature vectors: one linear map, or one hidden layer."""

import torch
from torch import Tensor, nn

from magnet.backbones.base import Backbone, WhitenedEmbedding
from magnet.errors import UserError


class VectorBackbone(Backbone):
    """Standardises vectors (B, d) with fixed numbers, then applies `embedding`; the result is (B, dim).

    `input_mean` (d,) and `input_scale` () are buffers, so they are saved with the weights. Until
    `fit_inputs` is called they are 0 and 1 and change nothing.
    """

    input_mean: Tensor
    input_scale: Tensor

    def __init__(self, inputs: int, dim: int, embedding: nn.Module) -> None:
        super().__init__(dim, "vectors")
        self.register_buffer("input_mean", torch.zeros(inputs))
        self.register_buffer("input_scale", torch.ones(()))
        self.embedding = embedding

    @torch.no_grad()
    def fit_inputs(self, x: Tensor) -> None:
        """Set the standardisation from training inputs x (N, d).

        The mean is taken per feature. The scale is one number, chosen so that the mean squared norm becomes
        d: a scale per feature would blow up features that hardly vary, and would undo what their sizes say.
        """
        if x.ndim != 2 or x.shape[1] != self.input_mean.shape[0] or len(x) == 0:
            expected = f"(N, {self.input_mean.shape[0]}) with N >= 1"
            raise UserError(f"inputs of shape {tuple(x.shape)} do not fit: expected {expected}")
        # Double precision: features far from zero would otherwise lose their variance to rounding.
        mean = x.mean(0, dtype=torch.float64)
        if not bool(mean.isfinite().all()):
            raise UserError("the inputs hold NaN or infinite values: remove those rows or features first")
        # Sums as plain numbers: small tensors kept between the large ones would keep the freed memory in the process.
        sums = [float((rows.double() - mean).square().sum()) for rows in x.split(8192)]
        variance = torch.tensor(sums, dtype=torch.float64).sum() / x.numel()
        self.input_mean.copy_(mean)
        self.input_scale.copy_(variance.sqrt() if variance > 0 else torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """Representations (B, dim) of vectors x (B, d)."""
        representations: Tensor = self.embedding((x - self.input_mean) / self.input_scale)
        return representations


def linear(
    inputs: int, dim: int = 512, *, dropout: float = 0.0, power: float | None = None, landmarks: int = 0
) -> VectorBackbone:
    """One linear map; dropout, when asked for, acts on its inputs. With a ``power`` it starts in closed form, and may
    then be a map of kernel features.
    """
    if power is not None:
        embedding = WhitenedEmbedding(inputs, dim, power, dropout=dropout, landmarks=landmarks)
        return VectorBackbone(inputs, dim, embedding)
    layer = nn.Linear(inputs, dim)
    return VectorBackbone(inputs, dim, nn.Sequential(nn.Dropout(dropout), layer))


def mlp(inputs: int, dim: int = 128, *, hidden: int = 512, dropout: float = 0.2) -> VectorBackbone:
    """One hidden layer.

    LayerNorm and not BatchNorm: a batch is one neighbourhood of similar examples, and its statistics are
    not those of the data.
    """
    layers = (
        nn.Linear(inputs, hidden),
        nn.LayerNorm(hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, dim),
    )
    return VectorBackbone(inputs, dim, nn.Sequential(*layers))
