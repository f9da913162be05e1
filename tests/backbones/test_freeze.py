"""Training the head alone."""

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


def test_fixed_batchnorm_keeps_its_statistics_while_all_weights_learn() -> None:
    backbone = backbones.build("convnet", example_shape=(1, 16, 16))
    backbone(torch.randn(8, 1, 16, 16) * 2 + 1)  # statistics of their own
    images, before = torch.randn(8, 1, 16, 16) + 3, {}
    backbone.eval()
    expected = backbone(images)
    backbones.freeze_batchnorm(backbone).train()
    assert backbone.dropout.training
    torch.testing.assert_close(backbone(images), expected)  # by the kept statistics in training too
    before = {name: tensor.clone() for name, tensor in backbone.state_dict().items()}
    optimiser = torch.optim.SGD(backbone.parameters(), lr=0.1)
    backbone(images).square().sum().backward()
    optimiser.step()
    still = {name for name, tensor in backbone.state_dict().items() if torch.equal(tensor, before[name])}
    assert still == {name for name in before if "running_" in name or name.endswith("num_batches_tracked")}
    assert not backbones.has_batchnorm(backbone)
    assert backbones.reestimate_batchnorm(backbone, [images]) == 0


def test_fixing_statistics_that_are_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="no batch norm whose statistics could be kept"):
        backbones.freeze_batchnorm(backbones.build("linear", example_shape=(6,)))
