"""Batch-norm statistics taken from the data."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from magnet import backbones


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout(0.5), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4))


def _images(count: int = 50) -> torch.Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 + 1


def test_statistics_become_those_of_the_data() -> None:
    network, x = _net(), _images()
    network.train()(x * 30)  # statistics of something else
    assert backbones.reestimate_batchnorm(network, [x]) == 50
    with torch.no_grad():
        inside = network[0](x)
    torch.testing.assert_close(network[2].running_mean, inside.mean((0, 2, 3)))
    torch.testing.assert_close(network[2].running_var, inside.var((0, 2, 3)))


def test_every_example_weighs_the_same_whatever_its_batch() -> None:
    network, x = _net(), _images()
    backbones.reestimate_batchnorm(network, x.split(20))  # 20, 20, 10
    with torch.no_grad():
        inside = network[0](x)
    torch.testing.assert_close(network[2].running_mean, inside.mean((0, 2, 3)))


def test_nothing_but_running_statistics_changes() -> None:
    network = _net().train()
    network[3].eval()
    network(_images())
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    flags = [module.training for module in network.modules()]
    state = torch.random.get_rng_state()
    backbones.reestimate_batchnorm(network, _images().split(10))
    changed = {name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {f"{layer}.running_{what}" for layer in (2, 4) for what in ("mean", "var")}
    assert flags == [module.training for module in network.modules()]
    assert [network[i].momentum for i in (2, 4)] == [0.1, 0.1]
    assert all(parameter.grad is None for parameter in network.parameters())
    assert torch.equal(state, torch.random.get_rng_state())


def test_without_batch_norm_no_batch_is_drawn() -> None:
    def never() -> Iterator[torch.Tensor]:
        raise AssertionError("a batch was drawn")
        yield

    assert backbones.reestimate_batchnorm(backbones.build("mlp", example_shape=(6,)), never()) == 0


@pytest.mark.parametrize("batches", [[], [_images(1)]])
def test_without_usable_batches_the_old_statistics_stay(batches: list[torch.Tensor]) -> None:
    network = _net().train()
    network(_images())
    before = network[2].running_mean.clone()
    assert backbones.reestimate_batchnorm(network, batches) == 0
    assert torch.equal(before, network[2].running_mean)


def test_an_error_on_the_way_brings_everything_back() -> None:
    network = _net().train()
    network(_images())
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with pytest.raises(RuntimeError):
        backbones.reestimate_batchnorm(network, [_images(), torch.zeros(4, 5, 8, 8)])
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert all(module.training for module in network.modules())
    assert network[2].momentum == 0.1


def test_a_frozen_trunk_keeps_its_statistics() -> None:
    backbone = backbones.build("convnet", example_shape=(3, 8, 8))
    assert backbones.has_batchnorm(backbone)
    backbones.freeze(backbone)
    before = {name: tensor.clone() for name, tensor in backbone.state_dict().items()}
    assert not backbones.has_batchnorm(backbone)
    assert backbones.reestimate_batchnorm(backbone, [_images()]) == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in backbone.state_dict().items())


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


def test_a_network_without_batch_norm_has_nothing_to_keep() -> None:
    network = backbones.freeze_batchnorm(backbones.build("mlp", example_shape=(6,)))
    assert all(layer.training for layer in network.train().modules())
