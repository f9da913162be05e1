"""The inputs of commands that query a model: photos or vectors without labels, read from files."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from magnet.commands.terminal import Question, check_inputs, progress, say_notes
from magnet.data.arrays import npz_names, read_npy, read_npz
from magnet.data.arrow import read_table
from magnet.data.columns import VECTORS as ARRAYS
from magnet.data.dataset import Unlabelled
from magnet.data.images import decode
from magnet.data.listings import walk_images
from magnet.data.tables import read_vectors
from magnet.errors import UserError
from magnet.export import Model, load
from magnet.files import opened, reading
from magnet.runs.run import Run

VECTORS = ".npy, .npz with X, .csv, .tsv or .parquet"


class Queries(NamedTuple):
    """Unlabelled examples, and their names."""

    content: np.ndarray | list[Path]
    names: list[str]


def ask(
    options: Question,
    answer: Callable[[Model, Queries], list[dict[str, Any]]],
    show: Callable[[dict[str, Any], Console], None],
) -> None:
    """Answer the question of a command for each of its inputs, and print the answers, as JSON or by ``show``."""
    with progress("embedding") as report:
        model = load(options.run, report=report)
        say_notes(model.notes)
        model = model.shortened(options.dims) if options.dims else model
        queries = read_queries(model.description.kind, model.description.network.shape, options.inputs)
        answers = answer(model, queries)
    if options.json:
        print(json.dumps(answers, indent=1))
        return
    console = Console(highlight=False)
    for number, one in enumerate(answers):
        if number:
            console.print()
        show(one, console)


def read_queries(kind: str, shape: Sequence[int], paths: Sequence[Path]) -> Queries:
    """Photos for a model of images, or rows of vector files for a model of vectors of ``shape`` (d,).

    All files are checked before any is used.
    """
    if not paths:
        raise UserError(f"nothing to look at: give {'photos' if kind == 'images' else VECTORS}")
    check_inputs(paths)
    if kind == "vectors":
        return _vectors(shape[0], paths)
    files = [file for path in paths for file in (_photos(path) if path.is_dir() else [path])]
    for file in files:
        decode(file, 8)  # an unreadable file is reported before the others are embedded
    return Queries(files, [str(file) for file in files])


def embed_queries(run: Run, queries: Queries, *, test: bool) -> Tensor:
    """Representations (n, d) by the network of a run; with ``test`` the mean of the test views of images."""
    data = Unlabelled(*queries, image_size=run.config.image_size, rescale=run.config.rescale)
    return run.embed(torch.arange(len(queries.names)), data, test=test)


def _photos(folder: Path) -> list[Path]:
    found = sorted(image for _, image in walk_images([folder], links=True))
    if not found:
        raise UserError(f"{folder} holds no images, and no folder in it does")
    return found


def _vectors(width: int, paths: Sequence[Path]) -> Queries:
    tables: list[np.ndarray] = []
    names: list[str] = []
    for path in paths:
        rows, named = _read(path)
        if rows.ndim != 2 or rows.dtype.kind not in "biuf" or rows.shape[1] != width:
            raise UserError(
                f"{path} holds {rows.dtype} of shape {rows.shape}, but the run takes rows of {width} numbers"
            )
        with np.errstate(over="ignore"):
            tables.append(rows.astype(np.float32))
        if not np.isfinite(tables[-1]).all():
            raise UserError(f"{path} holds NaN, infinity or numbers beyond the range of float32")
        names += named or [f"{path}:{i}" for i in range(len(rows))]
    if not names:
        raise UserError(f"{', '.join(map(str, paths))}: no rows")
    return Queries(np.concatenate(tables), names)


def _read(path: Path) -> tuple[np.ndarray, list[str]]:
    """The rows of a file (n, d), and their names if it has some."""
    kind = path.suffix.lower()
    with reading(path, "vectors"):
        if kind == ".npz":
            held = npz_names(path)
            vectors = next((key for key in ARRAYS if key in held), "X")
            found = read_npz(path, (vectors, "name"), required=(vectors,))
            names = [str(name) for name in found.get("name", [])]
            return found[vectors], names if len(names) == len(found[vectors]) else []
        if kind == ".npy":
            return np.atleast_2d(read_npy(path)), []
        if kind in (".csv", ".tsv"):
            return _read_csv(path)
        if kind == ".parquet":
            return read_table(path)
    raise UserError(f"{path}: the run was trained on vectors; expected {VECTORS}")


def _read_csv(path: Path) -> tuple[np.ndarray, list[str]]:
    """A CSV of numbers alone, or a table with column names, whose column of labels is ignored."""
    with opened(path) as file:
        first = file.readline(2**24).decode("utf-8-sig")
    delimiter = max(",;\t", key=first.count)
    try:
        [float(word) for word in first.split(delimiter)]
    except ValueError:
        return read_vectors(path)
    return np.loadtxt(path, delimiter=delimiter, ndmin=2, encoding="utf-8-sig", dtype=np.float32), []
