"""What a person sees of a run: a live bar or plain lines, numbers that reveal a broken run, and loggers.

Loggers get the records of the journal. TensorBoard's files are in the run folder. Weights & Biases and MLflow are used
through Lightning's loggers, and configured by their own environment variables: with ``WANDB_MODE=offline`` all files
stay in the run, and without ``MLFLOW_TRACKING_URI`` MLflow's database is a file in the run.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self, TypedDict

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Column
from torch import Tensor

from magnet.errors import Count, UserError, visible
from magnet.files import inside
from magnet.index import ClusterIndex
from magnet.training.config import check_logger

PROJECT = "magnet"  # of the loggers


class SteadyConsole(Console):
    """A console that falls silent when its output is closed (`magnet train | head`); the training goes on."""

    def on_broken_pipe(self) -> None:
        """Discard all further output."""
        self.quiet = True
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Display:
    """The progress of a run: a live bar on a terminal, otherwise (and with ``quiet``) a plain line for each epoch.

    A ``silent`` display prints nothing: on ranks other than 0, and for a caller that shows progress itself.
    """

    def __init__(
        self, title: str, *, quiet: bool = False, silent: bool = False, console: Console | None = None
    ) -> None:
        self.console = console or SteadyConsole()
        self.silent = silent
        self.title, self.total = title, 0
        self.live = not quiet and not silent and self.console.is_terminal
        self._first: tuple[float, int] | None = None
        self._values: dict[str, Any] = {}
        self._bar = 20 if self.console.width >= 100 else 10
        if self.live:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", table_column=Column(no_wrap=True)),
                BarColumn(bar_width=self._bar),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self._task = self._progress.add_task(title, total=None, note="")

    def __enter__(self) -> Self:
        if self.live:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self._progress.stop()

    def set_total(self, total: int) -> None:
        """How many steps there will be."""
        self.total = total
        if self.live:
            self._progress.update(self._task, total=total)

    def say(self, text: str) -> None:
        """Print a line above the bar, where it stays."""
        if not self.silent:
            self.console.print(visible(text), highlight=False, soft_wrap=not self.console.is_terminal, markup=False)

    def busy(self, what: str, done: int = 0, total: int = 0) -> None:
        """Show beside the bar what is done between steps, such as a refresh."""
        if self.live:
            share = f" {done}/{total}" if total else ""
            self._progress.update(self._task, note=f"[dim]{what}{share}[/]")

    def step(self, step: int, values: dict[str, Any]) -> None:
        """Show the step and the numbers of the last batch."""
        self._values = values
        if self._first is None:
            self._first = time.monotonic(), step
        if self.live:
            self._progress.update(self._task, completed=step, note=self._short_line(step))

    def epoch(self, step: int) -> None:
        """Print a line at the end of an epoch, unless a live bar is shown."""
        if not self.live and not self.silent:
            self.say(f"{self.title}  step {step}/{self.total}  {self._line(step)}")

    def _line(self, step: int) -> str:
        values = {name: self._values[name] for name in sorted(self._values, key=lambda name: name != "error")}
        start, first = self._first or (0.0, step)
        if step > first:
            values = values | {"steps/s": round((step - first) / max(time.monotonic() - start, 1e-9), 1)}
        return "  ".join(f"{name} {_short(value)}" for name, value in values.items() if value is not None)

    def _short_line(self, step: int) -> str:
        """As many of the numbers as fit beside the bar, the step count and the remaining time; the error first."""
        room = self.console.width - len(self.title) - self._bar - 2 * len(str(self.total)) - len("  /  0:00:00  ")
        shown = ""
        for piece in self._line(step).split("  "):
            if len(shown) + 2 + len(piece) > room:
                break
            shown += f"  {piece}" if shown else piece
        return shown


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def churn(before: Tensor, after: Tensor) -> float:
    """The fraction of examples that changed cluster between two assignments (N,), whatever the ids of the clusters.

    Each new cluster is matched to the old cluster that most of its members come from.
    """
    old = int(before.max()) + 1
    pairs = (after * old).add_(before).numpy()
    pairs.sort()  # in place: `torch.unique` of pairs takes many times their memory
    first = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]]))
    stayed = np.zeros(int(after.max()) + 1, np.int64)
    np.maximum.at(stayed, pairs[first] // old, np.diff(first, append=len(pairs)))
    return 1 - int(stayed.sum()) / len(after)


class Watched(TypedDict):
    """What the batches since the last refresh looked like (`BatchWatch`)."""

    seeds: list[Count]
    impostors: list[tuple[Count, Count]]
    distinct: list[Count]


class BatchWatch:
    """Statistics of the batches of a run: seed clusters, impostor classes and distinct classes."""

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels
        self.seeds: set[int] = set()
        self.impostors: Counter[int] = Counter()
        self.distinct: list[int] = []

    def see(self, labels: Tensor, clusters: Tensor, draws_clusters: bool) -> None:
        """Count a batch: labels (B,) and clusters (B,), on the CPU."""
        first, *_ = every = labels.tolist()
        found = set(every)
        self.distinct.append(len(found))
        if draws_clusters:
            self.seeds.add(int(clusters[0]))
            self.impostors.update(found - {first})

    def report(self) -> dict[str, float]:
        """The mean number of distinct classes in a batch since the last report."""
        mean = sum(self.distinct) / max(len(self.distinct), 1)
        self.distinct = []
        return {"classes_per_batch": round(mean, 2)}

    def close_period(self, index: ClusterIndex) -> dict[str, object]:
        """The share of clusters that were seeds since the last refresh, and how often each class was an impostor."""
        coverage = len(self.seeds) / len(index)
        histogram = {str(label): count for label, count in sorted(self.impostors.items())}
        self.seeds, self.impostors = set(), Counter()
        return {"seed_coverage": round(coverage, 4), "impostor_classes": histogram}

    def state(self) -> Watched:
        """The counts so far as plain values, for a checkpoint."""
        return {"seeds": sorted(self.seeds), "impostors": sorted(self.impostors.items()), "distinct": self.distinct}

    def restore(self, state: Watched) -> None:
        """Continue from a saved `state`."""
        self.seeds, self.impostors = set(state["seeds"]), Counter(dict(state["impostors"]))
        self.distinct = list(state["distinct"])


class Logger(Protocol):
    """Gets every record of the journal."""

    def show(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """A record: train, refresh, validation or time, with its values."""

    def close(self) -> None:
        """Finish."""


def open_logger(name: str, folder: Path, settings: dict[str, Any], resume_at: int | None) -> Logger | None:
    """The logger of this name (`magnet.training.config.LOGGERS`) for a run; None for "none".

    A run that is resumed starts from the step ``resume_at``.
    """
    check_logger(name)
    if name == "none":
        return None
    if name == "tensorboard":
        return _Board(folder, resume_at)
    makers: dict[str, Callable[[Path], Any]] = {"wandb": _wandb, "mlflow": _mlflow}
    try:
        return _Sent(makers[name](folder), settings)
    except Exception as error:  # of any kind: theirs, or of the network
        raise UserError(f"--logger {name} cannot be opened: {error}") from error


class _Board:
    """TensorBoard's event files, in the run."""

    def __init__(self, folder: Path, resume_at: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        place = inside(folder, "tensorboard")
        self._writer = SummaryWriter(str(place), purge_step=None if resume_at is None else resume_at + 1)

    def show(self, kind: str, step: int, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(f"{kind}/{name}", value, step)
            elif name == "impostor_classes" and value:
                classes = np.repeat([int(c) for c in value], list(value.values()))
                self._writer.add_histogram(f"{kind}/{name}", classes, step, bins=len(value))

    def close(self) -> None:
        self._writer.close()


class _Sent:
    """A logger of Lightning."""

    def __init__(self, logger: Any, settings: dict[str, Any]) -> None:
        self._logger = logger
        logger.log_hyperparams(settings)

    def show(self, kind: str, step: int, values: dict[str, Any]) -> None:
        numbers = {f"{kind}/{name}": float(v) for name, v in values.items() if isinstance(v, int | float)}
        if numbers:
            self._logger.log_metrics(numbers, step)

    def close(self) -> None:
        self._logger.finalize("success")
        finish = getattr(self._logger.experiment, "finish", None)  # of Weights & Biases, which Lightning leaves open
        if finish is not None:
            finish()


def _wandb(folder: Path) -> Any:
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    return _lightning_loggers().WandbLogger(name=folder.resolve().name, project=project, save_dir=str(folder))


def _mlflow(folder: Path) -> Any:
    place = {"tracking_uri": os.environ.get("MLFLOW_TRACKING_URI", "")}
    if not place["tracking_uri"]:
        local = inside(folder, "mlflow").resolve()
        place["tracking_uri"] = f"sqlite:///{local / 'mlflow.db'}"
        place["artifact_location"] = (local / "artifacts").as_uri()
    project = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    return _lightning_loggers().MLFlowLogger(project, run_name=folder.resolve().name, **place)


def _lightning_loggers() -> Any:
    from magnet.backbones.timm import import_torchvision

    with suppress(ImportError):
        import_torchvision()  # Lightning imports it where it is installed, which would fail beside a CPU build of torch
    from lightning.pytorch import loggers

    return loggers
