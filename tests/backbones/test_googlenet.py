"""GoogLeNet is torchvision's, plus an embedding."""

from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from magnet import backbones


@pytest.fixture(scope="module")
def theirs(torchvision: ModuleType) -> nn.Module:
    """torchvision's own network with random weights and random batch-norm statistics."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = torchvision.models.googlenet(weights=None, aux_logits=True, transform_input=False, init_weights=False)
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.uniform_(-0.1, 0.1)
                layer.running_var.uniform_(0.01, 0.2)
                nn.init.uniform_(layer.weight, 0.5, 1.5)
                nn.init.uniform_(layer.bias, -0.1, 0.1)
    return network.eval()


def test_names_and_shapes_are_exactly_those_of_torchvision(theirs: nn.Module) -> None:
    ours = {k: v.shape for k, v in backbones.build("googlenet", example_shape=(3, 96, 96)).state_dict().items()}
    published = {k: v.shape for k, v in theirs.state_dict().items() if not k.startswith(("fc.", "aux"))}
    new = {"embedding.weight": torch.Size((1024, 1024)), "embedding.bias": torch.Size((1024,))}
    assert ours == published | new
    assert list(ours) == [*published, *new]


def test_published_weights_load_and_give_the_same_features(theirs: nn.Module, tmp_path: Path) -> None:
    torch.save(theirs.state_dict(), tmp_path / "googlenet.pth")
    ours = backbones.build("googlenet", example_shape=(3, 96, 96)).eval()
    report = backbones.load_weights(ours, tmp_path / "googlenet.pth")
    assert report.missing == ("embedding.weight", "embedding.bias")
    assert report.mismatched == ()
    assert {name.split(".")[0] for name in report.unexpected} == {"fc", "aux1", "aux2"}

    x = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    classifier, theirs.fc = theirs.fc, nn.Identity()
    with torch.no_grad():
        expected, features, representations = theirs(x), ours.trunk_features(x), ours(x)
    theirs.fc = classifier
    assert expected.std() > 0.01
    torch.testing.assert_close(features, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(representations, ours.embedding(expected), atol=1e-4, rtol=1e-4)


def test_the_smallest_size_it_takes_works() -> None:
    backbone = backbones.build("googlenet", example_shape=(3, 32, 32), dim=16).eval()
    assert backbone(torch.randn(1, 3, 32, 32)).shape == (1, 16)


def test_pixels_are_brought_to_the_range_its_published_weights_expect() -> None:
    backbone = backbones.build("googlenet", example_shape=(3, 32, 32), dim=16)
    assert (backbone.mean, backbone.std, backbone.input_size) == ((0.5,) * 3, (0.5,) * 3, 224)
