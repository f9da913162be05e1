"""The demo's measurements: one method, trained on digits and on digits merged in pairs."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.console import Console
from torch import Tensor

from magnet.data import Dataset, merge_classes
from magnet.evaluation.errors import top_errors
from magnet.experiments.dynamics import mean_curve
from magnet.index import ClusterIndex
from magnet.report.curves import Curve
from magnet.report.layout import lay_out
from magnet.report.maps import Map
from magnet.training.config import CONFIG, TrainConfig
from magnet.training.folder import read_journal
from magnet.training.run import Run
from magnet.training.train import train


@dataclass
class Outcome:
    """What one method reached: errors on the test part of each seed, as fractions; None where the run diverged."""

    knc: list[float | None]
    knn: list[float | None]
    hidden: list[float | None]  # kNC error on the digits themselves after training on pairs of them
    curve: Curve  # (step, validation error), mean over the seeds
    run: Run | None  # of the first seed


def map_of(run: Run, title: str) -> Map:
    """The test part and the clusters in the plane."""
    rows = run.data.indices("test")
    placed, centres = lay_out(run.embed(rows, test=True).numpy(), run.index.centres.numpy())
    return Map(title, placed, run.data.labels[rows].numpy(), centres)


def measure(config: TrainConfig, data: Dataset, folder: Path, seeds: int, console: Console) -> Outcome:
    """Train one method on the data, and on a random pairing of its classes, with each of some seeds."""
    outcome = Outcome([], [], [], [], None)
    curves: list[Curve] = []
    for seed in range(config.seed, config.seed + seeds):
        seeded = replace(config, seed=seed)
        place = folder if seed == config.seed else folder.with_name(f"{folder.name}-{seed}")
        run = _train(seeded, data, place, console)
        found = {} if run is None else _errors(run, data, run.bench.labels)
        merged = merge_classes(data, seed)
        coarse = _train(seeded, merged, folder.with_name(f"{folder.name}-pairs-{seed}"), console)
        hidden = {} if coarse is None else _errors(coarse, data, data.labels[coarse.bench.train])
        outcome.knc.append(found.get("knc"))
        outcome.knn.append(found.get("knn"))
        outcome.hidden.append(hidden.get("knc"))
        curves.append([] if run is None else _curve(place))
        if seed == config.seed:
            outcome.run = run
    outcome.curve = mean_curve(curves)
    return outcome


def _train(config: TrainConfig, data: Dataset, folder: Path, console: Console) -> Run | None:
    """The run, or None if it diverged; then nothing of it is left, as it cannot be opened."""
    if (folder / CONFIG).is_file():  # of an earlier demo
        shutil.rmtree(folder)
    try:
        return Run(train(replace(config, out=folder), data=data, console=console), which="last", data=data)
    except FloatingPointError:
        shutil.rmtree(folder)
        return None


def _curve(folder: Path) -> Curve:
    return [(int(r["step"]), float(r["error"])) for r in read_journal(folder) if r["kind"] == "validation"]


def _errors(run: Run, data: Dataset, labels: Tensor) -> dict[str, float]:
    """Test errors under both rules, with the classifiers fitted to the given labels of the training part."""
    method, config, rows = run.learner.method, run.config, data.indices("test")
    index = ClusterIndex.fit(run.references, labels, config.clusters_per_class, seed=config.seed)
    views, truth = run.embed(rows, test=True), data.labels[rows]
    rules: tuple[Literal["knc"], Literal["knn"]] = ("knc", "knn")
    errors: dict[str, float] = {}
    for name in rules:
        rule = method.soft_rule(name, index, run.references, labels, config.neighbours)
        errors[name] = top_errors(rule.predict_log_proba(views), rule.classes, truth)["error"]
    return errors
