"""Magnet: metric learning with adaptive density discrimination (Rippel et al., ICLR 2016)."""

from typing import TYPE_CHECKING

from magnet.lazy import lazily

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


__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
