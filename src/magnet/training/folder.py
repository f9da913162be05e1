"""What a run folder holds: checkpoints, the journal, and the data as the run began.

A checkpoint is a folder of safetensors and JSON, written whole or not at all. Loading one never executes code. The
journal, metrics.jsonl, has one line for each thing that happened; the same goes to TensorBoard if wanted.

Of the data it is written down which example was in which part, what the data held, and which classes were merged. Data
that grows later must not move examples between the parts; data that changes otherwise must be noticed.
"""

import hashlib
import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from magnet.data import Dataset
from magnet.data.dataset import Digest
from magnet.data.groups import Merging
from magnet.errors import UserError
from magnet.files import read_json, replacing, replacing_folder
from magnet.index import ClusterIndex

KEPT = 2  # the latest ones, beside the best
PARTS = ("learner", "optimiser", "sampler")
Values = dict[str, Any]
FILE = "parts.safetensors"  # in a run folder
NO_PART = 3  # of an example that came later


def save_checkpoint(
    folder: Path,
    step: int,
    *,
    learner: nn.Module,
    optimiser: torch.optim.Optimizer,
    sampler: Values,
    index: ClusterIndex | None,
    progress: Values,
    best: bool,
) -> Path:
    """Write ``folder/step-N``, mark it as the best if it is, and drop those that are neither late nor best."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step-{step:08d}"
    with replacing_folder(target) as draft:
        _write(draft, "learner", learner.state_dict())
        _write(draft, "optimiser", _flat_optimiser(optimiser))
        _write(draft, "sampler", sampler)
        if index is not None:
            index.save(draft / "index.safetensors")
        (draft / "progress.json").write_text(json.dumps(progress | {"step": step}, indent=1))
    if best:
        with replacing(folder / "best.json") as draft:
            draft.write_text(json.dumps({"checkpoint": target.name}))
    keep = {path.name for path in checkpoints(folder)[-KEPT:]} | {_named_best(folder)}
    for path in folder.glob("step-*"):
        if path.name not in keep:
            _remove(path)
    return target


def checkpoints(folder: Path) -> list[Path]:
    """All whole checkpoints in a folder, earliest first."""
    files = ["progress.json", *(f"{part}.{kind}" for part in PARTS for kind in ("json", "safetensors"))]
    return sorted(path for path in folder.glob("step-*") if all((path / name).is_file() for name in files))


def find_checkpoint(folder: Path, which: str = "best") -> Path:
    """The "best" checkpoint (the last one if none was marked) or the "last"."""
    found = checkpoints(folder)
    if not found:
        raise UserError(f"{folder.parent} has no checkpoint yet: the run stopped before its first one")
    named = _named_best(folder)
    return folder / named if which == "best" and named and (folder / named).is_dir() else found[-1]


def describe_checkpoint(checkpoint: Path) -> str:
    """Which step of its run a checkpoint is: "best: step 22 of 66", or "last: step 66 of 66" if it is not the best."""
    which = "best" if checkpoint.name == _named_best(checkpoint.parent) else "last"
    step, last = (int(read_progress(path)["step"]) for path in (checkpoint, checkpoints(checkpoint.parent)[-1]))
    return f"{which}: step {step:,} of {last:,}"


def read_progress(checkpoint: Path) -> Values:
    """The counters saved with a checkpoint."""
    return _read_values(checkpoint / "progress.json")


def load_learner(checkpoint: Path, learner: nn.Module) -> None:
    """Put saved weights and buffers into a network and method of the same configuration."""
    try:
        learner.load_state_dict(_read(checkpoint, "learner"))
    except RuntimeError as error:
        raise UserError(f"{checkpoint} does not fit the run's configuration: {error}") from error


def load_index(checkpoint: Path) -> ClusterIndex | None:
    """The index in use when the checkpoint was written, if the method had one."""
    path = checkpoint / "index.safetensors"
    return ClusterIndex.load(path) if path.is_file() else None


def load_sampler(checkpoint: Path) -> Values:
    """The state of the batch sampler."""
    return _read(checkpoint, "sampler")


def load_optimiser(checkpoint: Path, optimiser: torch.optim.Optimizer) -> None:
    """Put saved momenta into an optimiser of the same parameters."""
    flat = _read(checkpoint, "optimiser")
    state: dict[int, Values] = {}
    for name, value in flat.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def _flat_optimiser(optimiser: torch.optim.Optimizer) -> Values:
    # Rates and the like come from the configuration; only what was accumulated needs saving.
    state = optimiser.state_dict()["state"]
    return {f"{n}.{key}": value for n, entry in state.items() for key, value in entry.items() if value is not None}


def _write(folder: Path, name: str, values: Values) -> None:
    tensors = {k: v.detach().cpu().contiguous().clone() for k, v in values.items() if isinstance(v, Tensor)}
    save_file(tensors, folder / f"{name}.safetensors")
    plain = {k: v for k, v in values.items() if not isinstance(v, Tensor)}
    (folder / f"{name}.json").write_text(json.dumps(plain, indent=1))


def _read(folder: Path, name: str) -> Values:
    try:
        return _read_values(folder / f"{name}.json") | load_file(folder / f"{name}.safetensors")
    except SafetensorError as error:
        raise _broken(folder / name, error) from error


def _remove(path: Path) -> None:
    # Renamed first: a removal that is cut short must not leave something that looks like a checkpoint.
    trash = path.with_name("trash")
    shutil.rmtree(trash, ignore_errors=True)
    if path.exists():
        path.rename(trash)
        shutil.rmtree(trash)


def _named_best(folder: Path) -> str:
    path = folder / "best.json"
    name = str(_read_values(path).get("checkpoint")) if path.is_file() else ""
    return name if re.fullmatch(r"step-\d+", name) else ""


def _read_values(path: Path) -> Values:
    values: Values = read_json(path)
    if not isinstance(values, dict):
        raise UserError(f"{path} does not hold what a checkpoint needs")
    return values


class Journal:
    """Appends records to ``metrics.jsonl``. A resumed run first drops what came after its checkpoint."""

    def __init__(self, folder: Path, *, resume_at: int | None = None, tensorboard: bool = False) -> None:
        self.path = folder / "metrics.jsonl"
        kept = [] if resume_at is None else [r for r in read_journal(folder) if r["step"] <= resume_at]
        kept = [record for record in kept if record["kind"] != "time"]  # written once, at the end, over all sessions
        with replacing(self.path) as draft:
            draft.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
        self._file = self.path.open("a", encoding="utf-8")
        self._board = _board(folder, resume_at) if tensorboard else None

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Note ``values`` under a kind: train, refresh, validation, time."""
        self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{kind}/{name}", value, step)
                elif name == "impostor_classes" and value:
                    classes = np.repeat([int(c) for c in value], list(value.values()))
                    self._board.add_histogram(f"{kind}/{name}", classes, step, bins=len(value))

    def close(self) -> None:
        """Finish the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """All records of a run; a last line cut short by a crash is left out."""
    path = folder / "metrics.jsonl"
    records: list[dict[str, Any]] = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break
    return records


def _board(folder: Path, resume_at: int | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError("--tensorboard needs TensorBoard: pip install 'magnet-loss[tensorboard]'") from error
    return SummaryWriter(str(folder / "tensorboard"), purge_step=None if resume_at is None else resume_at + 1)


@dataclass(frozen=True)
class StartRecord:
    """What a run wrote down of its data when it began."""

    digest: Digest | None  # None: not known, the run being of an earlier version
    merging: Merging | None  # None: no classes were merged


def keep_parts(folder: Path, data: Dataset) -> None:
    """Write down the part of every example, by its name and class, and what the data holds."""
    merging = Merging.of(data)
    about = {"data": json.dumps(data.digest.to_dict())}
    if merging is not None:
        about["merging"] = json.dumps(asdict(merging))
    with replacing(folder / FILE) as draft:
        save_file({"examples": _marks(data), "parts": torch.from_numpy(data.split.copy())}, draft, about)


def read_start(folder: Path) -> StartRecord:
    """What a run wrote down of its data, apart from the parts of the examples."""
    path = folder / FILE
    if not path.is_file():
        return StartRecord(None, None)
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
        merging = about.get("merging")
        return StartRecord(
            Digest.from_dict(json.loads(about["data"])) if "data" in about else None,
            None if merging is None else Merging(**json.loads(merging)),
        )
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:
        raise _broken(path, error) from error


def merge_again(folder: Path, data: Dataset) -> Dataset:
    """The data with its classes merged as a run has them, if the run was trained on merged classes."""
    merging = read_start(folder).merging
    return data if merging is None else merging.apply(data)


def restore_parts(folder: Path, data: Dataset) -> Dataset:
    """Give every example the part that it had; those that came later are in none."""
    known = _read_parts(folder)
    if known is None:
        return data
    marks = _marks(data)
    if torch.equal(known["examples"], marks):  # also where two examples have the same name and class
        data.split = known["parts"].numpy()
    else:
        part_of = dict(zip(known["examples"].tolist(), known["parts"].tolist(), strict=True))
        data.split = np.array([part_of.get(mark, NO_PART) for mark in marks.tolist()], np.int8)
    return data


def change_note(folder: Path, data: Dataset) -> str:
    """A line on what has changed in the data of a run since it began; "" if nothing, or if that is not known."""
    before = read_start(folder).digest
    changes = "" if before is None else data.digest.changes(before)
    return f"{data.spec} has changed since {folder} began to train on it: {changes}" if changes else ""


def merging_note(folder: Path) -> str:
    """A line on the merged classes of a run; "" if it has none."""
    merging = read_start(folder).merging
    return f"{folder} was trained on merged classes: {merging}" if merging else ""


def check_parts(folder: Path, data: Dataset) -> None:
    """Raise unless the data has just the examples that the run began with: it cannot go on with others."""
    known = _read_parts(folder)
    if known is not None and not torch.equal(known["examples"], _marks(data)):
        raise UserError(
            f"the data of {folder} has changed since it began ({len(known['examples'])} examples then, {len(data)} "
            "now, or others): put it back as it was, or train anew"
        )


def same_training_part(folder: Path, data: Dataset) -> bool:
    """Whether the training part has just the examples that it had when the run began, in their order."""
    known = _read_parts(folder)
    if known is None:
        return True
    return torch.equal(known["examples"][known["parts"] == 0], _marks(data)[data.indices("train")])


def _marks(data: Dataset) -> Tensor:
    """A number for each example (N,), from its name and class."""
    digests = bytearray()  # grown row by row: lists of millions of strings would take a gigabyte
    rows = (label for part in data.labels.split(2**16) for label in part.tolist())
    for name, label in zip(data.names, rows, strict=True):
        mark = f"{name}\0{data.classes[label]}".encode(errors="surrogateescape")
        digests += hashlib.blake2b(mark, digest_size=8).digest()
    return torch.frombuffer(digests, dtype=torch.int64)


def _read_parts(folder: Path) -> dict[str, Tensor] | None:
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return load_file(path)
    except SafetensorError as error:
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} cannot be read ({error}): the file is broken or cut short")
