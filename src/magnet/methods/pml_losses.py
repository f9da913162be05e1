"""The losses of pytorch-metric-learning: found by name, asked what they take, and made."""

import inspect
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from magnet.errors import UserError
from magnet.methods.calls import closest

ABSTRACT = ("BaseMetricLossFunction", "GenericPairLoss")
SIZES = ("num_classes", "embedding_size", "descriptors_dim")  # the library's names for them
UNLABELLED = ("ManifoldLoss", "VICRegLoss")  # they refuse labels


def find_loss(name: str) -> type[Any]:
    """The class of a loss that takes embeddings and labels."""
    losses = _import_losses()
    known = {
        key: value
        for key, value in vars(losses).items()
        if inspect.isclass(value)
        and issubclass(value, losses.BaseMetricLossFunction)
        and key not in ABSTRACT + UNLABELLED
    }
    if name not in known:
        raise UserError(f"pytorch-metric-learning has no labelled loss {name!r}{closest(name, known)}")
    return known[name]


def arguments_of(loss_class: type[Any]) -> set[str]:
    """What can be given to a loss as a plain value: not the sizes, which the data sets, nor objects of the library."""
    return set(_parameters(loss_class)) - {*SIZES, "mat_based_loss"}


def make_loss(loss_class: type[Any], arguments: dict[str, Any], classes: int, dim: int) -> Any:
    """A loss with what it asks for: the number of classes and the dimension."""
    sizes = {key: classes if key == "num_classes" else dim for key in sizes_of(loss_class)}
    loss = loss_class(**sizes, **arguments)
    # A few losses keep state in plain tensors, which neither a checkpoint nor a move to a device would see.
    for key, value in list(vars(loss).items()):
        if isinstance(value, Tensor):
            delattr(loss, key)
            loss.register_buffer(key, value)
    return loss


def sizes_of(loss_class: type[Any]) -> list[str]:
    """Those of the library's names for the number of classes and the dimension that a loss cannot do without."""
    parameters = _parameters(loss_class)
    return [key for key in SIZES if key in parameters and parameters[key].default is inspect.Parameter.empty]


def only_directions_count(loss_class: type[Any], arguments: dict[str, Any]) -> bool:
    """Whether the length of a representation means nothing to the loss, found by trying: its space is the sphere then.

    Its distance may say that it normalises, and some losses (`SphereFaceLoss`) read the length all the same.
    """
    found = []
    for length in (1.0, 3.0):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            loss = make_loss(loss_class, arguments, 4, 6)
            found.append(loss(length * torch.randn(16, 6), torch.arange(16) % 4).detach())
    return torch.allclose(found[0], found[1], rtol=1e-3)


def _parameters(loss_class: type[Any]) -> dict[str, inspect.Parameter]:
    """All that the loss and the losses it is built on take by name, as far as they are the losses' own."""
    base = _import_losses().BaseMetricLossFunction
    inits = [vars(c)["__init__"] for c in reversed(loss_class.__mro__) if issubclass(c, base) and "__init__" in vars(c)]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = {p.name: p for init in inits for p in inspect.signature(init).parameters.values() if p.kind in kinds}
    found.pop("self", None)
    return found


def _import_losses() -> ModuleType:
    # Lazily: it is an optional dependency, and slow to import.
    try:
        from pytorch_metric_learning import losses
    except ImportError as error:
        raise UserError(
            f"a pml/... method needs pytorch-metric-learning, which cannot be imported ({error}): "
            "pip install 'magnet[pml]'"
        ) from error
    return losses
