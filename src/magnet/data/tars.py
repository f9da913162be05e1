"""WebDataset: images and their labels in tar files, which are indexed once and never unpacked."""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from magnet.data.columns import find_label
from magnet.data.listings import EXTENSIONS, PARTS, EncodedImage, Listing, number_labels
from magnet.errors import UserError

MOST = 2**20  # bytes of a label


@dataclass(frozen=True)
class Packed(EncodedImage):
    """An image inside a larger file: ``size`` bytes from ``offset`` on."""

    file: Path
    offset: int
    size: int
    name: str

    def read(self) -> bytes:
        """The bytes of the image file."""
        with self.file.open("rb") as stream:
            stream.seek(self.offset)
            return stream.read(self.size)

    def mark(self) -> str:
        """Where the bytes are, and when the file around them was written."""
        return f"{self.file.stat().st_mtime_ns} {self.offset} {self.size}"

    def __str__(self) -> str:
        return f"{self.file}, {self.name}"


def list_tars(path: Path, label: str = "", judge: str = "") -> Listing:
    """A tar file, or a folder of them: members KEY.jpg (or another image) with KEY.cls, KEY.json or KEY.txt.

    The label is the text of KEY.cls; without one, the value in KEY.json that ``label`` names (by default one with a
    usual name of labels); without that, the text of KEY.txt. Files whose names begin with train, val or test are these
    parts.
    """
    files = find_tars(path)
    parts = [PARTS.get(file.stem.replace("_", "-").split("-")[0].lower()) for file in files]
    if None in parts and any(part is not None for part in parts):
        odd = files[parts.index(None)].name
        raise UserError(f"{path}: {odd} is of no part, but others are: begin all names with train, val or test.")
    images: list[EncodedImage] = []
    names, split = [], []
    words: dict[str, list[str]] = {"label": [], "judge": []}
    for file, part in zip(files, parts, strict=True):
        for key, members in _samples(file):
            image = next((member for kind, member in members.items() if f".{kind}" in EXTENSIONS), None)
            if image is None:
                continue
            images.append(image)
            names.append(f"{file.name}/{image.name}" if path.is_dir() else image.name)
            split.append(part or 0)
            words["label"].append(_label(members, label, f"{file}, {key}", "--label"))
            if judge:
                words["judge"].append(_label(members, judge, f"{file}, {key}", "--judge"))
    if not images:
        raise UserError(f"{path}: found no images in {len(files)} tar files; expected KEY.jpg and KEY.cls in them.")
    labels = number_labels(words["label"])
    return Listing(
        name=path.resolve().stem,
        content=images,
        labels=labels.labels,
        classes=labels.classes,
        names=names,
        split=np.array(split, np.int8) if None not in parts else None,
        judge=number_labels(words["judge"]) if judge else None,
    )


def find_tars(path: Path) -> list[Path]:
    """The tar files that a path names: itself, or those in the folder."""
    return sorted(path.glob("*.tar")) if path.is_dir() else [path]


def tar_columns(path: Path) -> list[str]:
    """What can be named as labels: the kinds of files that the first example has, and the names in its .json."""
    key, members = next(_samples(find_tars(path)[0]), ("", {}))
    about = _json(members["json"], f"{path}, {key}") if "json" in members else {}
    return [*members, *about]


def _samples(file: Path) -> Iterator[tuple[str, dict[str, Packed]]]:
    """The members of a tar file that belong together, by extension: their names are equal up to the first dot."""
    samples: dict[str, dict[str, Packed]] = {}
    try:
        with tarfile.open(file, "r:") as archive:
            for member in archive:
                folder, _, name = member.name.rpartition("/")
                key, dot, kind = name.partition(".")
                if member.isreg() and key and dot:
                    place = Packed(file, member.offset_data, member.size, member.name)
                    samples.setdefault(f"{folder}/{key}".lstrip("/"), {})[kind.lower()] = place
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{file}: cannot be read as an uncompressed tar file ({error}).") from error
    yield from samples.items()


def _label(members: dict[str, Packed], name: str, where: str, option: str) -> str:
    """The label of an example, in words."""
    kind = name or "cls"
    if kind in members:
        return _text(members[kind], where)
    if "json" in members:
        about = _json(members["json"], where)
        value = about[find_label(about, f"{where}.json", name, option=option)]
        if not isinstance(value, str | int):
            raise UserError(f"{where}: the label is {type(value).__name__}, expected a class id or a class name.")
        return str(value)
    if name or "txt" not in members:
        expected = f"a .{name}, or a .json with {name!r}" if name else "a .cls, .json or .txt"
        found = ", ".join(f".{kind}" for kind in members)
        raise UserError(f"{where}: found {found}, but no label: expected {expected} ({option} NAME).")
    return _text(members["txt"], where)


def _text(member: Packed, where: str) -> str:
    try:
        word = _bounded(member, where).decode("utf-8").strip()
    except UnicodeDecodeError:
        raise UserError(f"{where}: the label {member.name} is not text.") from None
    if not word:
        raise UserError(f"{where}: the label {member.name} is empty.")
    return word


def _json(member: Packed, where: str) -> dict[str, Any]:
    try:
        about = json.loads(_bounded(member, where))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: {member.name} cannot be read as JSON ({error}).") from error
    if not isinstance(about, dict):
        raise UserError(f"{where}: {member.name} holds {type(about).__name__}, expected names and values.")
    return about


def _bounded(member: Packed, where: str) -> bytes:
    if member.size > MOST:
        raise UserError(f"{where}: {member.name} has {member.size:,} bytes, too many for a label.")
    return member.read()
