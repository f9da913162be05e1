"""A cache of runs, so that the same settings on the same data are trained once; and the predictions of runs."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from magnet.data import Dataset
from magnet.experiments.outcome import DIVERGED
from magnet.files import file_digest, lock, replacing
from magnet.runs.run import Run, class_scores, refitted
from magnet.training.config import CONFIG, REVISION, TrainConfig, read_config
from magnet.training.folder import (
    FOLDER,
    LEARNER,
    checkpoints,
    last_progress,
    open_checkpoint,
    read_journal,
    read_start,
)
from magnet.training.search import FREE
from magnet.training.train import train
from magnet.training.workbench import absolute, complete

JUDGED = "judged"  # a file in a run whose weights were dropped: its validation errors are known, or it DIVERGED
PROCESSOR = "processor-seconds"  # a file in a run
TOP = 5
Rule = Literal["head", "knc", "knn"]
RULES: tuple[Rule, ...] = ("head", "knc", "knn")


def key_of(config: TrainConfig, data: Dataset) -> str:
    """The cache key of a run: a hash of its settings, the content of its data, and the revision of the code.

    Data and weights count by their content, not by their path.
    """
    settings = {k: v for k, v in complete(config, data).to_dict().items() if k not in (*FREE, "data", "preset")}
    if config.backbone == "linear":
        settings["dropout"] = max(0.0, config.dropout)  # its own is none: a search with --dropout 0 finds these runs
    if config.weights and config.weights.is_file():  # a missing file is reported when it is loaded
        settings["weights"] = file_digest(config.weights)
    if config.warm_start:
        settings["warm_start"] = open_checkpoint(config.warm_start / FOLDER, "last", ()).manifest.files[LEARNER]
    known = [REVISION, settings, data.digest.to_dict()]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    method = "".join(c if c.isalnum() else "-" for c in config.method).strip("-")
    return f"{method}-{digest.hexdigest()[:12]}"


def trained(
    config: TrainConfig, data: Dataset, folder: Path, waiting: Callable[[], None] = lambda: None
) -> Path | None:
    """The run of a configuration: opened if it is finished, resumed if it was stopped, trained otherwise.

    None if it diverged; it is not tried again. If another process is training the same run, ``waiting`` is called, and
    the result of that process is used.
    """
    run = folder / key_of(config, data)
    with _mine(run, waiting):
        if not is_finished(run) and not has_diverged(run):
            try:
                _train(config, data, run)
            except FloatingPointError:
                _drop_weights(run, DIVERGED)
    return None if has_diverged(run) else run


def judged(
    config: TrainConfig, data: Dataset, folder: Path, waiting: Callable[[], None] = lambda: None
) -> list[tuple[int, float]]:
    """The validation errors (step, error) of a run; empty if it diverged. Its weights are not kept."""
    run = folder / key_of(config, data)
    with _mine(run, waiting):
        if not (run / JUDGED).is_file():
            try:
                _train(config, data, run)
                _drop_weights(run, "finished")
            except FloatingPointError:
                _drop_weights(run, DIVERGED)
    return [] if has_diverged(run) else validation_curve(run)


def validation_curve(run: Path) -> list[tuple[int, float]]:
    """The validation errors (step, error) in the journal of a run."""
    return [(int(r["step"]), float(r["error"])) for r in read_journal(run) if r["kind"] == "validation"]


def processor_seconds(run: Path) -> float:
    """What a run took so far, its start included; 0 if that is not known. Other work beside it does not count."""
    file = run / PROCESSOR
    return float(file.read_text(encoding="utf-8")) if file.is_file() else 0.0


def seconds_curve(run: Path) -> list[tuple[float, float]]:
    """The validation errors of a finished run against processor seconds: the start, then even steps."""
    times = [record["seconds"] for record in read_journal(run) if record["kind"] == "time"]
    curve, total = validation_curve(run), processor_seconds(run)
    if not (times and curve and total):
        return []
    apart = sum(times[-1].get(name, 0.0) for name in ("features", "start")) / (sum(times[-1].values()) or 1.0)
    last = curve[-1][0]
    return [(total * (apart + (1 - apart) * step / last), error) for step, error in curve]


def other_data_note(folder: Path, data: Dataset) -> str:
    """A note on the runs in a folder that were trained before their data changed; "" if there are none."""
    changes = [what for run in sorted(folder.glob("*")) if (what := _changes(run, data))]
    if not changes:
        return ""
    runs = f"{len(changes)} earlier run{'s' * (len(changes) > 1)} in {folder}"
    return f"{data.spec} has changed since {runs} ({changes[-1]}): new ones are trained"


def _changes(run: Path, data: Dataset) -> str:
    start = read_start(run)
    if start.digest is None or not (run / CONFIG).is_file():
        return ""
    now = data.digest
    if start.merging is not None:  # its labels differ from the labels of the data
        now = replace(now, labels=start.digest.labels)
    what = now.changes(start.digest)
    return what if what and absolute(read_config(run).data) == absolute(data.spec) else ""


def _mine(run: Path, waiting: Callable[[], None]) -> AbstractContextManager[None]:
    """Lock a run for this process. The lock file lies outside the run folder, which may be deleted and begun again."""
    locks = run.parent / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    return lock(locks / run.name, waiting)


def _train(config: TrainConfig, data: Dataset, run: Path) -> None:
    if is_finished(run):
        return
    started = (run / CONFIG).is_file()
    if started and not checkpoints(run / FOLDER):  # stopped before its first checkpoint
        shutil.rmtree(run)
        started = False
    if started:  # with the settings that it chose from its data
        config = read_config(run)
    begun, before = time.process_time(), processor_seconds(run)
    train(replace(config, out=run, evaluate=False), resume=started, data=data, silent=True)
    with replacing(run / PROCESSOR) as draft:
        draft.write_text(repr(before + time.process_time() - begun), encoding="utf-8")


def _drop_weights(run: Path, result: str) -> None:
    (run / JUDGED).write_text(result, encoding="utf-8")
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def has_diverged(run: Path) -> bool:
    """Whether the training of a run diverged."""
    return (run / JUDGED).is_file() and (run / JUDGED).read_text(encoding="utf-8") == DIVERGED


def is_finished(run: Path) -> bool:
    """Whether a run was trained to its end and can be opened."""
    found = last_progress(run / FOLDER) if (run / CONFIG).is_file() else None
    return found is not None and found["finished"]


def of_test_part(run: Run) -> Tensor:
    """Representations (n, d) of the test examples of a finished run, in the order of the data."""
    path = run.folder / "test-representations.npy"
    if path.is_file():
        return torch.from_numpy(np.load(path))
    found = run.embed(run.data.indices("test"), test=True)
    with replacing(path) as draft, draft.open("wb") as file:
        np.save(file, found.numpy())
    return found


def top_classes(run: Run, labels: Tensor | None = None) -> dict[Rule, np.ndarray]:
    """The five likeliest classes (n, 5) of every test example, best first, under each rule; -1 for none.

    With other ``labels`` (N,) of all examples than the run was trained on, the classifiers are refitted to these. The
    head of the run, which predicts the trained labels only, is then left out.
    """
    path = run.folder / f"answers-{'own' if labels is None else 'refitted'}.npz"
    if path.is_file():
        with np.load(path) as kept:
            return {rule: kept[rule] for rule in RULES if rule in kept}
    queries = of_test_part(run)
    if labels is None:
        scores = class_scores(run, queries, run.rule("knc"), run.rule("knn"))
    else:
        rules = refitted(run, labels)
        scores = {name: (rule.predict_log_proba(queries), rule.classes) for name, rule in rules.items()}
    answers: dict[Rule, np.ndarray] = {rule: _best(*scores[rule]) for rule in RULES if rule in scores}
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez(file, **answers)  # type: ignore[arg-type]
    return answers


def wrong(answers: np.ndarray, truth: Tensor, top: int = 1) -> np.ndarray:
    """Whether the true class (n,) is not among the first ``top`` answers (n, 5)."""
    among: np.ndarray = (answers[:, :top] == truth.numpy()[:, None]).any(axis=1)
    return ~among


def _best(scores: Tensor, classes: Tensor) -> np.ndarray:
    ranked = scores.topk(min(TOP, scores.shape[1]), dim=1)
    return torch.where(ranked.values > -torch.inf, classes[ranked.indices], -1).numpy()
