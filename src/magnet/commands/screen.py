"""What commands show people: text that cannot act on the terminal, and progress beside the results."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

Report = Callable[[int, int], None]


def plain(words: object, style: str = "") -> Text:
    """Text from outside (names of classes and files) as it is: no markup, and no control characters."""
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(words)), style=style)


def percent(share: float | None) -> str:
    """A fraction for people."""
    return "-" if share is None else f"{100 * share:.1f} %"


def say_notes(notes: Iterable[str]) -> None:
    """What must be known of the results, a line each, on standard error beside them."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for note in notes:
        if note:
            console.print(plain(f"note: {note}", "yellow"))


def table(*columns: str, right: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> Table:
    """A light table. The columns ``right`` hold numbers; those and the ``whole`` ones are never broken."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name in right or name in whole,
            overflow="ellipsis" if name in whole else "fold",
        )
    return made


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """A bar on standard error while a pass over examples is under way; nothing where nobody looks."""
    console = Console(stderr=True)
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(what)

    def report(done: int, total: int) -> None:
        if done < total:  # a pass that is over at once shows nothing
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        bar.stop()
