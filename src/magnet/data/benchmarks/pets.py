"""Oxford-IIIT Pet (Parkhi et al., 2012)."""

from pathlib import Path

import numpy as np

from magnet.data.benchmarks.source import Archive, Source, read_lines, require_images, require_pieces
from magnet.data.listings import Listing
from magnet.errors import UserError

_PLACES = ("https://thor.robots.ox.ac.uk/~vgg/data/pets", "https://www.robots.ox.ac.uk/~vgg/data/pets/data")
SOURCE = Source(
    name="pets",
    title="Oxford-IIIT Pet",
    classes=37,
    images=7_349,
    layout="images/, annotations/trainval.txt, annotations/test.txt",
    licence="CC BY-SA 4.0; the photographs remain their owners'",
    url="https://www.robots.ox.ac.uk/~vgg/data/pets/",
    archives=(
        Archive.at(
            _PLACES, "images.tar.gz", "67195c5e1c01f1ab5f9b6a5d22b8c27a580d896ece458917e61d459337fa318d", "images"
        ),
        Archive.at(
            _PLACES,
            "annotations.tar.gz",
            "52425fb6de5c424942b7626b428656fcbd798db970a937df61750c0f1d358e91",
            "annotations/trainval.txt",
            "annotations/test.txt",
        ),
    ),
)


def list_pets(folder: Path) -> Listing:
    """annotations/trainval.txt and test.txt: lines of image, class id from 1, species, breed id."""
    require_pieces(SOURCE, folder)
    rows = [
        (image, int(label) - 1, part)
        for file, part in (("trainval", 0), ("test", 2))
        for image, label, *_ in read_lines("pets", folder / "annotations" / f"{file}.txt", 3)
    ]
    # The class is named only in the file names: Abyssinian_100 is image 100 of the class Abyssinian.
    named = {label: image.rpartition("_")[0] for image, label, _ in rows}
    if sorted(named) != list(range(len(named))):
        raise UserError(f"pets: the class ids in {folder / 'annotations'} are not 1..{len(named)}.")
    files = [folder / "images" / f"{image}.jpg" for image, _, _ in rows]
    require_images(SOURCE, folder, files)
    return Listing(
        name="pets",
        content=files,
        labels=np.array([label for _, label, _ in rows], dtype=np.int64),
        classes=[named[label] for label in range(len(named))],
        names=[f"images/{file.name}" for file in files],
        split=np.array([part for _, _, part in rows], dtype=np.int8),
    )
