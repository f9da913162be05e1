"""Is everything there? What is not is reported file by file, with where to get it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from magnet.data.sources import SOURCES
from magnet.errors import UserError


def require_pieces(name: str, folder: Path) -> None:
    """All pieces of the official layout of the set ``name`` must be in ``folder``."""
    missing = [
        f"{piece}  (in {archive.file}, {archive.urls[0]})"
        for archive in SOURCES[name].archives
        for piece in archive.holds
        if not (folder / piece).exists()
    ]
    if missing:
        raise incomplete(name, folder, missing)


def require_images(name: str, folder: Path, files: Iterable[Path]) -> None:
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
        raise incomplete(name, folder, missing[:3] + more)


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


def incomplete(name: str, folder: Path, missing: list[str]) -> UserError:
    """The error for a set of which pieces are missing."""
    source = SOURCES[name]
    how = source.ask or f"Get it with: magnet data fetch {name} --to {folder}   (or from {source.url})"
    return UserError(f"{name}:{folder} is incomplete; missing:\n  " + "\n  ".join(missing) + f"\n{how}")
