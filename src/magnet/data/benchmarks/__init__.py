"""The benchmark sets: a file each, with its reader, in the layout in which its makers publish it, and its source."""

from collections.abc import Callable
from pathlib import Path

from magnet.data.benchmarks import cifar100, cub, dogs, fashion_mnist, flowers, imagenet_attributes, pets
from magnet.data.benchmarks.source import Source
from magnet.data.listings import Listing

DIGITS = Source(
    name="digits",
    title="Handwritten digits, 64-dimensional vectors",
    classes=10,
    images=1_797,
    layout="written without a folder",
    licence="CC BY 4.0",
    url="https://scikit-learn.org/stable/datasets/toy_dataset.html",
    ask="it comes with scikit-learn; use it as --data digits.",
)
SETS: list[tuple[Source, Callable[[Path], Listing]]] = [
    (pets.SOURCE, pets.list_pets),
    (flowers.SOURCE, flowers.list_flowers),
    (dogs.SOURCE, dogs.list_dogs),
    (cub.SOURCE, cub.list_cub),
    (fashion_mnist.SOURCE, fashion_mnist.list_fashion_mnist),
    (imagenet_attributes.SOURCE, imagenet_attributes.list_imagenet_attributes),
    (cifar100.SOURCE, cifar100.list_cifar100),
]
READERS = {source.name: reader for source, reader in SETS}
SOURCES = {source.name: source for source in (DIGITS, *(source for source, _ in SETS))}
