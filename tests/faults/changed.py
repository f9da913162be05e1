"""Data or labels that change under a run: every command gives the same result where nothing that matters changed, or
says what did.
"""

import contextlib
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from faults.outcomes import SAID, SAME, SILENT, TRACEBACK, Ended, Outcome, caught, printed
from training.short_runs import differences, run, stop_at, write_images, write_vectors

Arrays = dict[str, np.ndarray]
SAYS = "note: "  # of what is not as it was


class Change(NamedTuple):
    make: Callable[[Path], object]  # of the data at a path
    matters: bool = True


def _arrays(change: Callable[[Arrays], Mapping[str, Any]], *, matters: bool = True, save: Any = np.savez) -> Change:
    """Arrays of an .npz that become others."""

    def make(path: Path) -> None:
        with np.load(path) as file:
            old = dict(file)
        save(path, **{name: value for name, value in {**old, **change(old)}.items() if value is not None})

    return Change(make, matters)


def _replaced(values: np.ndarray, place: Any, value: Any) -> np.ndarray:
    new = values.copy()
    new[place] = value
    return new


def _rows(order: Callable[[int], Any]) -> Change:
    return _arrays(lambda a: {name: values[order(len(a["y"]))] for name, values in a.items()})


def _x(change: Callable[[np.ndarray], np.ndarray], *, matters: bool = True) -> Change:
    return _arrays(lambda a: {"X": change(a["X"])}, matters=matters)


def _y(change: Callable[[np.ndarray], np.ndarray], *, matters: bool = True) -> Change:
    return _arrays(lambda a: {"y": change(a["y"])}, matters=matters)


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


SPLIT = np.arange(90) // 3 % 3
VECTORS: dict[str, Change] = {
    "nothing": Change(lambda path: None, matters=False),
    "touched": Change(lambda path: os.utime(path, (1, 1)), matters=False),
    "compressed": _arrays(lambda a: {}, matters=False, save=np.savez_compressed),
    "float64": _x(lambda X: X.astype(np.float64), matters=False),
    "Fortran order": _x(np.asfortranarray, matters=False),
    "labels of another type": _y(lambda y: y.astype(np.uint8), matters=False),
    "labels as text": _y(lambda y: y.astype(str), matters=False),
    "float16": _x(lambda X: X.astype(np.float16)),
    "rows added": _rows(lambda n: [*range(n), 0, 1, 2]),
    "rows before": _rows(lambda n: [0, 1, 2, *range(n)]),
    "rows removed": _rows(lambda n: np.arange(n - 4)),
    "first row removed": _rows(lambda n: np.arange(1, n)),
    "rows permuted": _rows(lambda n: np.random.default_rng(1).permutation(n)),
    "two rows swapped": _rows(lambda n: [1, 0, *range(2, n)]),
    "one row twice": _rows(lambda n: [0, 0, *range(2, n)]),
    "a label changed": _y(lambda y: _replaced(y, 5, (y[5] + 1) % 3)),
    "labels permuted": _y(lambda y: np.random.default_rng(2).permutation(y)),
    "labels rotated": _y(lambda y: (y + 1) % 3),
    "labels renamed": _y(lambda y: np.array(["a", "b", "c"])[y]),
    "classes named": _arrays(lambda a: {"classes": np.array(["x", "y", "z"])}),
    "two classes merged": _y(lambda y: np.minimum(y, 1)),
    "one class alone": _y(lambda y: y * 0),
    "a class in two": _y(lambda y: np.where((y == 0) & (np.arange(len(y)) % 2 == 0), 3, y)),
    "a value changed": _x(lambda X: _replaced(X, (7, 2), 9)),
    "a value changed by a bit": _x(lambda X: _replaced(X, (7, 2), np.nextafter(X[7, 2], np.float32(9)))),
    "a column changed": _x(lambda X: _replaced(X, (slice(None), 1), 0)),
    "a column scaled": _x(lambda X: X * np.array([2, 1, 1, 1, 1, 1], np.float32)),
    "columns permuted": _x(lambda X: X[:, ::-1]),
    "a column removed": _x(lambda X: X[:, :5]),
    "a column added": _x(lambda X: np.c_[X, X[:, :1]]),
    "centred": _x(lambda X: X - X.mean(axis=0)),
    "other numbers": _x(lambda X: np.random.default_rng(3).normal(size=X.shape)),
    "NaN": _x(lambda X: _replaced(X, (7, 2), np.nan)),
    "images": _x(lambda X: np.zeros((len(X), 8, 8), np.uint8)),
    "a split given": _arrays(lambda a: {"split": SPLIT}),
    "a test part given": _arrays(lambda a: {"test": SPLIT == 2}),
    "names given": _arrays(lambda a: {"name": np.array([f"row {i}" for i in range(len(a["y"]))])}),
    "attributes given": _arrays(lambda a: {"attributes": SPLIT[:, None] % 2}),
    "labels gone": _arrays(lambda a: {"y": None}),
    "deleted": Change(Path.unlink),
    "emptied": Change(lambda path: path.write_bytes(b"")),
    "cut": Change(lambda path: path.write_bytes(path.read_bytes()[:-200])),
    "another kind": Change(lambda path: path.write_text("a,b,label\n1,2,x\n3,4,y\n")),
    "a folder": Change(_a_folder),
}  # fmt: skip
# Data with a split of its own, which then changes.
SPLITS: dict[str, Change] = {
    "another split": _arrays(lambda a: {"split": (SPLIT + 1) % 3}),
    "one row in another part": _arrays(lambda a: {"split": _replaced(a["split"], 0, 2)}),
    "the split gone": _arrays(lambda a: {"split": None}),
    "the test part gone": _arrays(lambda a: {"split": np.minimum(a["split"], 1)}),
}


def _image(name: str, level: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        Image.new("RGB", (12, 12), (level,) * 3).save(path / name)

    return make


def _move(old: str, new: str) -> Change:
    return Change(lambda path: (path / old).rename(path / new))


IMAGES: dict[str, Change] = {
    "nothing": Change(lambda path: None, matters=False),
    "an image replaced": Change(_image("rows/3.png", 99)),
    "an image added": Change(_image("rows/extra.png", 99)),
    "an image deleted": Change(lambda path: (path / "rows/3.png").unlink()),
    "an image renamed": _move("rows/3.png", "rows/third.png"),
    "an image in another class": _move("rows/3.png", "plain/3a.png"),
    "two images swapped": Change(lambda path: [
        (path / a).rename(path / b) for a, b in (("rows/3.png", "x"), ("rows/4.png", "rows/3.png"), ("x", "rows/4.png"))
    ]),
    "a class renamed": _move("rows", "lines"),
    "a class gone": Change(lambda path: shutil.rmtree(path / "rows")),
    "an image cut": Change(lambda path: (path / "rows/3.png").write_bytes((path / "rows/3.png").read_bytes()[:60])),
    "a text among them": Change(lambda path: (path / "rows/notes.txt").write_text("hello"), matters=False),
    "deleted": Change(shutil.rmtree),
}  # fmt: skip


def _text(change: Callable[[list[str]], list[str]], *, matters: bool = True) -> Change:
    """Lines of a table that become others."""
    return Change(lambda path: path.write_text("\n".join(change(path.read_text().splitlines())) + "\n"), matters)


TABLE: dict[str, Change] = {
    "nothing": Change(lambda path: None, matters=False),
    "semicolons": _text(lambda rows: [row.replace(",", ";") for row in rows], matters=False),
    "a column renamed": _text(lambda rows: ["z" + rows[0][1:], *rows[1:]], matters=False),
    "a label changed": _text(lambda rows: [*rows[:-1], rows[-1][:-1] + "a"]),
    "a class renamed": _text(lambda rows: [rows[0], *(row.replace(",c", ",d") for row in rows[1:])]),
    "a row removed": _text(lambda rows: rows[:-1]),
    "rows permuted": _text(lambda rows: [rows[0], *rows[:0:-1]]),
    "columns permuted": _text(lambda rows: [",".join([*row.split(",")[1::-1], row.split(",")[2]]) for row in rows]),
    "the column of labels renamed": _text(lambda rows: [rows[0].replace("label", "kind"), *rows[1:]]),
    "a number changed": _text(lambda rows: [*rows[:-1], "9" + rows[-1]]),
    "deleted": Change(Path.unlink),
    "emptied": Change(lambda path: path.write_bytes(b"")),
}


class Source(NamedTuple):
    """Data, changes of it, and what trains on it."""

    write: Callable[[Path], object]
    name: str
    changes: dict[str, Change]
    settings: Mapping[str, Any] = MappingProxyType({})


def _write_table(path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal():.3f},{rng.normal() + 3 * (i % 3):.3f},{'abc'[i % 3]}" for i in range(60)]
    path.write_text("p,q,label\n" + "\n".join(rows) + "\n")


def _write_listed(path: Path) -> None:
    """A table of paths to images, which lie beside it."""
    folder = Path(write_images(path.parent / "photos", per_class=16))
    rows = [f"{image.relative_to(path.parent)},{image.parent.name}" for image in sorted(folder.rglob("*.png"))]
    path.write_text("path,label\n" + "\n".join(rows) + "\n")


LISTED: dict[str, Change] = {
    "nothing": Change(lambda path: None, matters=False),
    "a label changed": _text(lambda rows: [*rows[:-1], rows[-1].rpartition(",")[0] + ",columns"]),
    "a row removed": _text(lambda rows: rows[:-1]),
    "a path twice": _text(lambda rows: [*rows[:-1], rows[-2]]),
    "an image replaced": Change(lambda path: _image("photos/rows/3.png", 99)(path.parent)),
    "an image deleted": Change(lambda path: (path.parent / "photos/rows/3.png").unlink()),
}
PHOTOS = {"image_size": 12, "workers": 0, "backbone": "convnet", "test_draws": 1, "hidden": 0}
SOURCES = {
    "vectors": Source(write_vectors, "x.npz", VECTORS),
    "vectors with a split": Source(lambda path: write_vectors(path, split=SPLIT), "x.npz", SPLITS),
    "a table": Source(_write_table, "t.csv", TABLE),
    "images": Source(lambda path: write_images(path, per_class=16), "photos", IMAGES, PHOTOS),
    "a table of images": Source(_write_listed, "t.csv", LISTED, PHOTOS),
}


def changed_data(
    folder: Path, share: float = 1.0, seed: int = 0, sources: Mapping[str, Source] = SOURCES
) -> Iterator[tuple[str, Outcome]]:
    """Every change of every source, or a share of them, under every command."""
    chance = random.Random(seed)
    for number, (what, source) in enumerate(sources.items()):
        place = folder / str(number)
        (place / "good").mkdir(parents=True)
        source.write(place / "good" / source.name)
        shutil.copytree(place / "good", place / "data")
        data = place / "data" / source.name
        options = {"epochs": 2, "preset": "paper/default", **source.settings}
        whole = run(place / "whole", str(data), **options)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            stop_at(patch, 3)
            run(place / "stopped", str(data), **options)
        rows = _queries(place, source)
        asked = _commands(whole, rows, place)
        expected = {name: printed(*words) for name, words in asked.items()}
        for change, (make, matters) in source.changes.items():
            for name in [*asked, "resume"]:
                if chance.random() >= share:
                    continue
                shutil.rmtree(place / "data")
                shutil.copytree(place / "good", place / "data")
                make(data)
                case = f"{what}, {change}, {name}"
                if name == "resume":
                    yield case, _resumed(whole, place / "stopped", place / "copy", matters)
                    continue
                copy = Path(shutil.copytree(whole, place / "copy"))
                words = [copy if word == whole else word for word in asked[name]]
                same = expected[name].replace(str(whole), str(copy))
                yield case, _judge(caught(*words), same, matters, change == "deleted")
                shutil.rmtree(copy)


def _queries(place: Path, source: Source) -> Path:
    if source.settings:
        Image.new("RGB", (12, 12), (50, 90, 130)).save(place / "query.png")
        return place / "query.png"
    np.save(place / "rows.npy", np.random.default_rng(5).normal(size=(3, 2 if source.name == "t.csv" else 6)))
    return place / "rows.npy"


def _commands(run: Path, rows: Path, scratch: Path) -> dict[str, list[object]]:
    return {
        "evaluate": ["evaluate", run, "--json"],
        "classify": ["classify", run, rows, "--json"],
        "search": ["search", run, rows, "--json"],
        "verify": ["verify", run, rows, rows, "--false-accepts", "0.3"],
        "suspects": ["suspects", run],
        "embed": ["embed", run, rows, "--out", scratch / "e.npz", "--force"],
        "report": ["report", run, "--out", scratch / "r.html"],
        "explore": ["explore", run, "--no-open", "--out", scratch / "x.html"],
        "export": ["export", run, "--to", scratch / "bundle", "--force"],
    }


def _judge(found: Ended, expected: str, matters: bool, gone: bool) -> Outcome:
    """Said where it matters, and as before where it does not, or where it is gone and its answers were kept."""
    code, out, err = found
    if code is None or "Traceback" in err:
        return Outcome(TRACEBACK, err)
    if code:
        return Outcome(SAID if matters and err else SILENT, err)
    if SAYS in err:
        return Outcome(SAID, err)
    return Outcome(SAME if out == expected and (gone or not matters) else SILENT, (err or out)[:300])


def _resumed(whole: Path, stopped: Path, copy: Path, matters: bool) -> Outcome:
    shutil.copytree(stopped, copy)
    code, out, err = caught("train", "--resume", copy)
    try:
        if code is None or "Traceback" in err:
            return Outcome(TRACEBACK, err)
        if code:
            return Outcome(SAID if matters and err else SILENT, err)
        if matters:
            return Outcome(SAID if SAYS in out + err else SILENT, (out + err)[-300:])
        return Outcome(SAME if not differences(whole, copy) else SILENT, str(differences(whole, copy))[:300])
    finally:
        shutil.rmtree(copy)
