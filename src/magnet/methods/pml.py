"""Any loss of pytorch-metric-learning as a method: ``pml/ProxyAnchorLoss`` or ``pml/ArcFaceLoss(margin=20, scale=32)``.

A loss that keeps weights for every class gets random batches, one that compares the examples of a batch gets
class-balanced ones. Representations are judged by soft kNN, as the library's `AccuracyCalculator` judges by kNN: these
losses order single examples, and proxies and class weights are thrown away after training. kNC is there for all.

Proxies learn at the rate of the network. A hundred times that, customary with Adam, was tried under the SGD of our loop
on Oxford-IIIT Pet features; mean validation errors of three seeds: Proxy-Anchor from 7.0 to 6.7 %, ArcFace 7.6 to 7.4,
Proxy-NCA 10.5 to 10.6, SoftTriple 9.2 to 9.7. That is no reason to treat them unlike the rest.
"""

from typing import Any, ClassVar

import torch

from magnet.errors import UserError
from magnet.methods.balanced import BalancedBatches
from magnet.methods.base import Batch, Classifier, Method, MethodLoss, Network, Options, Setting
from magnet.methods.calls import closest, read_call
from magnet.methods.distances import full_precision
from magnet.methods.pml_losses import arguments_of, find_loss, make_loss, only_directions_count, sizes_of
from magnet.methods.sampling import RandomBatches

PREFIX = "pml/"


class Pml(Method):
    """One of the library's losses; `pml_method` makes a class for each."""

    classifier: ClassVar[Classifier] = "knn"
    reads_representations: ClassVar[bool] = False
    loss_class: ClassVar[type[Any]]
    arguments: ClassVar[dict[str, Any]]

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self.criterion = make_loss(self.loss_class, self.arguments, setting.classes, setting.dim)
        if "num_classes" in sizes_of(self.loss_class):
            ranks = {"rank": setting.rank, "world_size": setting.world_size}
            self.sampler = RandomBatches(len(setting.labels), options.batch_size, seed=setting.seed, **ranks)
        elif options.examples_per_cluster < 2:
            raise UserError(
                f"{PREFIX}{self.loss_class.__name__} compares examples of a class: --examples-per-cluster must be "
                f"at least 2; found {options.examples_per_cluster}"
            )
        else:
            self.sampler = BalancedBatches(setting, options)

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """What the library computes; the mean stands for each example where it does not tell them apart."""
        representations = full_precision(network(batch.inputs))
        parts: dict[str, dict[str, Any]] = {}  # the losses before they are reduced to one number
        hook = self.criterion.reducer.register_forward_pre_hook(lambda _, inputs: parts.update(inputs[0]))
        try:
            # In full precision: the library casts its weights, not a copy of them, to the precision it is given.
            with torch.autocast(representations.device.type, enabled=False):
                loss = self.criterion(representations, batch.labels)
        finally:
            hook.remove()
        for name, state in list(self.criterion.named_buffers(recurse=False)):
            setattr(self.criterion, name, state.detach())  # `DynamicSoftMarginLoss` would drag its graph along
        per_example = loss.detach().expand(len(batch.labels))
        told = next(iter(parts.values())) if len(parts) == 1 else {}
        if told.get("reduction_type") == "element" and told["losses"].numel() == len(per_example):
            per_example = told["losses"].detach().flatten()
        return MethodLoss(loss, per_example)


def pml_method(name: str) -> type[Pml]:
    """The method of ``pml/Loss`` or ``pml/Loss(argument=value, ...)``, its arguments seen to work."""
    loss_name, arguments = read_call(name.removeprefix(PREFIX), name)
    loss_class = find_loss(loss_name)
    accepted = arguments_of(loss_class)
    for argument in arguments:
        if argument not in accepted:
            raise UserError(f"{loss_name} takes no argument {argument!r} here{closest(argument, accepted)}")
    try:
        normalised = only_directions_count(loss_class, arguments)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{name} does not work: {reason}. It takes: {', '.join(sorted(accepted))}") from error
    members = {"loss_class": loss_class, "arguments": arguments, "normalised": normalised, "__doc__": name}
    return type(f"Pml{loss_name}", (Pml,), members)
