"""Pretrained weights into a backbone, with an account of what fitted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from magnet.backbones.efficientnet_lite import is_lite_naming, timm_name
from magnet.backbones.weight_files import read_tensors
from magnet.errors import UserError

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
    found = read_tensors(Path(path))
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
        raise UserError(
            f"{path} does not fit this backbone: only {len(fits)} of the backbone's {len(own)} tensors "
            f"are in the file with their shapes ({_difference(report)}): choose the backbone the weights belong to"
        )
    with torch.no_grad():
        for name in fits:
            own[name].copy_(given[name])
    return report


def _best_naming(found: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, str]:
    """New name: name in `found`, so that most names and shapes agree with `own`; the plainest of equals."""

    def agreement(sources: Mapping[str, str]) -> int:
        return sum(new in own and own[new].shape == found[old].shape for new, old in sources.items())

    candidates = []
    for stripped, added in product(_STRIPPED, _ADDED):
        bare = {name.removeprefix(stripped): name for name in found}
        if is_lite_naming(bare):
            bare = {timm_name(new): old for new, old in bare.items()}
        candidates.append({added + new: old for new, old in bare.items()})
    return max(candidates, key=agreement)


def _shapes(report: Report) -> list[str]:
    return [f"{name}: {found} in the file, {own} here" for name, found, own in report.mismatched]


def _few(names: Iterable[str], limit: int = 3) -> str:
    names = list(names)
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def _difference(report: Report) -> str:
    if report.mismatched:
        return _few(_shapes(report))
    return f"the file has {_few(report.unexpected)}; expected {_few(report.missing)}"
