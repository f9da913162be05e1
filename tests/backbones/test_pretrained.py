"""Published weights that are on this machine, and which network a file of weights is for."""

import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import save_file

from magnet import backbones
from magnet.backbones.weights import backbone_of
from magnet.errors import UserError

LITE = backbones.PHOTOGRAPHS


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any weights: no package, empty caches. Returns the folder that torch keeps its files in."""
    monkeypatch.setattr(backbones, "_PACKAGES", {})
    for name in ("TORCH_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    folder = tmp_path / "TORCH_HOME" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


def test_a_package_is_looked_at_before_the_caches(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert backbones.find_weights(LITE) is None
    cached = empty / "tf_efficientnet_lite0-0aa007d2.pth"
    cached.touch()
    assert backbones.find_weights(LITE) == cached
    (tmp_path / "some_weights" / "models").mkdir(parents=True)
    (tmp_path / "some_weights" / "__init__.py").touch()
    (tmp_path / "some_weights" / "models" / "w.pth").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(backbones, "_PACKAGES", {LITE: ("some_weights", "models/w.pth")})
    assert backbones.find_weights(LITE) == tmp_path / "some_weights" / "models" / "w.pth"


def test_what_the_hub_has_downloaded_is_found(empty: Path, tmp_path: Path) -> None:
    folder = tmp_path / "HF_HOME" / "hub" / "models--timm--tf_efficientnet_lite0.in1k" / "snapshots" / "0a1b"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    assert backbones.find_weights(LITE) == folder / "model.safetensors"


def test_a_pretrained_network_takes_the_weights_that_are_there(empty: Path) -> None:
    published = backbones.build("googlenet", example_shape=(3, 64, 64), seed=5)
    torch.save(published.state_dict(), empty / "googlenet-1378be20.pth")
    network = backbones.build("googlenet@pretrained", example_shape=(3, 64, 64), dim=8, seed=1)
    assert torch.equal(network.conv1.conv.weight, published.conv1.conv.weight)
    assert network.embedding.out_features == 8


def test_a_network_without_published_weights_says_so(empty: Path) -> None:
    with pytest.raises(UserError, match="no published weights of backbone 'googlenet' are on this machine"):
        backbones.build("googlenet@pretrained", example_shape=(3, 64, 64))


def test_a_file_tells_its_network_by_its_tensors_its_name_or_what_lies_beside_it(
    timm: ModuleType, tmp_path: Path
) -> None:
    def write(name: str, *tensors: str) -> Path:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save_file({tensor: torch.zeros(1) for tensor in tensors}, tmp_path / name)
        return tmp_path / name

    assert backbone_of(write("a.safetensors", "_conv_stem.weight", "_blocks.0._depthwise_conv.weight")) == LITE
    assert backbone_of(write("b.safetensors", "module.inception3a.branch1.conv.weight")) == "googlenet"
    assert backbone_of(write("resnet18d_ra2-48a79e06.safetensors", "conv1.weight")) == "timm/resnet18d"
    beside = write("hub/model.safetensors", "conv1.weight")
    (tmp_path / "hub" / "config.json").write_text(json.dumps({"architecture": "lcnet_035"}))
    assert backbone_of(beside) == "timm/lcnet_035"
    with pytest.raises(UserError, match=r"cannot be told .*: give it as --backbone timm/NAME"):
        backbone_of(write("mine.safetensors", "conv1.weight"))
