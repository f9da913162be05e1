"""open_data: from what the user wrote after --data to a Dataset."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from magnet.data.arrays import KEYS, list_arrays
from magnet.data.benchmarks import READERS
from magnet.data.dataset import GIBIBYTE, Dataset
from magnet.data.digits import list_digits
from magnet.data.folders import list_csv, list_folder
from magnet.data.images import find_unreadable
from magnet.data.listing import Listing
from magnet.data.npz import read_npz
from magnet.errors import UserError

EXPECTED = "a folder of class folders, a .csv of path,label, an .npz with X and y, digits, or " + ", ".join(
    f"{name}:FOLDER" for name in READERS
)


def open_data(
    spec: str,
    *,
    seed: int = 0,
    validation: float = 0.0,
    on_bad_image: Literal["error", "skip"] = "error",
    cache_bytes: int = GIBIBYTE,
    hash_images: bool = False,
) -> Dataset:
    """Open labelled data.

    Args:
        spec: a folder of class folders; a CSV of ``path,label[,split]``; an ``.npz`` with ``X``, ``y`` and perhaps
            ``test`` or ``split``, ``name``, ``classes``, ``attributes``, ``class_attributes``, ``attribute_names``,
            ``feature_names``; ``digits``; or ``name:folder`` for a benchmark set in its official layout.
        seed: draws the parts that the source does not give: 30 % of every class for test, and
        validation: this fraction of the training part for validation.
        on_bad_image: "error" names an unreadable image when it is met; "skip" decodes all images once now and
            leaves the unreadable out, listed in ``Dataset.skipped``.
        cache_bytes: how much memory decoded images may take in each process.
        hash_images: image files are known by a hash of their bytes, which reads them all once, instead of by their
            sizes and modification times; see ``Dataset.digest``.
    """
    if on_bad_image not in ("error", "skip"):
        raise UserError(f"on_bad_image is {on_bad_image!r}, expected 'error' or 'skip'.")
    listing = _read(spec)
    if on_bad_image == "skip" and not isinstance(listing.content, np.ndarray):
        bad = find_unreadable(listing.content)
        listing.skipped = [(str(listing.content[i]), reason) for i, reason in bad.items()]
        listing = listing.keep(np.setdiff1d(np.arange(len(listing.names)), list(bad)))
    return Dataset(
        listing, spec=spec, seed=seed, validation=validation, cache_bytes=cache_bytes, hash_images=hash_images
    )


def _read(spec: str) -> Listing:
    if spec == "digits":
        return list_digits()
    name, colon, folder = spec.partition(":")
    if colon and name in READERS:
        if not folder:
            raise UserError(f"{spec} names no folder; write {name}:FOLDER.")
        return READERS[name](Path(folder).expanduser())
    path = Path(spec).expanduser()
    if path.is_dir():
        return list_folder(path)
    if not path.exists() and colon and re.fullmatch(r"[A-Za-z][\w-]+", name):
        raise UserError(f"{spec}: no benchmark set is called {name!r}; there are {', '.join(READERS)}.")
    readers: dict[str, Callable[[Path], Listing]] = {".csv": list_csv, ".npz": _list_npz}
    if path.suffix.lower() not in readers:
        found = "is a file of another kind" if path.exists() else "does not exist"
        raise UserError(f"{spec} {found}; expected {EXPECTED}.")
    if not path.is_file():
        raise UserError(f"{spec} does not exist.")
    return readers[path.suffix.lower()](path)


def _list_npz(path: Path) -> Listing:
    return list_arrays(read_npz(path, KEYS, required=("X", "y")), path.stem)
