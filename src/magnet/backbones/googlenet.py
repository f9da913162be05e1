"""GoogLeNet with batch normalisation and one more fully-connected layer: the map used in the paper.

Szegedy et al., Going Deeper with Convolutions (2015); batch normalisation after Ioffe and Szegedy (2015).
Parameters have the names of `torchvision.models.googlenet`, so that its published weights load. The file's
classifier (`fc`) and auxiliary heads (`aux1`, `aux2`) have no place here and are left out: `load_weights`
lists them as unexpected.
"""

import torch
from torch import Tensor, nn

from magnet.backbones.base import Backbone

# name: input channels, 1x1, (3x3 reduced, 3x3), (5x5 reduced, 5x5), 1x1 of the pooled input (their table 1)
_INCEPTIONS = {
    "3a": (192, 64, (96, 128), (16, 32), 32),
    "3b": (256, 128, (128, 192), (32, 96), 64),
    "4a": (480, 192, (96, 208), (16, 48), 64),
    "4b": (512, 160, (112, 224), (24, 64), 64),
    "4c": (512, 128, (128, 256), (24, 64), 64),
    "4d": (512, 112, (144, 288), (32, 64), 64),
    "4e": (528, 256, (160, 320), (32, 128), 128),
    "5a": (832, 256, (160, 320), (32, 128), 128),
    "5b": (832, 384, (192, 384), (48, 128), 128),
}


class _Conv(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)  # the epsilon the published weights were trained with
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        normalised: Tensor = self.bn(self.conv(x))
        return normalised.relu_()


class _Inception(nn.Module):
    """Four views of the same input, side by side in the channels."""

    def __init__(self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pooled: int) -> None:
        super().__init__()
        self.branch1 = _Conv(inputs, one, 1)
        self.branch2 = nn.Sequential(_Conv(inputs, three[0], 1), _Conv(*three, 3))
        # 5x5 in the paper; 3x3 in the published weights, whose shapes decide.
        self.branch3 = nn.Sequential(_Conv(inputs, five[0], 1), _Conv(*five, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), _Conv(inputs, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], dim=1)


class GoogLeNet(Backbone):
    """RGB images (B, 3, H, W), 224 x 224 by preference, to (B, dim)."""

    def __init__(self, dim: int = 1024, *, dropout: float = 0.2) -> None:
        # The published weights expect pixels in -1..1. (torchvision takes ImageNet-normalised pixels and brings
        # them to that range inside the model; stating the right mean and deviation needs no such step.)
        super().__init__(dim, "images", input_size=224, mean=(0.5,) * 3, std=(0.5,) * 3)
        self.conv1 = _Conv(3, 64, 7, stride=2)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = _Conv(64, 64, 1)
        self.conv3 = _Conv(64, 192, 3)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        for name, channels in _INCEPTIONS.items():
            self.add_module(f"inception{name}", _Inception(*channels))
            if name == "3b":
                self.maxpool3 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
            if name == "4e":
                self.maxpool4 = nn.MaxPool2d(2, stride=2, ceil_mode=True)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.embedding = nn.Linear(1024, dim)

    def trunk_features(self, x: Tensor) -> Tensor:
        """Pooled features (B, 1024) of images x (B, 3, H, W)."""
        for layer in self.trunk_modules():  # defined in the order in which they apply
            x = layer(x)
        return x.flatten(1)
