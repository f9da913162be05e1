"""The small convolutional net."""

import pytest
import torch
from torch.nn import functional

from magnet import backbones


@pytest.mark.parametrize("size", [8, 9, 15, 16, 28, 47, 48, 96])
@pytest.mark.parametrize("channels", [1, 3])
def test_it_takes_any_size_from_eight_pixels(size: int, channels: int) -> None:
    backbone = backbones.build("convnet", example_shape=(channels, size, size + 1))
    assert backbone(torch.randn(2, channels, size, size + 1)).shape == (2, 64)
    assert backbone.input_size == size


def test_a_net_built_for_one_size_takes_others() -> None:
    backbone = backbones.build("convnet", example_shape=(3, 32, 32)).eval()
    assert backbone(torch.randn(2, 3, 24, 40)).shape == (2, 64)


def test_it_learns_digits() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    y = torch.tensor(digits.target)
    x = (x - 0.5) / 0.5
    backbone = backbones.build("convnet", example_shape=(1, 8, 8), dim=10)
    optimiser = torch.optim.SGD(backbone.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        rows = torch.randint(0, 1200, (64,), generator=generator)
        optimiser.zero_grad()
        functional.cross_entropy(backbone(x[rows]), y[rows]).backward()
        optimiser.step()
    with torch.no_grad():
        correct = (backbone.eval()(x[1200:]).argmax(1) == y[1200:]).float().mean()
    assert correct > 0.9
