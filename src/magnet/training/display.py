"""What a person sees while a run is under way: a live bar in a terminal, plain lines elsewhere."""

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Column


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
        self.console = console or Console()
        self.silent = silent
        self.title, self.total = title, total
        self.live = not quiet and not silent and self.console.is_terminal
        self._first: tuple[float, int] | None = None
        self._values: dict[str, Any] = {}
        if self.live:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", table_column=Column(no_wrap=True)),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self._task = self._progress.add_task(title, total=total, note="")

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
            self.console.print(text, highlight=False, soft_wrap=True, markup=False)

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
            self._progress.update(self._task, completed=step, note=self._line(step))

    def epoch(self, step: int) -> None:
        """Without a live bar, a line for each epoch says where the run is."""
        if not self.live and not self.silent:
            self.say(f"{self.title}  step {step}/{self.total}  {self._line(step)}")

    def _line(self, step: int) -> str:
        values = self._values
        start, first = self._first or (0.0, step)
        if step > first:
            values = values | {"steps/s": round((step - first) / max(time.monotonic() - start, 1e-9), 1)}
        return "  ".join(f"{name} {_short(value)}" for name, value in values.items() if value is not None)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
