"""The methods by name: a new one is one new file and one line here. Nothing here imports torch."""

from importlib import import_module
from typing import TYPE_CHECKING

from magnet import lazily
from magnet.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from magnet.methods.base import Batch, Discriminant, Method, MethodLoss, Options, Setting

METHODS = {
    "magnet": "magnet:Magnet",
    "softmax": "softmax:Softmax",
    "triplet": "triplet:Triplet",
    "semantic-triplet": "triplet:SemanticTriplet",
    "contrastive": "contrastive:Contrastive",
    "nca": "nca:NCA",
    "cluster-nca": "nca:ClusterNCA",
    "ncm": "ncm:NCM",
    "ncmc": "ncm:NCMC",
}
RULE_NAMES = {"knc": "kNC", "knn": "soft kNN", "head": "own head"}  # as people read them
# Magnet with one of its choices changed, for the ablations.
VARIANTS = {
    "magnet/uniform-seeds": "variants:UniformSeeds",
    "magnet/random-clusters": "variants:RandomClusters",
    "magnet/cached-representations": "variants:CachedRepresentations",
    "magnet/adaptive-clusters": "variants:AdaptiveClusters",
}

__all__ = [
    "METHODS", "RULE_NAMES", "VARIANTS", "Batch", "Discriminant", "Method", "MethodLoss", "Options", "Setting",
    "check_method", "method_class",
]  # fmt: skip

__getattr__ = lazily(
    __name__, dict.fromkeys(("Batch", "Discriminant", "Method", "MethodLoss", "Options", "Setting"), "base")
)


def check_method(name: str) -> None:
    """Refuse a method that does not exist, without importing any; a loss after ``pml/`` is looked up later."""
    if not name.startswith("pml/") and name not in METHODS | VARIANTS:
        raise UserError(f"no method {name!r}{did_you_mean(name, METHODS)} There are: {', '.join(METHODS)}, pml/NAME")


def method_class(name: str) -> "type[Method]":
    """The class of a method, by its name on the command line; ``pml/NAME`` is a loss of pytorch-metric-learning.

    >>> method_class("semantic-triplet").__name__
    'SemanticTriplet'
    """
    if name.startswith("pml/"):
        from magnet.methods.pml import pml_method

        return pml_method(name)
    check_method(name)
    module, attribute = (METHODS | VARIANTS)[name].split(":")
    found: type[Method] = getattr(import_module(f"magnet.methods.{module}"), attribute)
    return found
