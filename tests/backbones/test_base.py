"""What every backbone does: its trunk can be frozen, and the head trained alone."""

import pytest
import torch

from magnet import backbones
from magnet.errors import UserError


def test_a_frozen_trunk_has_no_gradients_and_does_not_move_under_training() -> None:
    backbone = backbones.freeze(backbones.build("convnet", example_shape=(1, 16, 16)))
    before = {name: tensor.clone() for name, tensor in backbone.state_dict().items()}
    optimiser = torch.optim.SGD([p for p in backbone.parameters() if p.requires_grad], lr=0.1)
    backbone.train()
    backbone(torch.randn(8, 1, 16, 16) + 3).square().sum().backward()
    optimiser.step()
    moved = {name for name, tensor in backbone.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved == {"embedding.weight", "embedding.bias"}
    assert all(parameter.grad is None for parameter in backbone.trunk_parameters())


def test_the_head_still_trains_and_evaluates() -> None:
    backbone = backbones.freeze(backbones.build("googlenet", example_shape=(3, 32, 32), dim=4))
    assert not backbone.conv1.bn.training
    assert backbone.train().dropout.training
    assert not backbone.conv1.bn.training
    assert not backbone.eval().dropout.training


def test_freezing_what_has_no_trunk_is_refused() -> None:
    with pytest.raises(UserError, match="is all head"):
        backbones.freeze(backbones.build("mlp", example_shape=(6,)))
