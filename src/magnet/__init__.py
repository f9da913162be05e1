"""Magnet: metric learning with adaptive density discrimination (Rippel et al., ICLR 2016)."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magnet.api import evaluate, explore, train
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
    "evaluate": "api",
    "explore": "api",
    "load": "export",
    "magnet_loss": "objective",
    "magnet_objective": "objective",
    "train": "api",
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
    "evaluate",
    "explore",
    "load",
    "magnet_loss",
    "magnet_objective",
    "train",
]


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose names are imported when they are first used: help and wrong input must not
    wait for torch. ``homes`` says in which module of the package each name is.

    >>> find = lazily("magnet", {"UserError": "errors"})
    >>> find("UserError").__name__
    'UserError'
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
