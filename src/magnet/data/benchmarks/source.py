"""What the readers of benchmark sets share: where a set comes from, whether all of it is there, and its tables.

What is missing is reported file by file, with where to get it.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from magnet.errors import UserError


@dataclass(frozen=True)
class Archive:
    """An official file: where it is, its SHA-256, and the pieces of the layout it holds.

    Those who publish the sets state MD5 sums or none; these sums are those that TensorFlow Datasets has on record.
    """

    urls: tuple[str, ...]
    sha256: str
    holds: tuple[str, ...]

    @property
    def file(self) -> str:
        """The file's own name."""
        return self.urls[0].rsplit("/", 1)[-1].split("?")[0]

    @classmethod
    def at(cls, places: Sequence[str], file: str, sha256: str, *holds: str) -> Self:
        """The same file at several places; it is itself the piece of the layout unless ``holds`` names others."""
        return cls(tuple(f"{place}/{file}" for place in places), sha256, holds or (file,))


@dataclass(frozen=True)
class Source:
    """A named set, for people and for `fetch`. ``url`` is its home page."""

    name: str
    title: str
    classes: int
    images: int
    layout: str
    licence: str
    url: str
    archives: tuple[Archive, ...] = ()
    ask: str = ""  # how to get it where it cannot be fetched


def require_pieces(source: Source, folder: Path) -> None:
    """All pieces of the official layout of a set must be in ``folder``."""
    missing = [
        f"{piece}  (in {archive.file}, {archive.urls[0]})"
        for archive in source.archives
        for piece in archive.holds
        if not (folder / piece).exists()
    ]
    if missing:
        raise incomplete(source, folder, missing)


def require_images(source: Source, folder: Path, files: Iterable[Path]) -> None:
    """All listed images must be there. Folders are listed once, which is faster than asking for each file."""
    seen: dict[str, set[str]] = {}
    missing = []
    count = 0
    for file in files:
        parent = os.path.dirname(file)
        if parent not in seen:
            seen[parent] = set(os.listdir(parent)) if os.path.isdir(parent) else set()
        count += 1
        if file.name not in seen[parent]:
            missing.append(str(file.relative_to(folder)))
    if missing:
        more = [f"and {len(missing) - 3} more of {count} images"] if len(missing) > 3 else []
        raise incomplete(source, folder, missing[:3] + more)


def read_lines(name: str, file: Path, fields: int) -> list[list[str]]:
    """The lines of a text table split at blanks, comments and empty lines left out."""
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            rows.append(line.split(maxsplit=fields - 1))
            if len(rows[-1]) < fields:
                raise UserError(f"{name}: {file}, line {number} is {line!r}, expected {fields} fields.")
    return rows


def read_mat(file: Path, *keys: str) -> list[Any]:
    """Variables of a .mat file, cells and structs as plain lists, arrays and dictionaries."""
    from scipy.io import loadmat

    try:
        found = loadmat(file, simplify_cells=True)
    except Exception as error:  # scipy raises many kinds for a file that is no .mat file
        raise UserError(f"{file}: cannot be read as a MATLAB file ({error}).") from error
    absent = [key for key in keys if key not in found]
    if absent:
        there = sorted(key for key in found if not key.startswith("__"))
        raise UserError(f"{file}: holds {there}, expected {', '.join(keys)}.")
    return [found[key] for key in keys]


def incomplete(source: Source, folder: Path, missing: list[str]) -> UserError:
    """The error for a set of which pieces are missing."""
    how = source.ask or f"Get it with: magnet data fetch {source.name} --to {folder}   (or from {source.url})"
    return UserError(f"{source.name}:{folder} is incomplete; missing:\n  " + "\n  ".join(missing) + f"\n{how}")
