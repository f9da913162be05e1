"""The demo: three methods with their defaults, on scikit-learn's digits and on digits merged in random pairs."""

import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from magnet.data import Dataset, merge_classes
from magnet.errors import UserError
from magnet.experiments.cache import top_classes, wrong
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import DIVERGED, Outcome, Table, some_diverged
from magnet.report.explorer.build import build_explorer
from magnet.report.layout import lay_out
from magnet.report.maps import Map, draw_maps
from magnet.runs.run import Run
from magnet.training.config import CONFIG, TrainConfig
from magnet.training.presets import with_preset
from magnet.training.train import train
from magnet.training.workbench import complete, prepare

METHODS = ("softmax", "triplet", "magnet")
REFRESHES = 5  # of Magnet that are kept for the page


@dataclass
class Reached:
    """The results of one method: test errors for each seed, as fractions; None where the run diverged."""

    knc: list[float | None] = field(default_factory=list)
    knn: list[float | None] = field(default_factory=list)
    hidden: list[float | None] = field(default_factory=list)  # kNC on the digits after training on pairs of them
    run: Run | None = None  # of the first seed


def settings(method: str, *, epochs: int, seed: int, quiet: bool) -> TrainConfig:
    """The configuration of a method: the default of `magnet train` on vectors, with the same start for all."""
    config = with_preset(TrainConfig(data="digits", method=method))
    return replace(
        config, epochs=epochs or config.epochs, seed=seed, validation=0.2, evaluate=False, quiet=quiet,
        keep_refreshes=REFRESHES if method == "magnet" else 0,
    )  # fmt: skip


def run(lab: Lab, *, pictures: bool = True) -> Outcome:
    """Train and test every method; with ``pictures`` draw the maps of the first seed's runs, and write a page to
    explore them.
    """
    start = time.monotonic()
    reached: dict[str, Reached] = {}
    for method in lab.methods:
        reached[method] = measure(lab, method)
        lab.console.print(f"[dim]{method}: trained after {time.monotonic() - start:.0f} s[/]")
    runs = {method: found.run for method, found in reached.items() if found.run is not None}
    if not runs:
        raise UserError("all methods diverged with their first seed: there is no run to draw; give another --seed")
    figures = _draw(lab, runs) if pictures else []
    values = {
        method: {"knc": found.knc, "knn": found.knn, "hidden": found.hidden}
        | {"run": None if found.run is None else str(found.run.folder)}
        for method, found in reached.items()
    }
    return Outcome([_table(reached, lab.seeds, len(lab.held.indices("test")))], figures, values)


def _draw(lab: Lab, runs: dict[str, Run]) -> list[Path]:
    """The picture of the maps and the page to explore the runs."""
    picture, page = lab.out / "maps.png", lab.out / "explore.html"
    with lab.console.status("laying out the maps"):
        title = "Test digits after training with each method (t-SNE)"
        draw_maps([map_of(run, method) for method, run in runs.items()], lab.held.classes, picture, title=title)
        seed = lab.configure("magnet").seed
        explorer = build_explorer(
            list(runs.values()), examples=len(lab.held), seed=seed, say=lambda what: lambda done, total: None
        )
        explorer.write(page)
    return [picture, page]


def measure(lab: Lab, method: str) -> Reached:
    """Train one method on the digits, and on a random pairing of them, with each seed."""
    reached = Reached()
    first, data = lab.configure(method), lab.held
    # The start chooses its settings once, so that the runs of all seeds have the same length.
    alone = _chosen(first, data)
    coarsely = _chosen(first, merge_classes(data, first.seed))
    for config in lab.seeded(alone):
        folder = lab.out / (method if config.seed == first.seed else f"{method}-{config.seed}")
        run = _train(lab, config, data, folder)
        found = {} if run is None else _errors(run, data)
        merged = merge_classes(data, config.seed)
        coarse = _train(lab, replace(coarsely, seed=config.seed), merged, lab.out / f"{method}-pairs-{config.seed}")
        hidden = {} if coarse is None else _errors(coarse, data)
        reached.knc.append(found.get("knc"))
        reached.knn.append(found.get("knn"))
        reached.hidden.append(hidden.get("knc"))
        if config.seed == first.seed:
            reached.run = run
    return reached


def _chosen(config: TrainConfig, data: Dataset) -> TrainConfig:
    return prepare(complete(config, data), data).config


def map_of(run: Run, title: str) -> Map:
    """The test part and the clusters in the plane."""
    rows = run.data.indices("test")
    placed, centres = lay_out(run.embed(rows, test=True).numpy(), run.index.centres.numpy())
    return Map(title, placed, run.data.labels[rows].numpy(), centres)


def _train(lab: Lab, config: TrainConfig, data: Dataset, folder: Path) -> Run | None:
    """Train a run in a folder that is named after its method, instead of the lab's cache, so that people find it.

    None if it diverged; its folder is then deleted.
    """
    if (folder / CONFIG).is_file():  # of an earlier demo
        shutil.rmtree(folder)
    try:
        return Run(train(replace(config, out=folder), data=data, console=lab.console), which="last", data=data)
    except FloatingPointError:
        shutil.rmtree(folder)
        return None


def _errors(run: Run, data: Dataset) -> dict[str, float]:
    """Test errors under both rules, with the classifiers fitted to the classes of ``data``."""
    answers, truth = top_classes(run, data.labels), data.labels[data.indices("test")]
    return {rule: float(wrong(found, truth).mean()) for rule, found in answers.items()}


def _table(reached: dict[str, Reached], seeds: int, tested: int) -> Table:
    rows = [
        [method, _percent(found.knc), _percent(found.knn), _percent(found.hidden)] for method, found in reached.items()
    ]
    return Table(
        f"Errors on the {tested} test digits, mean of {seeds} seed{'s' * (seeds > 1)}",
        ["method", "kNC", "soft kNN", "hidden digits"],
        rows,
        "kNC: soft votes of the nearest clusters; soft kNN: of examples, their number and sharpness chosen on "
        "validation data for every method. Hidden digits: trained on digits merged in random pairs, kNC error on the "
        "digits themselves.",
    )


def _percent(errors: list[float | None]) -> str:
    known = [error for error in errors if error is not None]
    if not known:
        return DIVERGED
    return f"{sum(known) / len(known):.1%}" + some_diverged(len(errors) - len(known), len(errors))
