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
READERS: dict[str, Callable[[Path], Listing]] = {
    "pets": pets.list_pets,
    "flowers": flowers.list_flowers,
    "dogs": dogs.list_dogs,
    "cub": cub.list_cub,
    "fashion-mnist": fashion_mnist.list_fashion_mnist,
    "imagenet-attributes": imagenet_attributes.list_imagenet_attributes,
    "cifar100": cifar100.list_cifar100,
}
SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        DIGITS,
        *(module.SOURCE for module in (pets, flowers, dogs, cub, fashion_mnist, imagenet_attributes, cifar100)),
    )
}


def describe() -> list[dict[str, str | int]]:
    """One row a named set, for a table: name, title, classes, images, layout, licence, url.

    >>> [(row["name"], row["classes"]) for row in describe()][:2]
    [('digits', 10), ('pets', 37)]
    """
    keys = ("name", "title", "classes", "images", "layout", "licence", "url")
    return [{key: getattr(source, key) for key in keys} for source in SOURCES.values()]
