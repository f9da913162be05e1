"""Magnet: metric learning with adaptive density discrimination (Rippel et al., ICLR 2016)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magnet.classify import NearestClusters, SoftNeighbours
    from magnet.estimator import MagnetClassifier, NearestClustersClassifier
    from magnet.export import load
    from magnet.index import ClusterIndex
    from magnet.objective import MagnetLoss, MagnetOutput, magnet_loss, magnet_objective
    from magnet.sampler import NeighbourhoodSampler

__version__ = "0.1.0"

_HOME = {
    "ClusterIndex": "index",
    "MagnetClassifier": "estimator",
    "MagnetLoss": "objective",
    "MagnetOutput": "objective",
    "NearestClusters": "classify",
    "NearestClustersClassifier": "estimator",
    "NeighbourhoodSampler": "sampler",
    "SoftNeighbours": "classify",
    "load": "export",
    "magnet_loss": "objective",
    "magnet_objective": "objective",
}

__all__ = [
    "ClusterIndex",
    "MagnetClassifier",
    "MagnetLoss",
    "MagnetOutput",
    "NearestClusters",
    "NearestClustersClassifier",
    "NeighbourhoodSampler",
    "SoftNeighbours",
    "load",
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
