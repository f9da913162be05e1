"""Checkpoints: written whole or not at all, verified when they are opened, and skipped if they are damaged.

A checkpoint is a folder of safetensors, each with its digest, and a manifest that names the digests, written last.
Loading one never executes code. The last two and the best are kept.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch
from torch import Tensor, nn

from magnet.errors import UserError
from magnet.files import Count, discard, inside, read_record, replacing_folder, write_record
from magnet.index import ClusterIndex
from magnet.tensors import Stored, check_layout, read_tensors, write_tensors
from magnet.training.display import Watched

FORMAT: Literal["magnet-checkpoint/1"] = "magnet-checkpoint/1"
FOLDER = "checkpoint"  # in a run folder
MANIFEST = "manifest.json"
LEARNER, STATE, INDEX = "learner.safetensors", "state.safetensors", "index.safetensors"
KEPT = 2  # the latest ones, beside the best
NAME = re.compile(r"step-(\d{8,12})")
ATTEMPTS = 20  # to open a checkpoint while a running training deletes old ones
Values = dict[str, Any]


class Progress(TypedDict, total=False):
    """The counters of a run."""

    refreshed_at: int  # -1: never
    since_best: Count  # validations
    seconds: dict[str, float]
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
        for name, value in self._part("optimiser").items():
            number, _, key = name.partition(".")
            known = number.isdecimal() and int(number) < len(parameters)
            if not known or (isinstance(value, Tensor) and value.ndim and value.shape != parameters[int(number)].shape):
                raise UserError(f"{self.path / STATE} does not fit the run's configuration: it has optimiser.{name}")
            state.setdefault(int(number), {})[key] = value
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})

    def sampler(self) -> Values:
        """The state of the batch sampler."""
        return self._part("sampler")

    def index(self) -> ClusterIndex | None:
        """The index in use when the checkpoint was written, if the method had one."""
        return ClusterIndex.of(self.stored[INDEX], self.path / INDEX) if INDEX in self.stored else None

    def _part(self, name: str) -> Values:
        tensors, values = self.stored[STATE].tensors, self.manifest.values
        whole = {**values, **tensors}
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

    If it is damaged, the notes say so, and the latest undamaged one is opened instead.

    Args:
        folder: of the checkpoints.
        which: see above.
        parts: the files to read; the index may be absent.
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
                stored = _read_parts(path, manifests[path], parts)
        except UserError as error:
            damaged.append(str(error))
            continue
        assert newest is not None
        notes = [f"{reason}; the checkpoint of step {manifests[path].step:,} is used instead" for reason in damaged]
        return Checkpoint(path, manifests[path], newest.step, best, notes, stored)
    raise UserError(f"no checkpoint of {folders[0].parent.parent} can be used: {'; '.join(damaged)}")


def _read_parts(path: Path, manifest: Manifest, parts: Collection[str]) -> dict[str, Stored]:
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
