"""Decoded images, kept in memory that forked workers share."""

import mmap

import numpy as np
import torch
from torch import Tensor


class ImageCache:
    """Images uint8 (3, S, S) by example, as many as fit; whoever decodes one, all processes have it.

    Anonymous shared memory is inherited by forked workers and given back when the last process ends. Pages that are
    never written cost nothing.

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
        """The image, if it is there."""
        return self._images[index] if index < self.kept and self._there[index] else None

    def put(self, index: int, image: Tensor) -> None:
        """Keep an image."""
        if index < self.kept:
            self._images[index] = image
            self._there[index] = 1

    def __len__(self) -> int:
        return int(self._there.sum()) if self.kept else 0
