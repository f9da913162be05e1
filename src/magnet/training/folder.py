"""What a run folder holds: checkpoints, the journal, and a record of the data.

A checkpoint is a folder of safetensors, each with its digest, and a manifest that names the digests, written last.
It is written whole or not at all, verified when it is opened, and skipped if it is damaged. Loading one never executes
code. The last two and the best are kept.

The journal, metrics.jsonl, has one line for each logged event (training step, refresh, validation, times). The same
records go to a logger if one is configured.

The record of the data is written when a run begins: the part of each example, a digest of the data, and how classes
were merged. So examples stay in their parts when the data grows, and any other change of the data is noticed.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from magnet.data import Dataset
from magnet.data.dataset import Digest
from magnet.data.groups import merge_by
from magnet.errors import Count, Seconds, Share, UserError, checked, first_few, one_line
from magnet.files import (
    Stored,
    check_layout,
    discard,
    inside,
    opened,
    read_record,
    read_tensors,
    replacing,
    replacing_folder,
    storing,
    write_record,
    write_tensors,
)
from magnet.index import ClusterIndex
from magnet.training.display import Logger, Watched

FORMAT: Literal["magnet-checkpoint/1"] = "magnet-checkpoint/1"
FOLDER = "checkpoint"  # in a run folder
MANIFEST = "manifest.json"
LEARNER, STATE, INDEX = "learner.safetensors", "state.safetensors", "index.safetensors"
JOURNAL = "metrics.jsonl"
MOST_LINE, MOST_NUMBER = 2**20, 1e30  # bytes of a line of the journal, and a number in it
FILE = "parts.safetensors"  # in a run folder
NO_PART = 3  # of an example that came later
KEPT = 2  # checkpoints: the latest ones, beside the best
NAME = re.compile(r"step-(\d{8,12})")
ATTEMPTS = 20  # to open a checkpoint while a running training deletes old ones
Values = dict[str, Any]
# What records of the journal must hold, by their kind.
NEEDED: dict[str, Values] = {"time": {"seconds": dict[str, Seconds]}, "validation": {"error": Share}}


class Progress(TypedDict, total=False):
    """The counters of a run."""

    refreshed_at: int  # -1: never
    since_best: Count  # validations
    seconds: dict[str, Seconds]
    finished: bool
    watch: Watched
    error: float
    lowest_error: float
    validated_at: Count
    best_log_loss: float
    best_step: Count


@dataclass(frozen=True)
class Prefix:
    """The length and the hash of the journal when a checkpoint was written."""

    bytes: Count = 0
    sha256: str = ""


@dataclass(frozen=True)
class Manifest:
    """All of a checkpoint that is not a tensor, and the digests of its tensors."""

    format: Literal["magnet-checkpoint/1"]
    step: Count
    files: dict[str, str]  # the digest of each
    settings: dict[str, Any]  # of the run
    progress: Progress
    values: dict[str, int | float | bool | str | None]  # of optimiser and sampler, where they are no tensors
    journal: Prefix = field(default_factory=Prefix)


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint: the requested parts have been read and verified."""

    path: Path
    manifest: Manifest
    last_step: int  # of the latest checkpoint of the run
    best_step: int | None  # by validation
    notes: list[str]  # a warning for each damaged checkpoint that was skipped
    stored: dict[str, Stored]

    @property
    def step(self) -> int:
        """After how many steps it was written."""
        return self.manifest.step

    @property
    def description(self) -> str:
        """Which step of its run it is: "best: step 22 of 66", or "last: step 66 of 66" if it is not the best."""
        which = "best" if self.step == self.best_step else "last"
        return f"{which}: step {self.step:,} of {self.last_step:,}"

    def load_learner(self, learner: nn.Module) -> None:
        """Put saved weights and buffers into a network and method of the same configuration."""
        tensors, own = self.stored[LEARNER].tensors, learner.state_dict()
        # The tables of a method may have grown since its start: it resizes its own, and checks them itself.
        layout = {name: tensors.get(name, own[name]) if name.startswith("method.") else own[name] for name in own}
        try:
            check_layout(tensors, layout, LEARNER)
            learner.load_state_dict(tensors)
        except (UserError, RuntimeError) as error:
            raise UserError(f"{self.path} does not fit the run's configuration: {error}") from error

    def load_network(self, network: nn.Module) -> None:
        """Put the saved weights of the network alone into one of the same kind."""
        tensors = self.stored[LEARNER].tensors
        own = {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
        check_layout(own, network.state_dict(), LEARNER)
        network.load_state_dict(own)

    def load_optimiser(self, optimiser: torch.optim.Optimizer) -> None:
        """Put saved momenta into an optimiser of the same parameters."""
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        state: dict[int, Values] = {}
        for name, value in self.part("optimiser").items():
            number, _, key = name.partition(".")
            known = number.isdecimal() and int(number) < len(parameters)
            if not known or (isinstance(value, Tensor) and value.ndim and value.shape != parameters[int(number)].shape):
                raise UserError(f"{self.path / STATE} does not fit the run's configuration: it has optimiser.{name}")
            state.setdefault(int(number), {})[key] = value
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})

    def index(self) -> ClusterIndex | None:
        """The index in use when the checkpoint was written, if the method had one."""
        return ClusterIndex.of(self.stored[INDEX], self.path / INDEX) if INDEX in self.stored else None

    def part(self, name: Literal["optimiser", "sampler"]) -> Values:
        """The saved state of the optimiser or of the batch sampler."""
        whole = {**self.manifest.values, **self.stored[STATE].tensors}
        return {k.removeprefix(f"{name}."): v for k, v in whole.items() if k.startswith(f"{name}.")}


def save_checkpoint(
    folder: Path,
    step: int,
    *,
    learner: nn.Module,
    optimiser: torch.optim.Optimizer,
    sampler: Values,
    index: ClusterIndex | None,
    progress: Progress,
    settings: Values,
    journal: Prefix,
) -> Path:
    """Write ``folder/step-N``, and delete checkpoints that are neither among the last two nor the best."""
    inside(folder.parent, folder.name)
    target = folder / f"step-{step:08d}"
    # Rates and the like come from the configuration; only what the optimiser accumulated needs saving.
    momenta = optimiser.state_dict()["state"]
    state = {f"optimiser.{n}.{key}": v for n, entry in momenta.items() for key, v in entry.items() if v is not None}
    state |= {f"sampler.{name}": value for name, value in sampler.items()}
    with replacing_folder(target) as draft:
        files = {
            LEARNER: write_tensors(draft / LEARNER, learner.state_dict()),
            STATE: write_tensors(draft / STATE, {k: v for k, v in state.items() if isinstance(v, Tensor)}),
        }
        if index is not None:
            files[INDEX] = index.save(draft / INDEX)
        values = {k: v for k, v in state.items() if not isinstance(v, Tensor)}
        write_record(draft / MANIFEST, asdict(Manifest(FORMAT, step, files, settings, progress, values, journal)))
    found, best = checkpoints(folder), progress.get("best_step")
    kept = [path.name for path in found[: found.index(target) + 1] if (path / MANIFEST).is_file()][-KEPT:]
    for path in found:  # checkpoints later than this one are damaged, and were skipped
        if path.name not in kept and (best is None or path.name != f"step-{best:08d}"):
            discard(path)
    return target


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, earliest first, unverified."""
    found = [path for path in folder.glob("step-*") if NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def read_manifest(checkpoint: Path) -> Manifest:
    """The manifest of a checkpoint."""
    try:
        found: Manifest = read_record(checkpoint / MANIFEST, Manifest)
    except FileNotFoundError as error:
        raise UserError(f"{checkpoint} has no {MANIFEST}") from error
    named = NAME.fullmatch(checkpoint.name)
    if named is None or int(named[1]) != found.step:
        raise UserError(f"{checkpoint / MANIFEST} is of step {found.step}")
    return found


def last_progress(folder: Path) -> Progress | None:
    """The counters of the last checkpoint that can be read; None if there is no checkpoint."""
    return open_checkpoint(folder, "last", ()).manifest.progress if checkpoints(folder) else None


def open_checkpoint(
    folder: Path, which: Literal["best", "last"] = "best", parts: Collection[str] = (LEARNER,)
) -> Checkpoint:
    """The "best" checkpoint (the last one if there was no validation) or the "last".

    If it is damaged, the notes say so, and the latest undamaged one is opened instead. Of ``parts``, the files to read,
    the index may be absent.
    """
    for _ in range(ATTEMPTS):
        found = checkpoints(folder)
        if not found:
            raise UserError(f"{folder.parent} has no checkpoint yet: the run stopped before its first one")
        try:
            return _open(found, which, parts)
        except _RemovedError:  # a running training has written newer checkpoints
            continue
    raise UserError(f"the checkpoints of {folder.parent} are replaced faster than they can be read: try again")


class _RemovedError(Exception):
    """A checkpoint was deleted while it was being opened."""


def _open(folders: list[Path], which: str, parts: Collection[str]) -> Checkpoint:
    damaged: list[str] = []
    manifests: dict[Path, Manifest] = {}  # latest first
    for path in reversed(folders):
        try:
            with _still_there(path):
                manifests[path] = read_manifest(path)
        except UserError as error:
            damaged.append(str(error))
    order = list(manifests)
    newest = manifests[order[0]] if order else None
    best = newest.progress.get("best_step") if newest else None
    if which == "best" and best is not None:
        order.sort(key=lambda path: manifests[path].step != best)
        if manifests[order[0]].step != best and not damaged:
            damaged.append(f"the best checkpoint, step {best:,}, is missing")
    for path in order:
        try:
            with _still_there(path):
                stored = _read_files(path, manifests[path], parts)
        except UserError as error:
            damaged.append(str(error))
            continue
        assert newest is not None
        notes = [f"{reason}; the checkpoint of step {manifests[path].step:,} is used instead" for reason in damaged]
        return Checkpoint(path, manifests[path], newest.step, best, notes, stored)
    raise UserError(f"no checkpoint of {folders[0].parent.parent} can be used: {'; '.join(damaged)}")


def _read_files(path: Path, manifest: Manifest, parts: Collection[str]) -> dict[str, Stored]:
    found = {}
    for name in parts:
        if name not in manifest.files:
            if name == INDEX:
                continue
            raise UserError(f"{path / MANIFEST} names no {name}")
        try:
            found[name] = read_tensors(path / name, None)
        except FileNotFoundError as error:
            raise UserError(f"{path / name} is missing") from error
        if found[name].digest != manifest.files[name]:
            raise UserError(f"{path / name} is not the file that {MANIFEST} names")
    return found


@contextmanager
def _still_there(path: Path) -> Iterator[None]:
    """Tell a checkpoint that a running training has deleted from a damaged one."""
    try:
        yield
    except (UserError, OSError) as error:
        if not path.is_dir():
            raise _RemovedError from error
        if isinstance(error, OSError):
            raise UserError(f"{path} cannot be read ({error.strerror or error})") from error
        raise


class Journal:
    """Appends records to ``metrics.jsonl``. A resumed run first drops what came after the step ``resume_at``.

    A logger gets every record too. If it fails it is dropped, ``say`` is called with the reason, and the training goes
    on.
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

    def write(self, kind: str, step: int, values: Values) -> None:
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
                self._say(f"note: the logger failed and gets no more records: {one_line(error)}")
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


def read_journal(folder: Path) -> list[Values]:
    """All records of a run, without lines that cannot be read, such as the last one after a crash."""
    path = folder / JOURNAL
    records: list[Values] = []
    if path.is_file():
        with opened(path) as file:
            for line in iter(lambda: file.readline(MOST_LINE), b""):
                with suppress(ValueError, RecursionError):  # a UserError is a ValueError
                    records.append(_record(json.loads(line)))
    return records


def _record(value: Any) -> Values:
    """A record of the journal, whose numbers can be drawn; raises a `UserError` for anything else."""
    known: Values = checked(value, dict[str, Any], JOURNAL)
    for name, kind in {"kind": str, "step": Count, **NEEDED.get(str(known.get("kind")), {})}.items():
        checked(known.get(name), kind, name)
    for name, number in known.items():
        if isinstance(number, int | float) and abs(number) > MOST_NUMBER:
            raise UserError(f"{name} is {number}, expected at most {MOST_NUMBER}")
    return known


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
        return f"{len(self.label_of)} classes became {len(self.classes)} ({first_few(self.classes)})"


@dataclass(frozen=True)
class StartRecord:
    """The record of the data that a run wrote when it began, without the parts of the examples."""

    digest: Digest | None  # None: unknown, because an earlier version wrote the run
    merging: Merging | None  # None: no classes were merged


def keep_parts(folder: Path, data: Dataset) -> None:
    """Write the part of every example, by its name and class, the digest of the data, and how classes were merged."""
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
