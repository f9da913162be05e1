"""What commands share: parsing of options, text without control characters, tables, progress bars, evaluations."""

import ast
import dataclasses
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from magnet.errors import UserError, check_at_least, first_few, percent
from magnet.methods import RULE_NAMES
from magnet.training.config import check_model

if TYPE_CHECKING:
    from magnet.runs.run import Run
    from magnet.training.inputs import Report

T = TypeVar("T")
RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help="The run folder.")]
RunFolders = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="RUN [RUN ...]", help="Run folders.", help_behavior_hint="(one or more)"),
]
Inputs = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    tyro.conf.arg(
        metavar="INPUT ...",
        help="Photos, or folders of them with all that is in them; for a run on vectors .npy, .npz with X, "
        ".csv, .tsv or .parquet, a row for each vector.",
        help_behavior_hint="(one or more)",
    ),
]


def read_options(kind: type[T], command: str, description: str, arguments: Sequence[str], **more: Any) -> T:
    """Parse the options of a command; ``--help`` prints the description with examples."""
    read: T = tyro.cli(kind, prog=f"magnet {command}", description=description, args=list(arguments), **more)
    return read


def read_grouped(
    kind: type[T], command: str, description: str, arguments: Sequence[str], default: Any, groups: dict[str, Any]
) -> T:
    """Like `read_options`, for a dataclass with many options: ``--help`` shows them in groups.

    Args:
        groups: names of fields by the name of their group. The group with no names gets all other fields.
    """
    hints, texts = get_type_hints(kind, include_extras=True), _docstrings(kind)
    named = {name for names in groups.values() for name in names}
    rest = tuple(field.name for field in dataclasses.fields(cast(Any, kind)) if field.name not in named)
    parts: list[tuple[str, Any, Any]] = []
    for group, names in groups.items():
        fields = []
        for name in names or rest:
            if name in hints:
                told = cast(Any, Annotated)[hints[name], tyro.conf.arg(help=texts.get(name, ""))]
                fields.append((name, told, dataclasses.field(default=getattr(default, name))))
        part = dataclasses.make_dataclass(group.capitalize(), fields, frozen=True)
        parts.append((group, part, dataclasses.field(default_factory=part)))
    whole = dataclasses.make_dataclass("Options", parts, frozen=True)
    read: Any = read_options(whole, command, description, arguments, config=(tyro.conf.OmitArgPrefixes,))
    return kind(**{name: value for part in vars(read).values() for name, value in vars(part).items()})


def _docstrings(kind: type) -> dict[str, str]:
    """The docstring of each field of a dataclass and of its base classes."""
    found: dict[str, str] = {}
    for owner in reversed([owner for owner in kind.__mro__ if dataclasses.is_dataclass(owner)]):
        (tree,) = ast.parse(inspect.cleandoc(inspect.getsource(owner))).body
        body = cast(ast.ClassDef, tree).body
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return found


@dataclass(frozen=True, kw_only=True)
class Question:
    """The options of a command that asks a run, or an exported folder, about photos or vectors."""

    run: RunFolder
    inputs: Inputs
    dims: int = 0
    """Shorter representations: so many dimensions, those that tell classes apart first (0: all)."""
    json: bool = False
    """Print JSON."""

    def check(self) -> None:
        """Refuse wrong options before anything is loaded."""
        check_at_least("dims", self.dims, 0)
        check_model(self.run)
        check_inputs(self.inputs)


def check_inputs(paths: Iterable[Path]) -> None:
    """Refuse photos, folders or files that do not exist."""
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist")


def given_options(arguments: Sequence[str]) -> set[str]:
    """The names of the options in the arguments, as in Python, including switches that are turned off.

    >>> sorted(given_options(["--data", "digits", "--learning-rate=0.1", "--no-quiet"]))
    ['data', 'learning_rate', 'quiet']
    """
    names = {word.split("=")[0].removeprefix("--").replace("-", "_") for word in arguments if word.startswith("--")}
    return {name.removeprefix("no_") for name in names}


def short_name(data: str) -> str:
    """A short name of the data that --data names, for folders of results.

    >>> short_name("pets:sets/oxford-pets")
    'oxford-pets'
    """
    return Path(data.split(":")[-1]).stem or "data"


def plain(words: object, style: str = "") -> Text:
    """Text from outside, such as names of classes and files, without markup and control characters."""
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(words)), style=style)


def line_console(*, stderr: bool = False) -> Console:
    """A console that wraps long lines between words on a terminal, and leaves them whole in a file or a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, soft_wrap=not stream.isatty())


def say_notes(notes: Iterable[str]) -> None:
    """Print notes on the results to standard error, one a line."""
    console = line_console(stderr=True)
    for note in notes:
        if note:
            console.print(plain(f"note: {note}", "yellow"))


def table(*columns: str, right: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> Table:
    """A table without lines. The columns ``right`` are right-aligned; these and the ``whole`` ones never wrap."""
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
def progress(what: str) -> "Iterator[Report]":
    """Show a progress bar on standard error, if that is a terminal."""
    console = Console(stderr=True)
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(what)

    def report(done: int, total: int) -> None:
        if done < total:  # no bar for a single batch
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        bar.stop()


@contextmanager
def open_run(folder: Path, what: str = "embedding", **options: Any) -> "Iterator[Run]":
    """Open a run, print its notes, and show a progress bar for as long as the block works with it."""
    from magnet.runs.run import Run

    with progress(what) as report:
        run = Run(folder, report=report, **options)
        say_notes(run.notes)
        yield run


def show_evaluation(result: dict[str, Any], console: Console) -> None:
    """Print the result of an evaluation."""
    console.print(
        plain(f"{result['n']} examples of {result['data']} ({result['split']})", "bold"),
        plain(f"  {result['method']}, {result['checkpoint']}, {result['run']}", "dim"),
        sep="\n",
    )
    if result["seen"]:
        console.print(
            f"  {result['seen']} of them are training examples, which the classifiers are made of", style="yellow"
        )
    if result["left_out"]:
        names = first_few(result["unknown"])
        note = f"  {result['left_out']} more were left out: their classes are unknown to the run ({names})"
        console.print(plain(note, "yellow"))
    columns = {"error": "error", "error@5": "error@5", "ECE": "ece", "calibrated": "ece_calibrated"}
    several = result["views"] > 1
    errors = table("", *columns, *(["plain view"] * several), right=(*columns, "plain view"))
    for key, name in RULE_NAMES.items():
        if key in result:
            judged = "bold" if key == result["rule"] else ""  # the rule that the method is judged by
            shown = [result[key][n] for n in columns.values()] + [result["plain"][key]["error"]] * several
            errors.add_row(name, *(percent(value) for value in shown), style=judged)
    console.print("", errors, "", sep="\n")
    if several:
        console.print(
            f"Errors are of the mean of {result['views']} test views of each image. Plain view: of the centre alone, "
            "as the explorer and an ONNX file see it.\n"
        )
    found = result["retrieval"]
    console.print(f"Among themselves: recall@1 {percent(found['recall@1'])}, MAP@R {percent(found['map@r'])}")
    _show_pairs(result["verification"], console)
    if "judge" in result:
        judged = result["judge"]
        errors_of = " and ".join(f"{percent(judged[key]['error'])} by {RULE_NAMES[key]}" for key in ("knc", "knn"))
        what = f"{judged['classes']} other labels ({judged['labels']}), which were not trained on"
        console.print(plain(f"Judged by {what}: error {errors_of}\n"))
    if not result["worst"]:
        console.print("No example gets a wrong label.")
        return
    worst = table("worst classes", "error", "of", "taken for", right=("error", "of"), whole=("worst classes",))
    for row in result["worst"]:
        taken = ", ".join(f"{mistake['class']} ({mistake['n']})" for mistake in row["taken_for"])
        worst.add_row(plain(row["class"]), percent(row["error"]), str(row["n"]), plain(taken))
    console.print(worst)


def _show_pairs(found: dict[str, Any], console: Console) -> None:
    """Print how well distances tell pairs of the same class from other pairs."""
    if not found:
        return
    console.print(
        f"Pairs: area under the ROC curve {percent(found['auc'])}, equal error {percent(found['equal_error'])}\n"
    )
    columns = ("false accepts", "pairs of a class recognised", "below, in sigma")
    rates = table(*columns, right=columns)
    for row in found["at"]:
        rates.add_row(percent(row["rate"]), percent(row["true_accept"]), f"{row['threshold']:.2f}")
    if found["at"]:  # empty if there are too few pairs to measure rare mistakes
        console.print(rates, "")
