"""Magnet: metric learning with adaptive density discrimination (Rippel et al., ICLR 2016)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magnet.classify import NearestClusters, SoftNeighbours
    from magnet.index import ClusterIndex
    from magnet.objective import MagnetLoss, MagnetOutput, magnet_loss, magnet_objective
    from magnet.sampler import NeighbourhoodSampler

__version__ = "0.1.0"

_HOME = {
    "ClusterIndex": "index",
    "MagnetLoss": "objective",
    "MagnetOutput": "objective",
    "NearestClusters": "classify",
    "NeighbourhoodSampler": "sampler",
    "SoftNeighbours": "classify",
    "magnet_loss": "objective",
    "magnet_objective": "objective",
}

__all__ = [
    "ClusterIndex",
    "MagnetLoss",
    "MagnetOutput",
    "NearestClusters",
    "NeighbourhoodSampler",
    "SoftNeighbours",
    "magnet_loss",
    "magnet_objective",
]


def __getattr__(name: str) -> Any:
    # Names are resolved when they are first used: `magnet --help` must not wait for torch.
    if name in _HOME:
        return getattr(import_module(f"magnet.{_HOME[name]}"), name)
    raise AttributeError(f"module 'magnet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
