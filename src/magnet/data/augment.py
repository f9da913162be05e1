"""The paper's augmentation: rescale at random by up to 30 %, then crop back at random."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from magnet.errors import UserError


class Augmentation:
    """Random views of a batch of images, all at once and on their own device.

    Each image is enlarged so that its short side is s * size, s uniform in [1, 1 + rescale], and a random
    size x size window is cut out of it. The larger s, the closer the view. With images stored at a side of
    (1 + rescale) * size the closest view takes stored pixels one to one, and no view needs more than was stored.

    Args:
        size: side of the views.
        rescale: largest enlargement, 0.3 in the paper.
        flip: also mirror left to right with probability 1/2; the paper does not mention it.

    >>> images = torch.zeros(2, 3, 62, 62, dtype=torch.uint8)
    >>> Augmentation(48)(images, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 48, 48])
    """

    def __init__(self, size: int, rescale: float = 0.3, flip: bool = False) -> None:
        if size < 1 or rescale < 0:
            raise UserError(f"size is {size} and rescale {rescale}, expected size >= 1 and rescale >= 0.")
        self.size, self.rescale, self.flip = size, rescale, flip

    def __call__(self, images: Tensor, generator: torch.Generator, *, shared: bool = False) -> Tensor:
        """Images (B, 3, H, W), uint8 or float -> float (B, 3, size, size).

        Bytes come out in 0..1, floats in their own range, give or take what bicubic resampling overshoots at an edge.
        All chance comes from ``generator``: one on the CPU gives the same views on every device. With ``shared`` one
        draw is made for all images of the batch.
        """
        count = 1 if shared else len(images)
        draws = torch.rand(4, count, generator=generator, device=generator.device).to(images.device)
        draws = draws.expand(4, len(images))
        scale = 1 + self.rescale * draws[0]
        mirror = torch.where(draws[3] < 0.5, -1.0, 1.0) if self.flip else torch.ones_like(scale)
        return self._view(images, scale, 2 * draws[1] - 1, 2 * draws[2] - 1, mirror)

    def shared(self, images: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
        """Yield views without end, each with one window for all images of the batch, to be averaged.

        Without `flip` all are drawn alike. With it they come in pairs that balance each other, so that the mean over a
        few is nearer to the mean over many: the plain view and its mirror image, then random windows, each with the one
        as far on the other side of the middle in place and scale, mirrored.
        """
        if not self.flip:
            while True:
                yield self(images, generator, shared=True)
        plain = self.centre(images)
        yield plain
        yield plain.flip(-1)
        while True:
            scale, x, y = torch.rand(3, generator=generator, device=generator.device).tolist()
            for side in (1, -1):
                enlarged = 1 + self.rescale * (0.5 + side * (scale - 0.5))
                place = (enlarged, side * (2 * x - 1), side * (2 * y - 1), side)
                yield self._view(images, *(torch.full((len(images),), value, device=images.device) for value in place))

    @property
    def short_side(self) -> int:
        """To what the short side of an image is resized for the view without chance.

        It is in the middle of the range of the random views, size * (1 + rescale / 2), rounded so that an equal number
        of whole pixels is cut off either side.
        """
        return self.size + 2 * round(self.size * self.rescale / 4)

    def centre(self, images: Tensor) -> Tensor:
        """The view without chance: resized to `short_side`, then the size x size window in the middle.

        A network that was trained on views of all scales is thus asked about one of medium scale.
        """
        one, zero = torch.ones(len(images), device=images.device), torch.zeros(len(images), device=images.device)
        return self._view(images, one * self.short_side / self.size, zero, zero, one)

    def _view(self, images: Tensor, scale: Tensor, x: Tensor, y: Tensor, mirror: Tensor) -> Tensor:
        """Windows at (x, y) in [-1, 1], from one border of the image to the other."""
        height, width = images.shape[-2:]
        # A window covers this fraction of the sides, and its centre may move by what is left of them.
        wide, high = min(height, width) / width / scale, min(height, width) / height / scale
        zero = torch.zeros_like(scale)
        rows = [torch.stack([wide * mirror, zero, x * (1 - wide)]), torch.stack([zero, high, y * (1 - high)])]
        pixels = as_float(images)
        theta = torch.stack(rows).permute(2, 0, 1).to(pixels.dtype)
        grid = F.affine_grid(theta, [len(images), images.shape[1], self.size, self.size], align_corners=False)
        # Border padding: the outermost half pixel is no mixture with black. Bicubic: stored images are resized already,
        # and a second bilinear resampling blurs them (on photos of pets that cost two points of error).
        views = F.grid_sample(pixels, grid, mode="bicubic", padding_mode="border", align_corners=False)
        return views if images.is_floating_point() else views.clamp_(0, 1)


def as_float(images: Tensor) -> Tensor:
    """Bytes to float32 in 0..1; floating images unchanged."""
    return images if images.is_floating_point() else images.float() / 255


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(images - mean) / std by channel, for images (B, 3, H, W) in 0..1 (bytes are scaled to it).

    >>> normalise(torch.full((1, 3, 1, 1), 255, dtype=torch.uint8), (0.5, 0.5, 0.5), (0.5, 0.25, 0.125)).flatten()
    tensor([1., 2., 4.])
    """
    images = as_float(images)
    shape = (-1, 1, 1)
    return (images - images.new_tensor(mean).view(shape)) / images.new_tensor(std).view(shape)
