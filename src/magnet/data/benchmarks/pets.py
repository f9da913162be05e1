"""Oxford-IIIT Pet (Parkhi et al., 2012)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from magnet.data.benchmarks.layout import read_lines, require_images, require_pieces
from magnet.data.listings import Listing
from magnet.errors import UserError


def list_pets(folder: Path) -> Listing:
    """annotations/trainval.txt and test.txt: lines of image, class id from 1, species, breed id."""
    require_pieces("pets", folder)
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
    require_images("pets", folder, files)
    return Listing(
        name="pets",
        content=files,
        labels=np.array([label for _, label, _ in rows], dtype=np.int64),
        classes=[named[label] for label in range(len(named))],
        names=[f"images/{file.name}" for file in files],
        split=np.array([part for _, _, part in rows], dtype=np.int8),
    )
