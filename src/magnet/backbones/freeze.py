"""What of a pretrained network is left as it is: all but its head, or its batch-norm statistics."""

from magnet.backbones.base import Backbone
from magnet.errors import UserError


def freeze(module: Backbone) -> Backbone:
    """Freeze the trunk of `module`, in place: no gradients, and eval mode even under `.train()`."""
    if not module.trunk_modules():
        raise UserError(
            f"a {type(module).__name__} backbone is all head, so freezing it would freeze nothing: "
            "leave the freezing out, or choose an image backbone with pretrained weights"
        )
    for parameter in module.trunk_parameters():
        parameter.requires_grad_(False)
    module.frozen = True
    module.train(module.training)  # puts the trunk into eval mode now
    return module


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
