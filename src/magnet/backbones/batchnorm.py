"""Batch-norm statistics of the data instead of those of neighbourhoods.

A training batch is a neighbourhood: similar examples of a few classes. Running statistics collected over
such batches are not those of the data, and the embeddings of a refresh, which are taken in eval mode, would
use them. So before the refresh the statistics are estimated anew, from *random* batches under the current
weights. The order matters: all statistics are final before the first embedding is taken, so that the
embeddings of a refresh are of one moment.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from magnet.backbones.base import Backbone, BatchNorm
from magnet.errors import UserError


def _layers(module: nn.Module) -> list[BatchNorm]:
    """Batch-norm layers that keep statistics, except those of a frozen trunk or fixed ones, which must not move."""
    frozen = {
        id(layer)
        for backbone in module.modules()
        if isinstance(backbone, Backbone) and (backbone.frozen or backbone.fixed_batchnorm)
        for part in ([backbone] if backbone.fixed_batchnorm else backbone.trunk_modules())
        for layer in part.modules()
    }
    return [
        layer
        for layer in module.modules()
        if isinstance(layer, BatchNorm) and layer.running_mean is not None and id(layer) not in frozen
    ]


def has_batchnorm(module: nn.Module) -> bool:
    """Whether `module` has batch-norm statistics to re-estimate (those of a frozen trunk do not count)."""
    return bool(_layers(module))


@torch.no_grad()
def reestimate_batchnorm(module: nn.Module, batches: Iterable[Tensor]) -> int:
    """Replace the running statistics of all batch-norm layers by their average over `batches`.

    `batches` are inputs of `module`, without augmentation, drawn at random from the whole training set; a
    few thousand examples in all are enough:

        order = torch.randperm(len(x), generator=generator)[:4096]
        reestimate_batchnorm(backbone, (x[rows] for rows in order.split(64)))

    Every example weighs the same. Batches of a single example have no variance and are skipped. Everything
    but the layers' `running_mean` and `running_var` is left as it was: training flags, momentum, counters.
    Without batch norm, or without batches, nothing changes; without batch norm `batches` is not even
    opened. Returns the number of examples used.
    """
    layers = _layers(module)
    if not layers:
        return 0
    flags = [(child, child.training) for child in module.modules()]
    before = [(layer, layer.momentum, {k: v.clone() for k, v in layer.named_buffers()}) for layer in layers]
    seen, finished = 0, False
    try:
        module.eval()  # no dropout: the statistics are those the eval mode will meet
        for layer in layers:
            layer.training = True  # the flag alone, as a layer may have children (a dropout) of its own
        for batch in batches:
            if len(batch) < 2:
                continue
            if seen == 0:
                for layer in layers:
                    layer.reset_running_stats()
            seen += len(batch)
            for layer in layers:
                layer.momentum = len(batch) / seen  # makes the running average a mean over examples
            module(batch)
        finished = True
    finally:
        for child, training in flags:
            child.training = training
        for layer, momentum, buffers in before:
            layer.momentum = momentum
            for name, value in buffers.items():
                # After an error half-made statistics would be worse than the old ones.
                if not finished or name not in ("running_mean", "running_var"):
                    layer.get_buffer(name).copy_(value)
    return seen


def freeze_batchnorm(module: Backbone) -> Backbone:
    """Keep the batch-norm statistics of `module` as they are, in place; all its weights go on learning.

    Statistics of a pretrained network are those of its wide training data. Data of one kind, all pets or all birds,
    has other means: normalised by them, what the network had to say of this kind falls below its rectifiers.
    """
    if not module.batchnorm_layers():
        raise UserError(
            f"this {type(module).__name__} has no batch norm whose statistics could be kept: give --no-freeze-batchnorm"
        )
    module.fixed_batchnorm = True
    module.train(module.training)
    return module
