"""What --data names: from a word or a path to a listing. Nothing here imports torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from magnet.data.arrays import KEYS, list_arrays, read_npz
from magnet.data.benchmarks import READERS, SOURCES
from magnet.data.benchmarks.digits import list_digits
from magnet.data.benchmarks.source import incomplete, require_pieces
from magnet.data.listings import Listing, list_csv, list_folder
from magnet.errors import UserError, did_you_mean

EXPECTED = "a folder of class folders, a .csv of path,label, an .npz with X and y, digits, or " + ", ".join(
    f"{name}:FOLDER" for name in READERS
)


def find_source(spec: str) -> Callable[[], Listing]:
    """What reads the data that ``spec`` names. What is not there is said at once, before anything is read."""
    if spec == "digits":
        return list_digits
    name, colon, folder = spec.partition(":")
    if colon and name in READERS:
        if not folder:
            raise UserError(f"{spec} names no folder; write {name}:FOLDER.")
        place = Path(folder).expanduser()
        if not place.is_dir():
            require_pieces(SOURCES[name], place)
            raise incomplete(SOURCES[name], place, ["the folder itself"])
        return partial(READERS[name], place)
    path = Path(spec).expanduser()
    if path.is_dir():
        return partial(list_folder, path)
    if not path.exists() and colon and re.fullmatch(r"[A-Za-z][\w-]+", name):
        hint = did_you_mean(name, READERS)
        raise UserError(f"{spec}: no benchmark set is called {name!r}{hint} There are: {', '.join(READERS)}.")
    readers: dict[str, Callable[[Path], Listing]] = {".csv": list_csv, ".npz": _list_npz}
    if path.suffix.lower() not in readers:
        found = "is a file of another kind" if path.exists() else "does not exist"
        raise UserError(f"{spec} {found}; expected {EXPECTED}.")
    if not path.is_file():
        raise UserError(f"{spec} does not exist.")
    return partial(readers[path.suffix.lower()], path)


def _list_npz(path: Path) -> Listing:
    return list_arrays(read_npz(path, KEYS, required=("X", "y")), path.stem)
