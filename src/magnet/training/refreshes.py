"""Refreshes kept for a look back at how the clusters moved."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from magnet.files import replacing
from magnet.index import ClusterIndex


def keep_refresh(
    folder: Path, step: int, total: int, every: int, wanted: int, representations: Tensor, index: ClusterIndex
) -> None:
    """Write this refresh to ``refreshes/`` if it is one of the ``wanted`` that are spread over the run."""
    count = max(1, -(-total // every))
    chosen = {round(i * (count - 1) / max(wanted - 1, 1)) for i in range(wanted)}
    if step // every not in chosen:
        return
    target = folder / "refreshes" / f"step-{step:08d}.safetensors"
    target.parent.mkdir(exist_ok=True)
    tensors = {"representations": representations.to(torch.float16), **index.tensors()}
    with replacing(target) as draft:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft)
