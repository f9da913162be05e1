"""Any timm model by name."""

import importlib
from contextlib import suppress
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from magnet.backbones import PRETRAINED
from magnet.backbones.base import Backbone
from magnet.errors import UserError, did_you_mean

_OPERATORS = ("nms", "qnms")  # of torchvision, which it looks for at its import
_library: torch.library.Library | None = None  # the declarations live as long as this object


def import_torchvision() -> None:
    """Import torchvision, which timm needs, also where its compiled part does not load.

    A torchvision built for CUDA has a compiled part that does not load beside a CPU build of torch. Its Python part
    would still do, but at import it attaches shape rules to two operators that the compiled part should have declared,
    and fails. Declaring them (without an implementation: nothing here calls them) lets the import through. They are
    declared only after the import failed without them: a healthy torchvision declares them itself, and refuses to do
    so twice.
    """
    global _library
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if _library is not None or "torchvision::" not in str(error):
            raise
        _library = torch.library.Library("torchvision", "DEF")
        for operator in _OPERATORS:
            _library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("torchvision")


def import_timm() -> ModuleType:
    """timm, or a `UserError` that says how to get it."""
    # Lazily: the import takes seconds, and timm is an optional dependency.
    try:
        import_torchvision()
        import timm
    except ImportError as error:
        raise UserError(
            f"a timm/... backbone needs timm, which cannot be imported ({error}): pip install 'magnet-loss[timm]'"
        ) from error
    return timm


def _create(name: str, pretrained: bool) -> Any:
    timm = import_timm()
    if not timm.is_model(name):
        hint = did_you_mean(name, timm.list_models(), most=5)
        raise UserError(f"timm {timm.__version__} has no model '{name}'{hint} timm.list_models() lists them")
    about = timm.get_pretrained_cfg(name)
    try:
        if about is not None and about.fixed_input_size:
            with suppress(TypeError):  # vision transformers interpolate their places; others take their own size only
                return timm.create_model(
                    name, pretrained=pretrained, num_classes=0, dynamic_img_size=True, dynamic_img_pad=True
                )
        return timm.create_model(name, pretrained=pretrained, num_classes=0)
    except Exception as error:  # no network, no such weights, ...: timm and its hub raise many kinds
        if not pretrained:
            raise
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"the pretrained weights of '{name}' cannot be had ({type(error).__name__}: {reason}): "
            f"check the network, or leave out {PRETRAINED} and give a weights file"
        ) from error


class TimmBackbone(Backbone):
    """RGB images (B, 3, H, W) to (B, dim): pooled timm features, then dropout and a linear embedding.

    With `dim` None or 0 the features themselves are the representation. `name` is timm's; with `download` timm fetches
    its published weights, otherwise nothing is downloaded.
    """

    def __init__(self, name: str, dim: int | None = None, *, dropout: float = 0.0, download: bool = False) -> None:
        trunk = _create(name, download)
        config = trunk.pretrained_cfg
        # Some models widen their features after pooling; timm says so in `head_hidden_size`.
        features = int(getattr(trunk, "head_hidden_size", None) or trunk.num_features)
        super().__init__(
            dim or features,
            "images",
            input_size=int(config["input_size"][-1]),
            mean=tuple(config["mean"]),
            std=tuple(config["std"]),
        )
        # Channels last: depthwise convolutions, forward and backward, are faster that way on CPUs and GPUs alike.
        self.trunk = trunk.to(memory_format=torch.channels_last)
        self.fixed_size = bool(config.get("fixed_input_size")) and not getattr(trunk, "dynamic_img_size", False)
        self.dropout = nn.Dropout(dropout)
        self.embedding = nn.Linear(features, dim) if dim else nn.Identity()

    def trunk_layers(self) -> list[list[nn.Parameter]]:
        """The parameters of the trunk, layer by layer, from the input on, as timm groups them."""
        from timm.models import group_parameters

        layers = group_parameters(self.trunk, self.trunk.group_matcher(), return_values=True)
        return [layers[number] for number in sorted(layers)]

    def trunk_features(self, x: Tensor) -> Tensor:
        """Pooled features (B, f) of images x (B, 3, H, W)."""
        if self.fixed_size and tuple(x.shape[2:]) != (self.input_size,) * 2:
            raise UserError(
                f"this timm model takes images of shape (3, {self.input_size}, {self.input_size}) only, "
                f"found {tuple(x.shape[1:])}: set the image size to {self.input_size}, or choose another model"
            )
        features: Tensor = self.trunk(x)
        return features
