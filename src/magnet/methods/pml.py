"""Any loss of pytorch-metric-learning as a method: ``pml/ProxyAnchorLoss`` or ``pml/ArcFaceLoss(margin=20, scale=32)``.

A loss that keeps weights for every class gets random batches, one that compares the examples of a batch gets
class-balanced ones. Representations are judged by soft kNN, as the library's `AccuracyCalculator` judges by kNN: these
losses order single examples, and proxies and class weights are not used after training. All methods have kNC as well.

Proxies have the learning rate of the network. A rate a hundred times larger, which is customary with Adam, was tried
with SGD on Oxford-IIIT Pet features; it changed the mean validation error of three seeds from 7.0 to 6.7 % for
Proxy-Anchor, from 7.6 to 7.4 for ArcFace, from 10.5 to 10.6 for Proxy-NCA, and from 9.2 to 9.7 for SoftTriple. So it
is not used.
"""

import ast
import inspect
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

import torch
from torch import Tensor

from magnet.errors import UserError, did_you_mean
from magnet.methods.base import (
    BalancedBatches,
    Batch,
    Classifier,
    Method,
    MethodLoss,
    Network,
    Options,
    RandomBatches,
    Setting,
)
from magnet.neighbours import at_least_float32

PREFIX = "pml/"
LONGEST = 500  # characters of a call that are read
ABSTRACT = ("BaseMetricLossFunction", "GenericPairLoss")
SIZES = ("num_classes", "embedding_size", "descriptors_dim")  # the library's names for them
UNLABELLED = ("ManifoldLoss", "VICRegLoss")  # they refuse labels


class Pml(Method):
    """One of the library's losses; `pml_method` makes a class for each."""

    classifier: ClassVar[Classifier] = "knn"
    reads_representations: ClassVar[bool] = False
    loss_class: ClassVar[type[Any]]
    arguments: ClassVar[dict[str, Any]]

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self.criterion = make_loss(self.loss_class, self.arguments, setting.classes, setting.dim)
        self.compares = "num_classes" not in sizes_of(self.loss_class)  # examples of a class with each other
        if self.compares and options.examples_per_cluster < 2:
            raise UserError(
                f"{PREFIX}{self.loss_class.__name__} compares examples of a class: --examples-per-cluster must be "
                f"at least 2; found {options.examples_per_cluster}"
            )

    @cached_property
    def sampler(self) -> RandomBatches:
        """Class-balanced batches, or random ones for a loss that has proxies of the classes."""
        return (BalancedBatches if self.compares else RandomBatches)(self.setting, self.options)

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """The loss that the library computes; where it has no losses of single examples, each is given the mean."""
        representations = at_least_float32(network(batch.inputs))
        parts: dict[str, dict[str, Any]] = {}  # the losses before they are reduced to one number
        hook = self.criterion.reducer.register_forward_pre_hook(lambda _, inputs: parts.update(inputs[0]))
        try:
            # In full precision: the library casts its weights, not a copy of them, to the precision it is given.
            with torch.autocast(representations.device.type, enabled=False):
                loss = self.criterion(representations, batch.labels)
        finally:
            hook.remove()
        for name, state in list(self.criterion.named_buffers(recurse=False)):
            setattr(self.criterion, name, state.detach())  # `DynamicSoftMarginLoss` would keep its graph
        per_example = loss.detach().expand(len(batch.labels))
        told = next(iter(parts.values())) if len(parts) == 1 else {}
        if told.get("reduction_type") == "element" and told["losses"].numel() == len(per_example):
            per_example = told["losses"].detach().flatten()
        return MethodLoss(loss, per_example)


def pml_method(name: str) -> type[Pml]:
    """The method for ``pml/Loss`` or ``pml/Loss(argument=value, ...)``; arguments that do not work are refused."""
    loss_name, arguments = read_call(name.removeprefix(PREFIX), name)
    loss_class = find_loss(loss_name)
    accepted = arguments_of(loss_class)
    for argument in arguments:
        if argument not in accepted:
            hint = did_you_mean(argument, sorted(accepted), most=3)
            takes = ", ".join(sorted(accepted)) or "none"
            raise UserError(f"{loss_name} takes no argument {argument!r} here{hint} It takes: {takes}")
    try:
        normalised = only_directions_count(loss_class, arguments)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{name} does not work: {reason}. It takes: {', '.join(sorted(accepted))}") from error
    members = {"loss_class": loss_class, "arguments": arguments, "normalised": normalised, "__doc__": name}
    return type(f"Pml{loss_name}", (Pml,), members)


def read_call(text: str, shown: str = "") -> tuple[str, dict[str, Any]]:
    """The name and the arguments of ``Name`` or ``Name(argument=literal, ...)``; nothing in the text is executed.

    The text may come from an untrusted file; an error message has what is ``shown`` in its place.
    """
    wrong = UserError(
        f"{shown or text!r} is not understood: write NAME or NAME(argument=value, ...), plain values only"
    )
    if len(text) > LONGEST:
        raise wrong
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise wrong from error
    call = found if isinstance(found, ast.Call) else ast.Call(found, [], [])
    if not isinstance(call.func, ast.Name) or call.args or any(word.arg is None for word in call.keywords):
        raise wrong
    try:
        values = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise wrong from error
    return call.func.id, values


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
        hint = did_you_mean(name, sorted(known), most=3)
        losses_known = ", ".join(sorted(known))
        raise UserError(f"pytorch-metric-learning has no labelled loss {name!r}{hint} There are: {losses_known}")
    return known[name]


def arguments_of(loss_class: type[Any]) -> set[str]:
    """The arguments of a loss that are plain values: neither sizes, which the data determines, nor library objects."""
    return set(_parameters(loss_class)) - {*SIZES, "mat_based_loss"}


def make_loss(loss_class: type[Any], arguments: dict[str, Any], classes: int, dim: int) -> Any:
    """Make a loss, with the number of classes and the dimension if it needs them."""
    sizes = {key: classes if key == "num_classes" else dim for key in sizes_of(loss_class)}
    loss = loss_class(**sizes, **arguments)
    # A few losses keep state in plain tensors, which neither a checkpoint nor a move to a device would see.
    for key, value in list(vars(loss).items()):
        if isinstance(value, Tensor):
            delattr(loss, key)
            loss.register_buffer(key, value)
    return loss


def sizes_of(loss_class: type[Any]) -> list[str]:
    """The required arguments of a loss that are the number of classes or the dimension, by the library's names."""
    parameters = _parameters(loss_class)
    return [key for key in SIZES if key in parameters and parameters[key].default is inspect.Parameter.empty]


def only_directions_count(loss_class: type[Any], arguments: dict[str, Any]) -> bool:
    """Whether a loss ignores the length of representations, found by trying; its space is then the unit sphere.

    The distance of a loss may claim to normalise, yet some losses (`SphereFaceLoss`) use the length all the same.
    """
    found = []
    for length in (1.0, 3.0):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            loss = make_loss(loss_class, arguments, 4, 6)
            found.append(loss(length * torch.randn(16, 6), torch.arange(16) % 4).detach())
    return torch.allclose(found[0], found[1], rtol=1e-3)


def _parameters(loss_class: type[Any]) -> dict[str, inspect.Parameter]:
    """The named parameters of a loss and of the losses that it derives from."""
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
            "pip install 'magnet-loss[pml]'"
        ) from error
    found: ModuleType = losses
    return found
