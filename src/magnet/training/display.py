"""What a person sees of a run: a live bar or plain lines, and numbers that reveal a broken run."""

import os
import sys
import time
from collections import Counter
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Column
from torch import Tensor

from magnet.errors import visible
from magnet.index import ClusterIndex
from magnet.training.checkpoint import Watched


class SteadyConsole(Console):
    """A console whose reader may go away (`magnet train | head`): then it is silent, and the training goes on."""

    def on_broken_pipe(self) -> None:
        """Write to nowhere from now on."""
        self.quiet = True
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Display:
    """Progress of a run. With ``quiet``, without a terminal, or on a rank other than 0: no live bar.

    Args:
        title: what is being trained.
        total: steps in all.
        quiet: plain lines instead of the bar.
        silent: nothing at all (other ranks, or a caller that shows progress itself).
        console: where to write.
    """

    def __init__(
        self, title: str, total: int = 0, *, quiet: bool = False, silent: bool = False, console: Console | None = None
    ) -> None:
        self.console = console or SteadyConsole()
        self.silent = silent
        self.title, self.total = title, total
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
            self._task = self._progress.add_task(title, total=total or None, note="")

    def __enter__(self) -> Self:
        if self.live:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self._progress.stop()

    def set_total(self, total: int) -> None:
        """How many steps there will be."""
        self.total = total
        if self.live:
            self._progress.update(self._task, total=total)

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.silent:
            self.console.print(visible(text), highlight=False, soft_wrap=not self.console.is_terminal, markup=False)

    def busy(self, what: str, done: int = 0, total: int = 0) -> None:
        """Say what is going on between steps."""
        if self.live:
            share = f" {done}/{total}" if total else ""
            self._progress.update(self._task, note=f"[dim]{what}{share}[/]")

    def step(self, step: int, values: dict[str, Any]) -> None:
        """Show the newest numbers."""
        self._values = values
        if self._first is None:
            self._first = time.monotonic(), step
        if self.live:
            self._progress.update(self._task, completed=step, note=self._short_line(step))

    def epoch(self, step: int) -> None:
        """Without a live bar, a line for each epoch says where the run is."""
        if not self.live and not self.silent:
            self.say(f"{self.title}  step {step}/{self.total}  {self._line(step)}")

    def _line(self, step: int) -> str:
        values = {name: self._values[name] for name in sorted(self._values, key=lambda name: name != "error")}
        start, first = self._first or (0.0, step)
        if step > first:
            values = values | {"steps/s": round((step - first) / max(time.monotonic() - start, 1e-9), 1)}
        return "  ".join(f"{name} {_short(value)}" for name, value in values.items() if value is not None)

    def _short_line(self, step: int) -> str:
        """As many of the numbers, the error first, as leave room for the bar, the steps and the time beside them."""
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
    """The fraction of examples that left their cluster between two assignments (N,), whatever the ids are now.

    Each new cluster is taken as the continuation of the old one that most of its members come from.
    """
    old = int(before.max()) + 1
    pairs = (after * old).add_(before).numpy()
    pairs.sort()  # in place: `torch.unique` of pairs takes many times their memory
    first = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]]))
    stayed = np.zeros(int(after.max()) + 1, np.int64)
    np.maximum.at(stayed, pairs[first] // old, np.diff(first, append=len(pairs)))
    return 1 - int(stayed.sum()) / len(after)


class BatchWatch:
    """Collects what batches look like between two looks at it."""

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels
        self.seeds: set[int] = set()
        self.impostors: Counter[int] = Counter()
        self.distinct: list[int] = []

    def see(self, labels: Tensor, clusters: Tensor, draws_clusters: bool) -> None:
        """Take note of a batch: labels (B,) and clusters (B,), on the CPU."""
        first, *_ = every = labels.tolist()
        found = set(every)
        self.distinct.append(len(found))
        if draws_clusters:
            self.seeds.add(int(clusters[0]))
            self.impostors.update(found - {first})

    def report(self) -> dict[str, float]:
        """Distinct classes in a batch, on average since the last report."""
        mean = sum(self.distinct) / max(len(self.distinct), 1)
        self.distinct = []
        return {"classes_per_batch": round(mean, 2)}

    def close_period(self, index: ClusterIndex) -> dict[str, object]:
        """Between two refreshes: the share of clusters that were seeds, and how often classes were impostors."""
        coverage = len(self.seeds) / len(index)
        histogram = {str(label): count for label, count in sorted(self.impostors.items())}
        self.seeds, self.impostors = set(), Counter()
        return {"seed_coverage": round(coverage, 4), "impostor_classes": histogram}

    def state(self) -> Watched:
        """What has been seen since the last looks, as plain values."""
        return {"seeds": sorted(self.seeds), "impostors": sorted(self.impostors.items()), "distinct": self.distinct}

    def restore(self, state: Watched) -> None:
        """Go on from a saved `state`."""
        self.seeds, self.impostors = set(state["seeds"]), Counter(dict(state["impostors"]))
        self.distinct = list(state["distinct"])
