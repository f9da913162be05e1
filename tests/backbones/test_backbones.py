"""Building backbones by name."""

import pytest
import torch

from magnet import backbones
from magnet.errors import UserError

SHAPES = {"linear": (20,), "mlp": (20,), "convnet": (1, 28, 28), "googlenet": (3, 64, 64)}


@pytest.mark.parametrize("name", SHAPES)
def test_a_batch_becomes_representations_of_the_stated_dimension(name: str) -> None:
    for dim in (None, 7):
        backbone = backbones.build(name, example_shape=SHAPES[name], dim=dim).eval()
        assert backbone(torch.randn(2, *SHAPES[name])).shape == (2, backbone.dim)
        assert dim is None or backbone.dim == dim


@pytest.mark.parametrize("name", ["linear", "mlp", "convnet"])
def test_the_seed_alone_decides_the_weights(name: str) -> None:
    torch.manual_seed(5)
    first = backbones.build(name, example_shape=SHAPES[name], seed=1).state_dict()
    torch.manual_seed(6)
    second = backbones.build(name, example_shape=SHAPES[name], seed=1).state_dict()
    other = backbones.build(name, example_shape=SHAPES[name], seed=2).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


def test_building_leaves_the_global_random_state_as_it_was() -> None:
    before = torch.random.get_rng_state()
    backbones.build("mlp", example_shape=(20,))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("name", SHAPES)
def test_trunk_and_head_share_out_all_parameters(name: str) -> None:
    backbone = backbones.build(name, example_shape=SHAPES[name])
    trunk = list(backbone.trunk_parameters())
    head = [p for name, child in backbone.named_children() if name in backbone.head_names for p in child.parameters()]
    assert sorted(map(id, trunk + head)) == sorted(map(id, backbone.parameters()))
    assert sum(p.numel() for p in head) > 0
    assert bool(trunk) == (backbone.kind == "images")


@pytest.mark.parametrize("name", SHAPES)
def test_images_come_with_normalisation_and_size_and_vectors_without(name: str) -> None:
    backbone = backbones.build(name, example_shape=SHAPES[name])
    if backbone.kind == "vectors":
        assert (backbone.input_size, backbone.mean, backbone.std) == (None, (), ())
    else:
        assert backbone.input_size == (28 if name == "convnet" else 224)
        assert len(backbone.mean) == len(backbone.std) == SHAPES[name][0]


def test_an_unknown_name_is_answered_with_the_list_and_the_close_ones() -> None:
    with pytest.raises(UserError, match=r"no backbone 'googelnet': did you mean googlenet.*convnet.*timm/NAME"):
        backbones.build("googelnet", example_shape=(3, 64, 64))
    assert backbones.names() == ("convnet", "googlenet", "linear", "mlp", "timm/NAME")


def test_vectors_and_images_are_not_confused() -> None:
    with pytest.raises(UserError, match=r"'mlp' takes vectors of shape \(d,\).*\(3, 28, 28\).*convnet"):
        backbones.build("mlp", example_shape=(3, 28, 28))
    for name in ("convnet", "timm/resnet18"):
        with pytest.raises(UserError, match=r"takes images of shape \(C, H, W\).*\(64,\).*mlp"):
            backbones.build(name, example_shape=(64,))


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        ("googlenet", (1, 64, 64), {}, "convert them to RGB"),
        ("googlenet", (3, 16, 16), {}, "sides of 32 pixels or more"),
        ("convnet", (1, 7, 8), {}, "sides of 8 pixels or more"),
        ("linear", (20,), {"dim": 0}, "cannot have 0 dimensions"),
        ("linear", (20,), {"hidden": 5}, "only mlp has a hidden layer"),
        ("mlp", (20,), {"dropout": 1.0}, "dropout is a probability"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, shape: tuple, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        backbones.build(name, example_shape=shape, **options)
