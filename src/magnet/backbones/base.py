"""What every backbone has in common (trunk and head, freezing, batch-norm statistics), and backbones for vectors.

A training batch is a neighbourhood: similar examples of a few classes. Running statistics collected over such batches
are not those of the data, and the embeddings of a refresh, which are taken in eval mode, would use them. So before the
refresh the statistics are estimated anew, from *random* batches under the current weights. The order matters: all
statistics are final before the first embedding is taken, so that the embeddings of a refresh are of one moment.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from magnet.errors import UserError
from magnet.start import Start, gaussian, of_length, raised

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm


class Backbone(nn.Module):
    """A map from a batch of inputs to representations (B, dim).

    The children named in `head_names` are the head, which is always new; all other children are the trunk,
    which may carry pretrained weights and then wants a lower learning rate, or none (`freeze`).
    """

    head_names: tuple[str, ...] = ("dropout", "embedding")
    dropout: nn.Module
    embedding: nn.Module

    def __init__(
        self,
        dim: int,
        kind: Literal["vectors", "images"],
        *,
        input_size: int | None = None,
        mean: tuple[float, ...] = (),
        std: tuple[float, ...] = (),
    ) -> None:
        super().__init__()
        self.dim = dim
        self.kind = kind
        self.input_size = input_size  # side of the square crop it prefers, images only
        self.mean, self.std = mean, std  # per channel, of pixels in 0..1, images only
        self.frozen = False  # the trunk, by `freeze`
        self.fixed_batchnorm = False  # by `freeze_batchnorm`

    def trunk_features(self, x: Tensor) -> Tensor:
        """Features (B, f) of images x (B, C, H, W): the output of the trunk, before the head."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Representations (B, dim) of images x (B, C, H, W), or of features of the trunk (B, f) computed before."""
        representations: Tensor = self.embedding(self.dropout(x if x.ndim == 2 else self.trunk_features(x)))
        return representations

    def trunk_modules(self) -> list[nn.Module]:
        """The children that are not the head."""
        return [child for name, child in self.named_children() if name not in self.head_names]

    def trunk_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters of the (possibly pretrained) trunk."""
        for module in self.trunk_modules():
            yield from module.parameters()

    def trunk_layers(self) -> list[list[nn.Parameter]]:
        """The parameters of the trunk, layer by layer, from the input on."""
        layers = [list(module.parameters()) for module in self.trunk_modules()]
        return [layer for layer in layers if layer]

    def train(self, mode: bool = True) -> "Backbone":
        """As in torch, but a frozen trunk and fixed batch norm stay in eval mode: their statistics must not drift."""
        super().train(mode)
        if self.frozen:
            for module in self.trunk_modules():
                module.eval()
        if self.fixed_batchnorm:
            for layer in (layer for layer in self.modules() if isinstance(layer, BatchNorm)):
                layer.training = False  # the flag alone: a layer may have children (a dropout) of its own
        return self


class WhitenedEmbedding(nn.Module):
    """The last layer of a network that starts in closed form: ``r = M W (x^p - mean)``.

    With ``unit_length`` what W gives is brought to one length before M: ``M (l w / |w|)``, w = W (x^p - mean).

    Power p, mean and whitening W are fixed by `begin`, which takes them from the start (`magnet.start`); only the
    square map M is trained, from the identity on. Features (B, d) come in, representations (B, k) go out. With
    ``landmarks`` their kernel features (`magnet.start.Landmarks`) take the place of ``x^p``.
    """

    mean: Tensor
    whitening: Tensor
    length: Tensor
    points: Tensor
    weights: Tensor

    def __init__(
        self,
        features: int,
        dim: int,
        power: float,
        *,
        dropout: float = 0.0,
        landmarks: int = 0,
        unit_length: bool = False,
    ) -> None:
        super().__init__()
        self.power, self.landmarks, self.unit_length = power, landmarks, unit_length
        if landmarks:
            self.register_buffer("points", torch.zeros(landmarks, features))
            self.register_buffer("weights", torch.zeros(features))
            features = landmarks
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("whitening", torch.eye(dim, features))
        if unit_length:
            self.register_buffer("length", torch.ones(()))
        self.dropout = nn.Dropout(dropout)
        self.map = nn.Linear(dim, dim, bias=False)
        nn.init.eye_(self.map.weight)

    @torch.no_grad()
    def begin(self, start: Start) -> None:
        """Take the start, and the identity for the map."""
        features = len(start.mean)  # fewer than the layer takes where there are fewer examples than landmarks
        self.mean[:features] = start.mean
        self.whitening.zero_()[:, :features] = start.components
        if start.landmarks is not None:
            self.points[:features] = start.landmarks.points
            self.weights.copy_(start.landmarks.weights)
        if self.unit_length:
            self.length.fill_(start.length)
        nn.init.eye_(self.map.weight)

    def fixed_features(self, x: Tensor) -> Tensor:
        """What the whitening is applied to: ``x^p`` (B, d), or its kernel features (B, landmarks), in double."""
        z = raised(x, self.power)
        return gaussian(z, self.points, self.weights) if self.landmarks else z

    def forward(self, x: Tensor) -> Tensor:
        """Representations (B, k) of features x (B, d)."""
        centred = self.fixed_features(x) - self.mean
        if self.training or self.landmarks or self.unit_length:
            whitened = (centred @ self.whitening.to(centred.dtype).T).to(x.dtype)
            equal = of_length(whitened, self.length) if self.unit_length else whitened
            representations: Tensor = self.map(self.dropout(equal))
            return representations
        return centred @ (self.map.weight @ self.whitening).T

    @torch.no_grad()
    def folded(self) -> nn.Module:
        """The same function as one affine map after the fixed features, for use without further training.

        With ``unit_length`` there is a step between two maps, and nothing to fold.
        """
        if self.unit_length:
            return self
        matrix = self.map.weight.double() @ self.whitening.double()
        affine = nn.Linear(matrix.shape[1], matrix.shape[0], dtype=torch.float64 if self.landmarks else None)
        affine.weight.copy_(matrix)
        affine.bias.copy_(-(matrix @ self.mean.double()))
        return affine if self.power == 1 and not self.landmarks else _Folded(self, affine)


class _Folded(nn.Module):
    def __init__(self, embedding: WhitenedEmbedding, affine: nn.Linear) -> None:
        super().__init__()
        self.embedding, self.affine = embedding, affine

    def forward(self, x: Tensor) -> Tensor:
        representations: Tensor = self.affine(self.embedding.fixed_features(x)).to(x.dtype)
        return representations


def freeze(module: Backbone) -> Backbone:
    """Freeze the trunk of `module`, in place: no gradients, and eval mode even under `.train()`."""
    if not module.trunk_modules():
        raise UserError(
            f"a {type(module).__name__} backbone is all head, so freezing it would freeze nothing: "
            "leave the freezing out, or choose an image backbone with pretrained weights"
        )
    for parameter in module.trunk_parameters():
        parameter.requires_grad_(False)
    module.frozen = True
    module.train(module.training)  # puts the trunk into eval mode now
    return module


def freeze_part(module: Backbone, share: float) -> Backbone:
    """Freeze the first layers of the trunk of `module`, a ``share`` of all, in place: nothing is propagated into them.

    They make the large maps and cost the most, and of pretrained weights these are the most general. Their batch norm
    goes on as it is set (`freeze_batchnorm`).
    """
    layers = module.trunk_layers()
    for layer in layers[: round(share * len(layers))]:
        for parameter in layer:
            parameter.requires_grad_(False)
    return module


def _layers(module: nn.Module) -> list[BatchNorm]:
    """Batch-norm layers that keep statistics, except layers of a frozen trunk and fixed layers, which must not move."""
    frozen = {
        id(layer)
        for backbone in module.modules()
        if isinstance(backbone, Backbone) and (backbone.frozen or backbone.fixed_batchnorm)
        for part in ([backbone] if backbone.fixed_batchnorm else backbone.trunk_modules())
        for layer in part.modules()
    }
    return [
        layer
        for layer in module.modules()
        if isinstance(layer, BatchNorm) and layer.running_mean is not None and id(layer) not in frozen
    ]


def has_batchnorm(module: nn.Module) -> bool:
    """Whether `module` has batch-norm statistics to re-estimate (a frozen trunk does not count)."""
    return bool(_layers(module))


@torch.no_grad()
def reestimate_batchnorm(module: nn.Module, batches: Iterable[Tensor]) -> int:
    """Replace the running statistics of all batch-norm layers by their average over `batches`.

    `batches` are inputs of `module`, without augmentation, drawn at random from the whole training set; a
    few thousand examples in all are enough:

        order = torch.randperm(len(x), generator=generator)[:4096]
        reestimate_batchnorm(backbone, (x[rows] for rows in order.split(64)))

    Every example weighs the same. Batches of a single example have no variance and are skipped. Everything
    but the layers' `running_mean` and `running_var` is left as it was: training flags, momentum, counters.
    Without batch norm, or without batches, nothing changes; without batch norm `batches` is not even
    opened. Returns the number of examples used.
    """
    layers = _layers(module)
    if not layers:
        return 0
    flags = [(child, child.training) for child in module.modules()]
    before = [(layer, layer.momentum, {k: v.clone() for k, v in layer.named_buffers()}) for layer in layers]
    seen, finished = 0, False
    try:
        module.eval()  # no dropout: the statistics are those the eval mode will meet
        for layer in layers:
            layer.training = True  # the flag alone, as a layer may have children (a dropout) of its own
        for batch in batches:
            if len(batch) < 2:
                continue
            if seen == 0:
                for layer in layers:
                    layer.reset_running_stats()
            seen += len(batch)
            for layer in layers:
                layer.momentum = len(batch) / seen  # makes the running average a mean over examples
            module(batch)
        finished = True
    finally:
        for child, training in flags:
            child.training = training
        for layer, momentum, buffers in before:
            layer.momentum = momentum
            for name, value in buffers.items():
                # After an error half-made statistics would be worse than the old ones.
                if not finished or name not in ("running_mean", "running_var"):
                    layer.get_buffer(name).copy_(value)
    return seen


def freeze_batchnorm(module: Backbone) -> Backbone:
    """Keep the batch-norm statistics of `module` as they are, in place; all its weights go on learning.

    Statistics of a pretrained network are those of its wide training data. Data of one kind, all pets or all birds,
    has other means: normalised by them, what the network had to say of this kind falls below its rectifiers. A network
    without batch norm, such as a transformer, has nothing to keep.
    """
    module.fixed_batchnorm = True
    module.train(module.training)
    return module


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
    inputs: int,
    dim: int = 512,
    *,
    dropout: float = 0.0,
    power: float | None = None,
    landmarks: int = 0,
    unit_length: bool = False,
) -> VectorBackbone:
    """One linear map; dropout, when asked for, acts on its inputs. With a ``power`` it starts in closed form, and may
    then be a map of kernel features, or of vectors of one length (`WhitenedEmbedding`).
    """
    if power is not None:
        embedding = WhitenedEmbedding(inputs, dim, power, dropout=dropout, landmarks=landmarks, unit_length=unit_length)
        return VectorBackbone(inputs, dim, embedding)
    layer = nn.Linear(inputs, dim)
    return VectorBackbone(inputs, dim, nn.Sequential(nn.Dropout(dropout), layer))


def mlp(inputs: int, dim: int = 128, *, hidden: int = 512, dropout: float = 0.2) -> VectorBackbone:
    """One hidden layer.

    LayerNorm and not BatchNorm: a batch is one neighbourhood of similar examples, and its statistics are
    not the statistics of the data.
    """
    layers = (nn.Linear(inputs, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, dim))
    return VectorBackbone(inputs, dim, nn.Sequential(*layers))
