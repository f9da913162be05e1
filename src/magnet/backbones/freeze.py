"""Training the head alone."""

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
