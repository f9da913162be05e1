"""magnet data."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro
from rich.console import Console

from magnet.commands.terminal import plain, read_options, table
from magnet.data import SOURCES
from magnet.data.sources import find_source
from magnet.errors import UserError, did_you_mean, first_few

if TYPE_CHECKING:
    from magnet.data import Dataset

HELP = """usage: magnet data                        list the benchmark sets
       magnet data look SPEC              what is in a folder, a table, an .npz or a benchmark set
       magnet data fetch NAME --to FOLDER download a benchmark set, checked and unpacked

examples:
  magnet data look photos/
  magnet data look pets:oxford-iiit-pet
  magnet data fetch flowers --to flowers && magnet train --data flowers:flowers"""


@dataclass(frozen=True)
class Look:
    """The options of `magnet data look`."""

    spec: tyro.conf.Positional[str]
    """What to look at, written as for --data of `magnet train`."""
    label: str = ""
    """The column of the labels, as for `magnet train`."""
    judge: str = ""
    """The column of other labels to judge by."""
    seed: int = 0
    """Of the split, where the data has none of its own."""
    validation: float = 0.0
    """Fraction of the training part kept for validation."""
    bad_images: Literal["error", "skip"] = "skip"
    """skip: decode all images once and list those that cannot be read; error: do not decode."""


@dataclass(frozen=True)
class Fetch:
    """The options of `magnet data fetch`."""

    name: tyro.conf.Positional[str]
    """A benchmark set."""
    to: Path
    """The folder to put it in."""


def main(arguments: Sequence[str]) -> None:
    """List, look or fetch."""
    if not arguments:
        _list(Console(highlight=False))
    elif arguments[0] in ("-h", "--help", "help"):
        print(HELP)
    elif arguments[0] == "look":
        look(read_options(Look, "data look", "What is in a data set.", arguments[1:]), Console(highlight=False))
    elif arguments[0] == "fetch":
        _fetch(read_options(Fetch, "data fetch", "Download a benchmark set.", arguments[1:]))
    else:
        hint = did_you_mean(arguments[0], ("look", "fetch"))
        raise UserError(f"magnet data does not know {arguments[0]!r}{hint} It knows look and fetch")


def _list(console: Console) -> None:
    sets = table("set", "classes", "examples", "what", right=("classes", "examples"), whole=("set",))
    for source in SOURCES.values():
        what = plain(source.title, f"link {source.url}").append(f"\nlicence: {source.licence}", "dim")
        sets.add_row(plain(source.name), f"{source.classes:,}", f"{source.images:,}", what)
    console.print(sets)
    console.print(
        "\nUse one as --data NAME:FOLDER, or --data digits.\n"
        "Download one: magnet data fetch NAME --to FOLDER. See what is in one: magnet data look SPEC."
    )


def look(options: Look, console: Console) -> None:
    """Tell what is in a data set."""
    find_source(options.spec, label=options.label, judge=options.judge)

    from magnet.data import open_data

    data = open_data(
        options.spec, label=options.label, judge=options.judge, seed=options.seed, validation=options.validation,
        on_bad_image=options.bad_images,
    )  # fmt: skip
    facts = table("", "", whole=())
    facts.show_header = False
    for name, value in _facts(data).items():
        facts.add_row(name, plain(value))
    console.print(plain(data.name, "bold"), facts, sep="\n")
    for note in data.notes:
        console.print(plain(f"  {note}", "yellow"))
    for path, reason in data.skipped[:10]:
        console.print(plain(f"  cannot be read: {path}: {reason}", "yellow"))


def _facts(data: "Dataset") -> dict[str, str]:
    counts = data.labels.bincount(minlength=len(data.classes))
    small, large = int(counts.argmin()), int(counts.argmax())
    parts = {part: len(data.indices(part)) for part in ("train", "validation", "test")}
    size = f" of {data.shape[0]:,} numbers" if data.kind == "vectors" else ""
    facts = {
        "examples": f"{len(data):,} {data.kind}{size}",
        "classes": f"{len(data.classes):,}: {first_few(data.classes, 5)}",
        "smallest class": f"{data.classes[small]}, {int(counts[small]):,}",
        "largest class": f"{data.classes[large]}, {int(counts[large]):,}",
        "split": ", ".join(f"{count:,} {part}" for part, count in parts.items()),
    }
    if data.fine_classes is not None:
        facts["judged by"] = f"{len(data.fine_classes):,}: {first_few(data.fine_classes, 5)}"
    if data.attributes is not None:
        names = data.attributes.names
        facts["attributes"] = f"{len(names)} by {data.attributes.level}: {first_few(names)}"
    if data.skipped:
        facts["skipped"] = f"{len(data.skipped)} files that cannot be read as images"
    return facts


def _fetch(options: Fetch) -> None:
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    from magnet.data.fetch import fetch

    columns = (TextColumn("{task.description}"), BarColumn(20), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    tasks: dict[str, TaskID] = {}

    def told(file: str, done: int, total: int) -> None:
        if not tasks:
            bar.start()
        if file not in tasks:
            tasks[file] = bar.add_task(file)
        bar.update(tasks[file], completed=done, total=total or None)

    try:
        folder = fetch(options.name, options.to, told)
    finally:
        if tasks:
            bar.stop()
    print(f"{options.name} is in {folder}: use it as --data {options.name}:{folder}")
