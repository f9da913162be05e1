"""Read an image of any mode as a square of RGB bytes, and cache decoded images."""

import io
import math
import mmap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from magnet.data.listings import EncodedImage, open_image
from magnet.errors import UserError, one_line
from magnet.files import check_regular

ORIENTATION = 0x0112
RESCALE = 0.3  # of the paper: images are enlarged by up to this and cropped back
MOST_PIXELS = 80_000_000  # of an image, unless more are allowed: 240 MB once decoded


def room(size: int, rescale: float = RESCALE) -> int:
    """The stored side for crops of ``size`` that are enlarged by up to ``rescale``: the closest crop loses no pixel.

    It is never less than ceil(1.3 size), for the paper's 30 %, nor more than twice the size.

    >>> room(224), room(96, 1.0)
    (292, 192)
    """
    return math.ceil(round(size * (1 + min(max(rescale, RESCALE), 1.0)), 6))


def decode(source: Path | EncodedImage | Image.Image | np.ndarray, side: int, most: int = MOST_PIXELS) -> Tensor:
    """An image as uint8 (3, side, side), from a file, from an archive or table, or from pixels uint8 (H, W[, 3]).

    Upright by its EXIF orientation, RGB, its short side resized to ``side``, the centre of the long side kept. An image
    of more than ``most`` pixels is refused before it is decoded.
    """
    if isinstance(source, np.ndarray):
        return _square(Image.fromarray(source).convert("RGB"), side)
    if isinstance(source, Image.Image):
        return _square(to_rgb(_upright(source)), side)
    try:
        if isinstance(source, Path):
            check_regular(source)
        with open_image(source if isinstance(source, Path) else io.BytesIO(source.read())) as image:
            if image.width * image.height > most:
                size = f"{image.width} x {image.height}"
                raise UserError(f"{size} pixels, more than the {most:,} of --max-pixels")
            # A JPEG decodes at 1/2, 1/4, 1/8 for less work; twice the side leaves the resize enough to average.
            image.draft(None, (2 * side, 2 * side))
            return _square(to_rgb(_upright(image)), side)
    except UserError as error:
        raise UserError(f"{source}: cannot be read as an image ({error}).") from error
    except FileNotFoundError:
        raise UserError(f"{source}: the image is no longer there.") from None
    except UnidentifiedImageError as error:
        raise UserError(f"{source}: cannot be read as an image (not an image, or of an unknown format).") from error
    except Exception as error:  # Pillow's decoders raise whatever a damaged file makes them stumble over
        raise UserError(f"{source}: cannot be read as an image ({one_line(error)}).") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB of any mode: transparency lies on white, 16-bit grey is scaled to 8 bits."""
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    if image.mode.startswith("I"):  # convert() would clip at 255 and leave an almost white image
        grey = np.clip(np.asarray(image).astype(np.int64), 0, 65535) // 257
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        values = np.nan_to_num(np.asarray(image))
        scale = 255.0 if values.max(initial=0) <= 1 else 1.0
        return Image.fromarray(np.clip(values * scale, 0, 255).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")


def find_unreadable(files: Sequence[Path | EncodedImage], most: int = MOST_PIXELS) -> dict[int, str]:
    """Decode every file once (small, in threads) and tell which fail: index -> reason."""

    def reason(file: Path | EncodedImage) -> str | None:
        try:
            decode(file, 16, most)
        except UserError as error:
            return str(error).removeprefix(f"{file}: ")
        return None

    with ThreadPoolExecutor() as pool:
        return {i: why for i, why in enumerate(pool.map(reason, files)) if why is not None}


def _upright(image: Image.Image) -> Image.Image:
    if image.getexif().get(ORIENTATION, 1) == 1:
        return image
    return ImageOps.exif_transpose(image)


def _square(image: Image.Image, side: int) -> Tensor:
    short = min(image.size)
    left, top = (image.width - short) / 2, (image.height - short) / 2
    # Resizing only the centre square is the same as resizing all and cropping, and safe for a panorama.
    image = image.resize(
        (side, side), Image.Resampling.BILINEAR, box=(left, top, left + short, top + short), reducing_gap=3.0
    )
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


class ImageCache:
    """A cache of decoded images, uint8 (3, S, S), which forked processes share.

    It is anonymous shared memory, which forked workers inherit, and which is freed when the last process ends. Pages
    that are never written take no memory.

    Args:
        count: examples.
        shape: of an image.
        limit: bytes that the cache may take; examples beyond it are not kept.
    """

    def __init__(self, count: int, shape: tuple[int, ...], limit: int) -> None:
        size = int(np.prod(shape))
        self.kept = min(count, limit // max(size, 1))
        self.shape = shape
        if self.kept:
            self._images = torch.frombuffer(mmap.mmap(-1, self.kept * size), dtype=torch.uint8).view(-1, *shape)
            # Set after the image is written, so that a process never reads half of one.
            self._there = torch.frombuffer(mmap.mmap(-1, self.kept), dtype=torch.uint8)

    def get(self, index: int) -> Tensor | None:
        """The image, or None if it is not cached."""
        return self._images[index] if index < self.kept and self._there[index] else None

    def put(self, index: int, image: Tensor) -> None:
        """Cache an image, if there is room."""
        if index < self.kept:
            self._images[index] = image
            self._there[index] = 1
