"""What commands are given to work on: a run, and photos or vectors to ask it about."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from magnet.data.images import decode, is_image
from magnet.data.npz import read_npz
from magnet.data.queries import Queries
from magnet.errors import UserError
from magnet.training.run import Run

VECTORS = ".npy, .npz with X, or .csv"


def open_run(folder: Path, **options: Any) -> Run:
    """A run by its folder."""
    if not folder.is_dir():
        raise UserError(f"there is no run at {folder}: no such folder")
    return Run(folder, **options)


def read_queries(run: Run, paths: Sequence[Path]) -> Queries:
    """Photos for a run on images, rows of vector files for a run on vectors; all are checked before any is used."""
    if not paths:
        raise UserError(f"nothing to look at: give {'photos' if run.bench.data.kind == 'images' else VECTORS}")
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist")
    if run.bench.data.kind == "vectors":
        return _vectors(run, paths)
    files = [file for path in paths for file in (_photos(path) if path.is_dir() else [path])]
    for file in files:
        decode(file, 8)  # an unreadable one is said before the others have taken their time
    return Queries(files, [str(file) for file in files], image_size=run.config.image_size)


def represent(run: Run, queries: Queries) -> Tensor:
    """Representations (n, d) of queries, by the run's test-time views."""
    rows = queries.indices("all")
    if queries.kind == "vectors":
        return run.embed(rows, queries, test=True)
    # One by one: the views drawn for a photo are then the same whatever photos are beside it.
    return torch.cat([run.embed(row, queries, test=True) for row in rows.split(1)])


def _photos(folder: Path) -> list[Path]:
    found = sorted(file for file in folder.iterdir() if is_image(file.name))
    if not found:
        raise UserError(f"{folder} holds no images")
    return found


def _vectors(run: Run, paths: Sequence[Path]) -> Queries:
    width = run.bench.data.shape[0]
    tables: list[np.ndarray] = []
    names: list[str] = []
    for path in paths:
        rows, named = _read(path)
        if rows.ndim != 2 or rows.dtype.kind not in "biuf" or rows.shape[1] != width:
            raise UserError(
                f"{path} holds {rows.dtype} of shape {rows.shape}, but the run takes rows of {width} numbers"
            )
        if not np.isfinite(rows).all():
            raise UserError(f"{path} holds NaN or infinity")
        tables.append(rows.astype(np.float32))
        names += named or [f"{path}:{i}" for i in range(len(rows))]
    if not names:
        raise UserError(f"{', '.join(map(str, paths))}: no rows")
    return Queries(np.concatenate(tables), names)


def _read(path: Path) -> tuple[np.ndarray, list[str]]:
    """The rows of a file (n, d), and their names where it has some."""
    kind = path.suffix.lower()
    try:
        if kind == ".npz":
            found = read_npz(path, ("X", "name"), required=("X",))
            names = [str(name) for name in found.get("name", [])]
            return found["X"], names if len(names) == len(found["X"]) else []
        if kind == ".npy":
            return np.atleast_2d(np.load(path, allow_pickle=False)), []
        if kind == ".csv":
            return _read_csv(path), []
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} cannot be read as vectors ({' '.join(str(error).split())})") from error
    raise UserError(f"{path}: the run was trained on vectors; expected {VECTORS}")


def _read_csv(path: Path) -> np.ndarray:
    with path.open(encoding="utf-8-sig") as lines:
        first = lines.readline()
    try:
        [float(word) for word in first.split(",")]
        header = 0
    except ValueError:
        header = 1
    return np.loadtxt(path, delimiter=",", skiprows=header, ndmin=2, encoding="utf-8-sig", dtype=np.float32)
