"""Hyper-parameter search: many short runs, judged on validation data; the test part is never looked at.

The settings that are varied are those that the paper tunes (appendix B). Trials are recorded in an SQLite file, which
processes share and which a later command continues.
"""

import multiprocessing
import os
import shutil
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from rich.console import Console

from magnet.data import Dataset
from magnet.errors import UserError, check_at_least
from magnet.training.config import TrainConfig
from magnet.training.folder import FOLDER, last_progress
from magnet.training.train import train
from magnet.training.workbench import open_for

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

FILE = "study.db"
MOST_JOBS = 1024  # processes; each imports torch
VALIDATION = 0.2  # of the training part, where the data has no validation part of its own
FREE = ("out", "quiet", "workers", "device", "logger", "evaluate", "max_pixels")  # they do not change a result
Sampler = Literal["random", "tpe"]
LARGEST_BATCH = 48  # M D, "upper-bounded by 48 due to memory constraints"
M_VALUES = (2, 4, 6, 8, 12, 16, 24)
D_VALUES = (2, 3, 4, 6, 8, 12)  # M = D = 2 is among them: it comes down to triplet loss


@dataclass(frozen=True)
class Range:
    """An interval of numbers, drawn uniformly, or uniformly in the logarithm."""

    low: float
    high: float
    log: bool = False


Space = dict[str, "Range | tuple[Any, ...]"]

EVERYONE: Space = {"learning_rate": Range(1e-4, 0.1, log=True), "annealing": Range(0.9, 1.0)}
ADAMW: Space = {"learning_rate": Range(1e-5, 1e-3, log=True)}  # its steps are as long as the rate
TRIPLET: Space = {
    "alpha": Range(0.1, 1.0),
    "impostor_fraction": Range(0.005, 0.5, log=True),
    "neighbours": (16, 32, 64, 128, 256),
}
BY_METHOD: dict[str, Space] = {
    "magnet": {
        "alpha": Range(0.25, 8.0, log=True),
        "scaling": Range(1.0, 16.0, log=True),
        "clusters_per_class": (1, 2, 4, 8, 16),
    },
    "triplet": TRIPLET,
    "semantic-triplet": TRIPLET,
    "contrastive": {"alpha": Range(0.2, 1.8)},
}


class Chance(Protocol):
    """The part of an Optuna trial that is used here."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """A number of a range."""

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        """One of some values."""


def space_of(config: TrainConfig, fixed: Collection[str] = ()) -> Space:
    """The settings that are varied for the method of a configuration, without the ``fixed`` ones."""
    space = EVERYONE | (ADAMW if config.optimiser == "adamw" else {}) | BY_METHOD.get(config.method, {})
    if config.schedule == "cosine":
        space.pop("annealing")  # unused by the cosine schedule
    space = {name: where for name, where in space.items() if name not in fixed}
    if config.method == "magnet" and not {"clusters_per_batch", "examples_per_cluster"} <= set(fixed):
        space["batch"] = _batches(config, fixed)
    if not space:
        raise UserError("all settings that could be searched are given: nothing is left to search")
    return space


def draw(chance: Chance, space: Space) -> dict[str, Any]:
    """Draw the settings of one trial."""
    drawn = {
        name: chance.suggest_categorical(name, where)
        if isinstance(where, tuple)
        else chance.suggest_float(name, where.low, where.high, log=where.log)
        for name, where in space.items()
    }
    return settings_of(drawn)


def settings_of(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Drawn values as settings: numbers rounded to the three digits that are printed, "12x4" as M = 12 and D = 4."""
    settings: dict[str, Any] = {
        name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in drawn.items()
    }
    if "batch" in settings:
        clusters, examples = map(int, settings.pop("batch").split("x"))
        settings |= {"clusters_per_batch": clusters, "examples_per_cluster": examples}
    return settings


def _batches(config: TrainConfig, fixed: Collection[str]) -> tuple[str, ...]:
    # One choice of pairs, since the two limit each other.
    clusters = (config.clusters_per_batch,) if "clusters_per_batch" in fixed else M_VALUES
    examples = (config.examples_per_cluster,) if "examples_per_cluster" in fixed else D_VALUES
    pairs = tuple(f"{m}x{d}" for m in clusters for d in examples if m * d <= LARGEST_BATCH)
    if not pairs:
        raise UserError(f"batches of M x D examples are searched up to {LARGEST_BATCH}: give both M and D, or less")
    return pairs


def import_optuna() -> Any:
    """Import Optuna, and switch its log off."""
    try:
        import optuna
    except ImportError as error:
        raise UserError("magnet tune needs Optuna: pip install 'magnet-loss[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


class Study:
    """Numbered trials. Trial n of a random search depends on (seed, n) alone, not on the process that runs it.

    A trial ends complete, failed (its run diverged) or abandoned (its process was stopped; Optuna calls it pruned).
    Abandoned trials do not count.

    The SQLite file in ``folder`` is made if it does not exist. A file with other ``settings``, which are the same for
    all trials, is another search, and refused.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], *, sampler: Sampler = "random", seed: int = 0) -> None:
        self._optuna = import_optuna()
        self._kind, self._seed = sampler, seed
        folder.mkdir(parents=True, exist_ok=True)
        storage = self._optuna.storages.RDBStorage(
            f"sqlite:///{folder / FILE}", engine_kwargs={"connect_args": {"timeout": 60}}
        )
        self._study = self._optuna.create_study(
            storage=storage, study_name="magnet", direction="minimize", load_if_exists=True
        )
        settings = settings | {"sampler": sampler}
        known = self._study.user_attrs.get("settings")
        if known is None:
            self._study.set_user_attr("settings", settings)
            return
        # A search of an earlier version does not know of every setting that there is now.
        differ = sorted(name for name in known if known[name] != settings.get(name))
        if differ:
            raise UserError(f"{folder} holds a search with other settings ({', '.join(differ)}): give another --out")

    def claim(self, wanted: int) -> "Trial | None":
        """A new trial, or None if there are as many as wanted."""
        if len(self._counting()) >= wanted:
            return None
        trial: Trial = self._study.ask()
        trial.set_user_attr("owner", [socket.gethostname(), os.getpid()])
        if sum(t.number < trial.number for t in self._counting()) >= wanted:  # another process was faster
            self.abandon(trial.number)
            return None
        kinds = {"random": self._optuna.samplers.RandomSampler, "tpe": self._optuna.samplers.TPESampler}
        self._study.sampler = kinds[self._kind](seed=self._seed * 100_003 + trial.number)
        return trial

    def complete(self, trial: "Trial", error: float) -> None:
        """Record the validation error of a trial."""
        self._study.tell(trial, error)

    def fail(self, trial: "Trial", reason: str) -> None:
        """Mark a trial as failed."""
        trial.set_user_attr("failure", reason)
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)

    def abandon(self, number: int) -> None:
        """Mark a trial as abandoned: it does not count."""
        self._study.tell(number, state=self._optuna.trial.TrialState.PRUNED)

    def release_lost(self) -> None:
        """Abandon trials whose process has ended."""
        for trial in self._counting():
            if trial.state == self._optuna.trial.TrialState.RUNNING and _is_lost(trial):
                self.abandon(trial.number)

    def ranked(self) -> "list[FrozenTrial]":
        """Complete trials, best first."""
        done = [t for t in self._counting() if t.state == self._optuna.trial.TrialState.COMPLETE]
        return sorted(done, key=lambda t: (t.value or 0.0, t.number))

    def ended(self) -> "list[FrozenTrial]":
        """Complete and failed trials, by number."""
        return [t for t in self._counting() if t.state.is_finished()]

    def _counting(self) -> "list[FrozenTrial]":
        pruned = self._optuna.trial.TrialState.PRUNED
        return [t for t in self._study.get_trials(deepcopy=False) if t.state != pruned]


def _is_lost(trial: "FrozenTrial") -> bool:
    host, process = trial.user_attrs.get("owner", (None, 0))
    if host is None:  # stopped before it recorded its process
        return trial.datetime_start is None or datetime.now() - trial.datetime_start > timedelta(minutes=1)
    if host != socket.gethostname():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return bool(process == os.getpid())


@dataclass(frozen=True)
class Search:
    """What is searched, and how. ``fixed`` names settings that keep the value they have in ``config``."""

    config: TrainConfig
    folder: Path
    trials: int = 20
    jobs: int = 1
    sampler: Sampler = "random"
    fixed: frozenset[str] = frozenset()
    keep: bool = False

    def __post_init__(self) -> None:
        check_at_least("trials", self.trials, 1)
        check_at_least("jobs", self.jobs, 1, MOST_JOBS)
        self.config.check()

    @property
    def base(self) -> TrainConfig:
        """The settings that all trials share."""
        return replace(self.config, validation=self.config.validation or VALIDATION, evaluate=False)

    @property
    def space(self) -> Space:
        """The settings that are drawn for each trial."""
        return space_of(self.config, self.fixed)

    def open(self, data: Dataset) -> Study:
        """The study of this search, continued if its file exists."""
        settings = {name: value for name, value in self.base.to_dict().items() if name not in FREE}
        settings = {name: value for name, value in settings.items() if name in self.fixed or name not in self.space}
        settings |= {"searched": sorted(self.space), "content of the data": data.digest.whole}
        return Study(self.folder, settings, sampler=self.sampler, seed=self.config.seed)

    def run_folder(self, number: int) -> Path:
        """The run folder of a trial."""
        return self.folder / "trials" / f"{number:04d}"


def tune(search: Search, *, report: Callable[[Study], None], console: Console | None = None) -> Study:
    """Search until there are as many trials as wanted; ``report`` is called whenever trials may have ended."""
    data = open_validated(search)
    study = search.open(data)
    study.release_lost()
    report(study)
    try:
        if search.jobs == 1:
            work(search, study, data, report=report, console=console)
        else:
            _work_side_by_side(search, study, report)
    except KeyboardInterrupt:
        done = len(study.ended())
        raise KeyboardInterrupt(f"stopped with {done} of {search.trials} trials; the same command goes on") from None
    if not study.ranked():
        reasons = {str(trial.user_attrs.get("failure")) for trial in study.ended()}
        raise UserError(f"all {len(study.ended())} trials failed, for instance: {sorted(reasons)[0]}")
    return study


def open_validated(search: Search) -> Dataset:
    """The data, with a validation part that is not empty."""
    data = open_for(search.base)
    if not len(data.indices("validation")):
        raise UserError(f"{search.config.data} leaves no examples for validation: give a larger --validation")
    return data


def work(
    search: Search, study: Study, data: Dataset, *, report: Callable[[Study], None], console: Console | None = None
) -> None:
    """Run one trial after the other."""
    while (trial := study.claim(search.trials)) is not None:
        try:
            study.complete(trial, _error(search, trial.number, draw(trial, search.space), data, console))
        except (FloatingPointError, torch.OutOfMemoryError) as failure:
            study.fail(trial, str(failure))
        except BaseException:  # interrupted or failed: the trial does not count
            study.abandon(trial.number)
            shutil.rmtree(search.run_folder(trial.number), ignore_errors=True)
            raise
        if not search.keep:
            _tidy(search, study)
        report(study)


def _error(search: Search, number: int, drawn: dict[str, Any], data: Dataset, console: Console | None) -> float:
    """The lowest validation error of a run with the drawn settings."""
    folder = search.run_folder(number)
    shutil.rmtree(folder, ignore_errors=True)
    silent = console is None or not console.is_terminal or search.config.quiet
    train(replace(search.base, out=folder, **drawn), data=data, console=console, silent=silent)
    error = (last_progress(folder / FOLDER) or {}).get("lowest_error")
    if error is None:
        raise UserError("a trial ended without a validation: give more --epochs or --steps")
    return float(error)


def _tidy(search: Search, study: Study) -> None:
    """Delete the weights of all trials but the best; their settings and curves stay."""
    ranked = study.ranked()
    failed = [trial for trial in study.ended() if trial.value is None]
    for trial in ranked[1:] + failed:
        for run in (search.run_folder(trial.number), search.run_folder(trial.number) / "warm-start"):
            shutil.rmtree(run / "checkpoint", ignore_errors=True)


def _work_side_by_side(search: Search, study: Study, report: Callable[[Study], None]) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_work_alone, args=(search,)) for _ in range(min(search.jobs, search.trials))]
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            time.sleep(0.2)
            report(study)
        report(study)
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
        signal.signal(signal.SIGTERM, before)
    if any(process.exitcode for process in processes):
        raise UserError("a process of the search failed; what it said is above")


def _work_alone(search: Search) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // search.jobs))
    try:
        data = open_validated(search)
        work(search, search.open(data), data, report=lambda study: None)
    except KeyboardInterrupt:
        sys.exit(0)
    except UserError as error:
        print(f"magnet: {error}", file=sys.stderr)
        sys.exit(2)
