"""Readers of the benchmark sets, each in the layout in which its makers publish it."""

from collections.abc import Callable
from pathlib import Path

from magnet.data.benchmarks.cub import list_cub
from magnet.data.benchmarks.dogs import list_dogs
from magnet.data.benchmarks.fashion_mnist import list_fashion_mnist
from magnet.data.benchmarks.flowers import list_flowers
from magnet.data.benchmarks.imagenet_attributes import list_imagenet_attributes
from magnet.data.benchmarks.pets import list_pets
from magnet.data.listings import Listing

READERS: dict[str, Callable[[Path], Listing]] = {
    "pets": list_pets,
    "flowers": list_flowers,
    "dogs": list_dogs,
    "cub": list_cub,
    "fashion-mnist": list_fashion_mnist,
    "imagenet-attributes": list_imagenet_attributes,
}
