"""timm models as backbones."""

import subprocess
import sys
from types import ModuleType

import pytest
import torch

from magnet import backbones
from magnet.backbones import timm as bridge
from magnet.errors import UserError


@pytest.mark.parametrize("name", ["resnet10t", "mobilenetv3_small_050", "vit_tiny_patch16_224", "lcnet_035"])
def test_the_stated_dimension_is_that_of_the_features(timm: ModuleType, name: str) -> None:
    backbone = backbones.build(f"timm/{name}", example_shape=(3, 224, 224)).eval()
    size = backbone.input_size
    with torch.no_grad():
        assert backbone(torch.randn(1, 3, size, size)).shape == (1, backbone.dim)
    assert list(backbone.embedding.parameters()) == []


def test_size_and_normalisation_are_the_models_own(timm: ModuleType) -> None:
    backbone = backbones.build("timm/tf_efficientnet_lite0", example_shape=(3, 96, 96), dim=32, dropout=0.1)
    assert (backbone.input_size, backbone.mean, backbone.std) == (224, (0.5,) * 3, (0.5,) * 3)
    assert [tuple(p.shape) for p in backbone.embedding.parameters()] == [(32, 1280), (32,)]
    resnet = backbones.build("timm/resnet10t", example_shape=(3, 96, 96), dim=0)
    assert resnet.mean == (0.485, 0.456, 0.406)
    assert resnet.dim == 512


def test_the_seed_decides_the_weights_and_the_global_state_is_kept(timm: ModuleType) -> None:
    before = torch.random.get_rng_state()
    one, two = (backbones.build("timm/lcnet_035", example_shape=(3, 64, 64), dim=4, seed=3) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert torch.equal(before, torch.random.get_rng_state())


def test_an_unknown_model_is_answered_with_close_ones(timm: ModuleType) -> None:
    with pytest.raises(UserError, match=r"no model 'resnet_18': did you mean .*resnet18"):
        backbones.build("timm/resnet_18", example_shape=(3, 64, 64))


def test_a_model_of_fixed_size_names_both_shapes(timm: ModuleType) -> None:
    backbone = backbones.build("timm/mixer_s32_224", example_shape=(3, 96, 96))
    with pytest.raises(UserError, match=r"\(3, 224, 224\) only, found \(3, 96, 96\)"):
        backbone(torch.randn(1, 3, 96, 96))


def test_a_vision_transformer_takes_images_of_any_size(timm: ModuleType) -> None:
    backbone = backbones.build("timm/vit_tiny_patch16_224", example_shape=(3, 100, 100), dim=8).eval()
    assert not backbone.fixed_size
    with torch.no_grad():
        assert backbone(torch.randn(2, 3, 100, 100)).shape == (2, 8)


def test_weights_are_downloaded_only_when_asked_for(timm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, create = [], timm.create_model

    def offline(name: str, pretrained: bool, **options: object) -> torch.nn.Module:
        asked.append((name, pretrained))
        if pretrained:
            raise OSError("no route to host")
        return create(name, pretrained=False, **options)

    monkeypatch.setattr(timm, "create_model", offline)
    backbones.build("timm/lcnet_035", example_shape=(3, 64, 64))
    with pytest.raises(UserError, match=r"'lcnet_035' cannot be had \(OSError: no route to host\).*weights file"):
        backbones.build("timm/lcnet_035@pretrained", example_shape=(3, 64, 64))
    assert asked == [("lcnet_035", False), ("lcnet_035", True)]


def test_without_timm_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match=r"pip install 'magnet-loss\[timm\]'"):
        backbones.build("timm/resnet18", example_shape=(3, 64, 64))


def test_importing_the_backbones_does_not_import_timm_or_torchvision() -> None:
    code = "import sys, magnet.backbones; sys.exit(bool({'timm', 'torchvision'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_declared_for_a_torchvision_that_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "_library", None)
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    bridge.import_torchvision()
    assert bridge._library is None


@pytest.mark.parametrize("name", ["tf_efficientnet_lite0", "vit_tiny_patch16_224", "resnet10t"])
def test_layers_of_the_trunk_are_all_of_it_from_the_input_on(timm: ModuleType, name: str) -> None:
    backbone = backbones.build(f"timm/{name}", example_shape=(3, 64, 64), dim=4)
    layers = backbone.trunk_layers()
    assert {id(p) for layer in layers for p in layer} == {id(p) for p in backbone.trunk_parameters()}
    assert sum(map(len, layers)) == len(list(backbone.trunk_parameters()))
    stem = next(module for module in backbone.trunk.modules() if isinstance(module, torch.nn.Conv2d))
    assert any(p is stem.weight for p in layers[0])


def test_nothing_is_propagated_into_a_frozen_part(timm: ModuleType) -> None:
    backbone = backbones.build("timm/tf_efficientnet_lite0", example_shape=(3, 32, 32), dim=4)
    backbones.freeze_part(backbone, 0.35)
    backbone(torch.randn(2, 3, 32, 32)).sum().backward()
    trunk = backbone.trunk
    assert all(p.grad is None for part in (trunk.conv_stem, trunk.bn1, *trunk.blocks[:3]) for p in part.parameters())
    assert all(p.grad is not None for part in (*trunk.blocks[3:], trunk.conv_head) for p in part.parameters())
