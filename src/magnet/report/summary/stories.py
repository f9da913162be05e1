"""What a run folder tells without its weights or data: settings, journal, times, how far it came."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from magnet.errors import UserError
from magnet.report.summary.findings import Findings
from magnet.training.config import CONFIG, TrainConfig, read_config
from magnet.training.folder import checkpoints, read_journal, read_progress


@dataclass
class Story:
    """One run in a report."""

    folder: Path
    name: str  # short, and unlike those of the other runs
    config: TrainConfig
    journal: list[dict[str, Any]]
    step: int  # of the last checkpoint or record
    finished: bool
    seconds: dict[str, float]  # spent on training, embedding, refresh, validation; over all sessions
    findings: Findings | None = None
    trouble: str = ""  # why there are no findings
    notes: list[str] = field(default_factory=list)


def tell(folders: Sequence[Path]) -> list[Story]:
    """The runs at these folders, each once."""
    unique = list({folder.resolve(): folder for folder in folders}.values())
    names = short_names([folder.resolve() for folder in unique])
    return [_tell(folder, name) for folder, name in zip(unique, names, strict=True)]


def short_names(folders: Sequence[Path]) -> list[str]:
    """For each folder as many of its last parts as it takes to tell all of them apart."""
    depth = 1
    while True:
        names = ["/".join(folder.parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names) or depth >= max(len(folder.parts) for folder in folders):
            return names
        depth += 1


def _tell(folder: Path, name: str) -> Story:
    if not folder.is_dir():
        raise UserError(f"there is no run at {folder}: {'that is a file' if folder.exists() else 'no such folder'}")
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder} is not a run: it has no {CONFIG}. Train one with `magnet train --out {folder}`")
    journal = [record for record in read_journal(folder) if isinstance(record, dict) and "step" in record]
    saved = checkpoints(folder / "checkpoint")
    progress = read_progress(saved[-1]) if saved else {}
    # A run that was killed has no record of its times; its last checkpoint knows those until then.
    times = [record["seconds"] for record in journal if record.get("kind") == "time"] or [progress.get("seconds", {})]
    step = max([int(progress.get("step", 0)), *(int(record["step"]) for record in journal)])
    return Story(folder, name, read_config(folder), journal, step, bool(progress.get("finished")), times[-1])
