"""The methods by name. A new one is one new file and one line here."""

from importlib import import_module

from magnet.errors import UserError, did_you_mean
from magnet.methods.base import Batch, Discriminant, Method, MethodLoss, Options, Setting

METHODS = {
    "magnet": "magnet:Magnet",
    "softmax": "softmax:Softmax",
    "triplet": "triplet:Triplet",
    "semantic-triplet": "semantic_triplet:SemanticTriplet",
    "contrastive": "contrastive:Contrastive",
    "nca": "nca:NCA",
    "cluster-nca": "cluster_nca:ClusterNCA",
    "ncm": "ncm:NCM",
    "ncmc": "ncm:NCMC",
}
# Magnet with one of its choices undone, for the ablations.
VARIANTS = {
    "magnet/uniform-seeds": "variants:UniformSeeds",
    "magnet/random-clusters": "variants:RandomClusters",
    "magnet/cached-representations": "variants:CachedRepresentations",
}

__all__ = ["METHODS", "VARIANTS", "Batch", "Discriminant", "Method", "MethodLoss", "Options", "Setting", "method_class"]


def method_class(name: str) -> type[Method]:
    """The class of a method, by its name on the command line; ``pml/NAME`` is a loss of pytorch-metric-learning."""
    if name.startswith("pml/"):
        from magnet.methods.pml import pml_method

        return pml_method(name)
    known = METHODS | VARIANTS
    if name not in known:
        raise UserError(f"no method {name!r}{did_you_mean(name, METHODS)} There are: {', '.join(METHODS)}, pml/NAME")
    module, attribute = known[name].split(":")
    found: type[Method] = getattr(import_module(f"magnet.methods.{module}"), attribute)
    return found
