"""A small convolutional net for small images."""

from torch import Tensor, nn

from magnet.backbones.base import Backbone


def _block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class ConvNet(Backbone):
    """Images (B, C, H, W) to (B, dim), for sides of 8 to about 96 pixels.

    Five 3x3 convolutions in three stages of 32, 64 and 128 channels, global average pooling, and a linear
    embedding. The stages always work on roughly the resolutions they have for 28-pixel images (28, 14, 7):
    larger images (from 48 pixels) are halved by the first convolution, and tiny ones (below 16) skip the
    first pooling.
    """

    def __init__(self, channels: int, size: int, dim: int = 64, *, dropout: float = 0.0) -> None:
        middle = (0.5,) * channels
        super().__init__(dim, "images", input_size=size, mean=middle, std=middle)
        self.features = nn.Sequential(
            _block(channels, 32, stride=2 if size >= 48 else 1),
            nn.MaxPool2d(2) if size >= 16 else nn.Identity(),
            _block(32, 64),
            _block(64, 64),
            nn.MaxPool2d(2),
            _block(64, 128),
            _block(128, 128),
        )
        self.dropout = nn.Dropout(dropout)
        self.embedding = nn.Linear(128, dim)
        for module in self.features.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def trunk_layers(self) -> list[list[nn.Parameter]]:
        """The parameters of the trunk, convolution by convolution."""
        return [layer for block in self.features if (layer := list(block.parameters()))]

    def trunk_features(self, x: Tensor) -> Tensor:
        """Pooled features (B, 128) of images x (B, C, H, W)."""
        features: Tensor = self.features(x).mean((2, 3))
        return features
