"""What a run folder holds beside its checkpoints: the journal, and a record of the data.

The journal, metrics.jsonl, has one line for each logged event (training step, refresh, validation, times). The same
records go to a logger if one is configured.

The record of the data is written when a run begins: the part of each example, a digest of the data, and how classes
were merged. So examples stay in their parts when the data grows, and any other change of the data is noticed.
"""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from magnet.data import Dataset
from magnet.data.dataset import Digest
from magnet.data.groups import merge_by
from magnet.errors import UserError
from magnet.files import checked, opened, replacing, storing
from magnet.tensors import Stored, read_tensors, write_tensors
from magnet.training.checkpoint import FOLDER, Prefix, checkpoints
from magnet.training.display import Logger

FILE = "parts.safetensors"  # in a run folder
JOURNAL = "metrics.jsonl"
NO_PART = 3  # of an example that came later
Record = dict[str, Any]


class Journal:
    """Appends records to ``metrics.jsonl``. A resumed run first drops what came after its checkpoint.

    Args:
        folder: the run.
        resume_at: the step of the checkpoint that a resumed run starts from.
        logger: gets every record too; if it fails, it is dropped and the training goes on.
        say: is called with a line that says why the logger was dropped.
    """

    def __init__(
        self,
        folder: Path,
        *,
        resume_at: int | None = None,
        logger: Logger | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.path = folder / JOURNAL
        kept = [] if resume_at is None else [r for r in read_journal(folder) if r["step"] <= resume_at]
        kept = [record for record in kept if record["kind"] != "time"]  # written once, at the end, over all sessions
        content = "".join(json.dumps(record) + "\n" for record in kept).encode()
        with replacing(self.path) as draft:
            draft.write_bytes(content)
        self._bytes, self._hash = len(content), hashlib.sha256(content)
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.fdopen(os.open(self.path, flags), "wb", buffering=0)
        self._say = say
        self._logger = logger

    def write(self, kind: str, step: int, values: Record) -> None:
        """Append a record of a kind: train, refresh, validation or time."""
        line = (json.dumps({"kind": kind, "step": step, **values}) + "\n").encode()
        with storing(self.path):
            self._file.write(line)
        self._bytes += len(line)
        self._hash.update(line)
        if self._logger is not None:
            try:
                self._logger.show(kind, step, values)
            except Exception as error:  # no failure of an external service may end a training
                reason = " ".join(str(error).split()) or type(error).__name__
                self._say(f"note: the logger failed and gets no more records: {reason}")
                self._logger = None

    @property
    def prefix(self) -> Prefix:
        """The length and the hash of the journal so far, for the manifest of a checkpoint."""
        return Prefix(self._bytes, self._hash.hexdigest())

    def close(self) -> None:
        """Close the journal and the logger."""
        self._file.close()
        if self._logger is not None:
            with suppress(Exception):  # as above
                self._logger.close()


def read_journal(folder: Path) -> list[Record]:
    """All records of a run, without lines that cannot be read, such as the last one after a crash."""
    path = folder / JOURNAL
    records: list[Record] = []
    if path.is_file():
        with opened(path) as file:
            for line in file.read().splitlines():
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(record, dict) and type(record.get("step")) is int and isinstance(record.get("kind"), str):
                    records.append(record)
    return records


def journal_note(folder: Path, prefix: Prefix) -> str:
    """A warning if the journal no longer starts with what it held when a checkpoint was written; "" otherwise."""
    path = folder / JOURNAL
    if path.is_file():
        with opened(path) as file:
            if hashlib.sha256(file.read(prefix.bytes)).hexdigest() == prefix.sha256:
                return ""
    return f"{path} is damaged: what it says of losses and errors until now may be wrong, or have gaps"


@dataclass(frozen=True)
class Merging:
    """How the classes of a run's data were merged, so that it can be done again.

    The class ``name`` became ``classes[label_of[name]]``.
    """

    classes: list[str]
    label_of: dict[str, int]

    @classmethod
    def of(cls, dataset: Dataset) -> "Merging | None":
        """How the classes of a data set were merged; None if they were not, or if its source has both levels."""
        if dataset.fine_labels is None or dataset.fine_classes is None or dataset.judged:
            return None
        labels = torch.zeros(len(dataset.fine_classes), dtype=torch.int64)
        labels[dataset.fine_labels] = dataset.labels
        return cls(dataset.classes, dict(zip(dataset.fine_classes, labels.tolist(), strict=True)))

    def apply(self, dataset: Dataset) -> Dataset:
        """A copy of other data with its classes merged, matched by name; an unknown class is kept as it is.

        Data with none of the classes, and data that has coarse and fine labels itself, is returned unchanged.
        """
        if dataset.judged or not self.label_of.keys() & set(dataset.classes):
            return dataset
        new = [name for name in dataset.classes if name not in self.label_of]
        label_of = self.label_of | {name: len(self.classes) + i for i, name in enumerate(new)}
        return merge_by(dataset, np.array([label_of[name] for name in dataset.classes]), self.classes + new)

    def __str__(self) -> str:
        some = ", ".join(self.classes[:3]) + (", ..." if len(self.classes) > 3 else "")
        return f"{len(self.label_of)} classes became {len(self.classes)} ({some})"


@dataclass(frozen=True)
class StartRecord:
    """The record of the data that a run wrote when it began, without the parts of the examples."""

    digest: Digest | None  # None: unknown, because an earlier version wrote the run
    merging: Merging | None  # None: no classes were merged


def keep_parts(folder: Path, data: Dataset) -> None:
    """Record the part of every example, by its name and class, the digest of the data, and how classes were merged."""
    merging = Merging.of(data)
    about = {"data": json.dumps(data.digest.to_dict())}
    if merging is not None:
        about["merging"] = json.dumps(asdict(merging))
    write_tensors(folder / FILE, {"examples": _marks(data), "parts": torch.from_numpy(data.split.copy())}, about)


def read_start(folder: Path) -> StartRecord:
    """Read the record of the data of a run."""
    found = _read_parts(folder)
    if found is None:
        return StartRecord(None, None)
    try:
        digest, merging = (json.loads(found.about.get(name, "null")) for name in ("data", "merging"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{folder / FILE} cannot be read ({error}): the file is broken") from error
    return StartRecord(
        checked(digest, Digest | None, f"{folder / FILE}: data"),
        checked(merging, Merging | None, f"{folder / FILE}: merging"),
    )


def merge_again(folder: Path, data: Dataset) -> Dataset:
    """The data with its classes merged as in a run; unchanged if the run has no merged classes."""
    merging = read_start(folder).merging
    return data if merging is None else merging.apply(data)


def restore_parts(folder: Path, data: Dataset) -> Dataset:
    """Give every example the part that it had when the run began; examples added since are in no part."""
    found = _read_parts(folder)
    if found is None:
        return data
    known = found.tensors
    marks = _marks(data)
    if torch.equal(known["examples"], marks):  # also where two examples have the same name and class
        data.split = known["parts"].numpy().copy()
    else:
        part_of = dict(zip(known["examples"].tolist(), known["parts"].tolist(), strict=True))
        data.split = np.array([part_of.get(mark, NO_PART) for mark in marks.tolist()], np.int8)
    return data


def change_note(folder: Path, data: Dataset) -> str:
    """A warning that says how the data of a run has changed since it began; "" if it has not, or that is unknown."""
    before = read_start(folder).digest
    changes = "" if before is None else data.digest.changes(before)
    return f"{data.spec} has changed since {folder} began to train on it: {changes}" if changes else ""


def merging_note(folder: Path) -> str:
    """A note on the merged classes of a run; "" if it has none."""
    merging = read_start(folder).merging
    return f"{folder} was trained on merged classes: {merging}" if merging else ""


def check_parts(folder: Path, data: Dataset) -> None:
    """Raise unless the data has exactly the examples that the run began with: it cannot be resumed on others."""
    known = _read_parts(folder)
    if known is not None and not torch.equal(known.tensors["examples"], _marks(data)):
        before = len(known.tensors["examples"])
        raise UserError(
            f"the data of {folder} has changed since it began ({before} examples then, {len(data)} now, or others): "
            "put it back as it was, or train anew"
        )


def same_training_part(folder: Path, data: Dataset) -> bool:
    """Whether the training part has exactly the examples that it had when the run began, in the same order."""
    found = _read_parts(folder)
    if found is None:
        return True
    known = found.tensors
    return torch.equal(known["examples"][known["parts"] == 0], _marks(data)[data.indices("train")])


def _marks(data: Dataset) -> Tensor:
    """A hash of the name and class of each example (N,)."""
    digests = bytearray()  # grown row by row: lists of millions of strings would take a gigabyte
    rows = (label for part in data.labels.split(2**16) for label in part.tolist())
    for name, label in zip(data.names, rows, strict=True):
        mark = f"{name}\0{data.classes[label]}".encode(errors="surrogateescape")
        digests += hashlib.blake2b(mark, digest_size=8).digest()
    return torch.frombuffer(digests, dtype=torch.int64)


def _read_parts(folder: Path) -> Stored | None:
    """What `keep_parts` wrote; None for a run that has not begun, and for a folder that is not a run."""
    path = folder / FILE
    if not path.is_file() and not checkpoints(folder / FOLDER):
        return None
    try:
        return read_tensors(path, {"examples": "int N", "parts": "int N"})
    except UserError as error:
        raise _without_parts(folder, str(error)) from error
    except OSError as error:
        raise _without_parts(folder, f"{path} cannot be read ({error.strerror or error})") from error


def _without_parts(folder: Path, reason: str) -> UserError:
    return UserError(
        f"{reason}: it is not known which examples {folder} was trained on. Restore the file from a copy, or train anew"
    )
