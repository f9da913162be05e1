"""Importing torchvision where its compiled part does not load.

A torchvision built for CUDA has a compiled part that does not load beside a CPU build of torch. Its Python
part would still do, but at import it attaches shape rules to two operators that the compiled part should
have declared, and fails. Declaring them (without an implementation: nothing here calls them) lets the
import through.
"""

import importlib

import torch

_OPERATORS = ("nms", "qnms")
_library: torch.library.Library | None = None  # the declarations live as long as this object


def import_torchvision() -> None:
    """Import torchvision, declaring its missing operators if, and only if, the import fails without them.

    Not declared beforehand: a healthy torchvision declares them itself and refuses to do so twice.
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
