"""Maps from inputs to representations: a backbone takes a batch and gives (B, dim)."""

from magnet.backbones.base import Backbone
from magnet.backbones.batchnorm import has_batchnorm, reestimate_batchnorm
from magnet.backbones.build import build, names
from magnet.backbones.freeze import freeze, freeze_batchnorm
from magnet.backbones.vectors import VectorBackbone
from magnet.backbones.weights import Report, load_weights

__all__ = [
    "Backbone",
    "Report",
    "VectorBackbone",
    "build",
    "freeze",
    "freeze_batchnorm",
    "has_batchnorm",
    "load_weights",
    "names",
    "reestimate_batchnorm",
]
