"""What is known of each run of a report: its settings and journal, and what was measured of it on the test part."""

import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from magnet.data import Dataset
from magnet.data.listings import Attributes
from magnet.errors import UserError
from magnet.evaluation.concentration import Concentration, attribute_concentration, concentration_within_classes
from magnet.files import inside, read_record, write_record
from magnet.index import ClusterIndex
from magnet.report.summary.confusion import confusion_findings
from magnet.runs.evaluate import evaluate, seconds_of_evaluation
from magnet.runs.run import Run, cache_key
from magnet.training.checkpoint import FOLDER, Progress, checkpoints, open_checkpoint
from magnet.training.config import TrainConfig, check_run, read_config
from magnet.training.folder import journal_note, read_journal
from magnet.training.inputs import Report

_FORMAT = 4


@dataclass(frozen=True)
class Findings:
    """Plain values only, as JSON holds them."""

    evaluation: dict[str, Any]  # of `magnet.runs.evaluate.evaluate`, which keeps it itself
    impostors: dict[str, list[dict[str, Any]]]  # of each of its worst classes: see `rivals`
    sigma: float  # the unit of their distances
    classes: list[str]
    confusion: dict[str, Any]  # see `magnet.report.summary.confusion.confusion_findings`
    attributes: dict[str, Any] | None  # see `attribute_findings`; None: the data has none
    examples: str  # a fingerprint of the examples that were evaluated
    digest: str  # of the data, as a whole
    seconds: float  # that measuring took, with the evaluation

    def save(self, folder: Path) -> None:
        """Keep them in the cache of the run; where that cannot be written, they are measured again next time."""
        path, key = _place(folder)
        with suppress(OSError):
            inside(folder, path.parent.name)
            write_record(path, {"key": key, "findings": {**asdict(self), "evaluation": {}}})

    @classmethod
    def load(cls, folder: Path, evaluation: dict[str, Any]) -> "Findings | None":
        """What was measured of this checkpoint under these settings, if it was, beside its evaluation."""
        path, key = _place(folder)
        with suppress(OSError, UserError):
            known: _Kept = read_record(path, _Kept)
            if known["key"] == key:
                return replace(known["findings"], evaluation=evaluation)
        return None


class _Kept(TypedDict):
    key: str  # of all that they depend on
    findings: Findings


def _place(folder: Path) -> tuple[Path, str]:
    """The file, and the mark of all that findings depend on apart from the data."""
    checkpoint, config = open_checkpoint(folder / FOLDER), read_config(folder)
    key = f"{_FORMAT}/{cache_key(checkpoint, config)}/{config.test_draws}"
    return folder / "cache" / f"{checkpoint.path.name}.report.json", hashlib.sha256(key.encode()).hexdigest()


@dataclass
class ReportedRun:
    """One run in a report."""

    folder: Path
    name: str  # short, and different for every run
    config: TrainConfig
    journal: list[dict[str, Any]]
    step: int  # of the last checkpoint or record
    finished: bool
    seconds: dict[str, float]  # spent on training, embedding, refresh, validation; over all sessions
    findings: Findings | None = None
    trouble: str = ""  # why there are no findings
    notes: list[str] = field(default_factory=list)


def read_runs(folders: Sequence[Path]) -> list[ReportedRun]:
    """The runs at these folders, each once."""
    unique = list({folder.resolve(): folder for folder in folders}.values())
    names = short_names([folder.resolve() for folder in unique])
    return [_read_run(folder, name) for folder, name in zip(unique, names, strict=True)]


def short_names(folders: Sequence[Path]) -> list[str]:
    """For each folder as many of its last parts as it takes to tell all of them apart."""
    depth = 1
    while True:
        names = ["/".join(folder.parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names) or depth >= max(len(folder.parts) for folder in folders):
            return names
        depth += 1


def _read_run(folder: Path, name: str) -> ReportedRun:
    check_run(folder)
    journal = read_journal(folder)
    last = open_checkpoint(folder / FOLDER, "last", ()) if checkpoints(folder / FOLDER) else None
    progress: Progress = last.manifest.progress if last else {}
    damaged = journal_note(folder, last.manifest.journal) if last else ""
    # A run that was killed has no record of its times; its last checkpoint knows those until then.
    times = [record["seconds"] for record in journal if record.get("kind") == "time"] or [progress.get("seconds", {})]
    step = max([last.step if last else 0, *(int(record["step"]) for record in journal)])
    run = ReportedRun(folder, name, read_config(folder), journal, step, progress.get("finished", False), times[-1])
    run.notes += [damaged] if damaged else []
    return run


def measure(run: ReportedRun, report: Report | None = None) -> None:
    """Give a run its findings: those kept from an earlier report if they still hold, or new ones."""
    try:
        run.findings = _measure(run.folder, run.notes, report)
    except UserError as error:
        run.trouble = str(error)


def _measure(folder: Path, notes: list[str], report: Report | None) -> Findings:
    try:
        run = Run(folder, report=report)
    except UserError as error:
        known = _earlier(folder)
        if known is None:
            raise
        notes.append(f"Measured earlier: {error}.")
        return known
    rows = run.data.indices("test")
    if not len(rows):
        raise UserError(f"{run.config.data} has no test part to evaluate on")
    notes += run.notes
    evaluation = evaluate(run)
    known = Findings.load(folder, evaluation)
    if known is not None and known.digest == run.embeddings.digest:
        return known
    start = time.perf_counter()
    sigma = run.rule("knc").variance ** 0.5
    wrong = {row["class"] for row in evaluation["worst"]}
    found = Findings(
        evaluation=evaluation,
        impostors={
            name: rivals(run.index, label, run.classes, sigma)
            for label, name in enumerate(run.classes)
            if name in wrong
        },
        sigma=sigma,
        classes=run.classes,
        confusion=confusion_findings(run),
        attributes=None
        if run.data.attributes is None
        else attribute_findings(
            run.data.attributes.keep(rows.numpy()), run.part("test", test=True), run.data.labels[rows]
        ),
        examples=fingerprint(run.data, rows),
        digest=run.embeddings.digest,
        seconds=seconds_of_evaluation(run) + time.perf_counter() - start,
    )
    found.save(folder)
    return found


def _earlier(folder: Path) -> Findings | None:
    """What is kept of a run whose data cannot be opened."""
    with suppress(UserError):
        run = Run(folder, need_data=False)
        known = Findings.load(folder, evaluate(run))
        if known is not None and known.digest == run.embeddings.digest:
            return known
    return None


def attribute_findings(attributes: Attributes, representations: Tensor, labels: Tensor) -> dict[str, Any] | None:
    """Attribute precision as plain values; ``within`` the classes where the attributes were given to each image."""
    if not attributes.names:
        return None
    by_class = attributes.level == "class"
    found = attribute_concentration(representations, attributes.values, labels=labels, others_only=by_class)
    within = None if by_class else concentration_within_classes(representations, attributes.values, labels)
    return {
        "level": attributes.level,
        "names": attributes.names,
        "sizes": list(found.sizes),
        "all": _values(found),
        "within": None if within is None else _values(within),
    }


def fingerprint(data: Dataset, rows: Tensor) -> str:
    """The same for the same examples, by name, class and content."""
    digest = hashlib.sha256(data.digest.content.encode())
    for row in rows.tolist():
        digest.update(f"{data.names[row]}\0{data.classes[int(data.labels[row])]}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _values(found: Concentration) -> dict[str, Any]:
    return {
        "precision": _plain(found.precision),
        "base": _plain(np.array([found.base]))[0],
        "lift": _plain(found.lift),
        "counts": found.counts.tolist(),
        "per_attribute": [_plain(row) for row in found.per_attribute],
        "chance": _plain(found.chance),
    }


def _plain(numbers: np.ndarray) -> list[float | None]:
    """JSON has no nan."""
    return [float(number) if np.isfinite(number) else None for number in numbers]


def rivals(
    index: ClusterIndex, label: int, classes: list[str], sigma: float, *, count: int = 3
) -> list[dict[str, Any]]:
    """The nearest pairs of a cluster of a class and an impostor cluster, nearest first, each impostor once.

    Returns:
        For each: ``class``, ``cluster`` and ``size`` of the impostor, ``own`` and ``own_size`` of the class's own
        cluster, and the ``distance`` of the two centres in units of ``sigma``.
    """
    own = (index.centre_labels == label).nonzero().squeeze(1)
    if not len(own):
        return []
    # One of the `count` nearest impostors is among the `count` nearest of the own cluster that it is nearest to.
    table = index.nearest_impostors(count, own)
    apart = torch.linalg.vector_norm(index.centres[own][:, None] - index.centres[table.clamp_min(0)], dim=2)
    pairs = sorted(
        (float(apart[row, place]), int(own[row]), int(impostor))
        for row in range(len(own))
        for place, impostor in enumerate(table[row].tolist())
        if impostor >= 0
    )
    nearest: dict[int, dict[str, Any]] = {}
    for distance, cluster, impostor in pairs:
        nearest.setdefault(
            impostor,
            {
                "class": classes[int(index.centre_labels[impostor])],
                "cluster": impostor,
                "size": int(index.sizes[impostor]),
                "own": cluster,
                "own_size": int(index.sizes[cluster]),
                "distance": distance / sigma,
            },
        )
    return list(nearest.values())[:count]
