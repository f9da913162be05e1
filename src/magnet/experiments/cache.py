"""Runs cached by configuration: the same settings on the same data are trained once."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

from magnet.data import Dataset
from magnet.training.checkpoint import checkpoints, read_progress
from magnet.training.config import CONFIG, TrainConfig
from magnet.training.journal import read_journal
from magnet.training.search import FREE
from magnet.training.train import train
from magnet.training.workbench import complete

JUDGED = "judged"  # a file in a run whose weights were dropped once its validation errors were known


def key_of(config: TrainConfig, data: Dataset) -> str:
    """A short name for what decides a run: its settings and its data, wherever that lies."""
    settings = {k: v for k, v in complete(config, data).to_dict().items() if k not in (*FREE, "data", "preset")}
    if config.weights:
        settings["weights"] = config.weights.name
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update("\0".join([*data.classes, *data.names]).encode())
    digest.update(data.labels.numpy().tobytes() + data.split.tobytes())
    method = "".join(c if c.isalnum() else "-" for c in config.method).strip("-")
    return f"{method}-{digest.hexdigest()[:12]}"


def trained(config: TrainConfig, data: Dataset, folder: Path) -> Path:
    """The run of a configuration: as it is if it has been trained, gone on with if it was stopped, new otherwise."""
    run = folder / key_of(config, data)
    if is_finished(run):
        return run
    started = (run / CONFIG).is_file()
    if started and not checkpoints(run / "checkpoint"):  # stopped before there was anything to go on from
        shutil.rmtree(run)
        started = False
    return train(replace(config, out=run, evaluate=False), resume=started, data=data, silent=True)


def judged(config: TrainConfig, data: Dataset, folder: Path) -> list[tuple[int, float]]:
    """The validation errors (step, error) of a run, none if it diverged. Its weights are not kept."""
    run = folder / key_of(config, data)
    if not (run / JUDGED).is_file():
        try:
            trained(config, data, folder)
            result = "finished"
        except FloatingPointError:
            result = "diverged"
        (run / JUDGED).write_text(result, encoding="utf-8")
        shutil.rmtree(run / "checkpoint", ignore_errors=True)
    if (run / JUDGED).read_text(encoding="utf-8") == "diverged":
        return []
    return [(int(r["step"]), float(r["error"])) for r in read_journal(run) if r["kind"] == "validation"]


def is_finished(run: Path) -> bool:
    """Whether a run was trained to its end and can be opened."""
    found = checkpoints(run / "checkpoint") if (run / CONFIG).is_file() else []
    return bool(found) and bool(read_progress(found[-1])["finished"])
