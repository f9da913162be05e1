"""magnet reproduce."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import tyro

from magnet.commands.terminal import given_options, read_grouped, read_options, say_notes, short_name
from magnet.commands.train import GROUPS, check_settings, check_used, preset_defaults, read_deciding
from magnet.errors import UserError, did_you_mean
from magnet.methods import check_method
from magnet.training.config import TrainConfig
from magnet.training.presets import start_note

EXPERIMENTS = {
    "fine-grained": "test error of every method, settings chosen by an equal search (tables a to d)",
    "metrics": "every method under soft kNN and under kNC (figure e)",
    "hierarchy": "error on hidden classes after training on merged ones (table f)",
    "dynamics": "error against iterations, and who is there first (training curves)",
    "attributes": "how many neighbours share an attribute (attribute concentration)",
    "maps": "t-SNE maps with densities, centres, exemplars, an attribute, and thumbnails",
    "leaderboard": "every method with the same start: classes, merged pairs and hidden classes, beside linear models",
    "unseen": "retrieval among classes never trained on: half of the classes train, the others are searched",
    "coarse-to-fine": "error on fine classes after training on coarse ones (columns, folders, Pets, CUB, CIFAR-100)",
    "suspects": "planted wrong labels: how many are found, beside cleanlab",
    "estimator": "MagnetClassifier without settings beside a tuned logistic regression; novelty, new classes, pairs",
    "first-model": "photographs: error and processor time with a frozen trunk, and of training the whole network",
    "ablations": "alpha, K, M against D, L, refreshes, scaling, sampling, warm start",
    "tables": "MagnetClassifier on ten small tables, beside classifiers of scikit-learn (needs no --data)",
}
WITHOUT_DATA = ("tables",)  # experiments with data of their own
TRAINED = {field.name for field in dataclasses.fields(TrainConfig)}
TABLES_HELP = """Cross-validate MagnetClassifier on ten small tables, beside classifiers of scikit-learn.

Four come with scikit-learn, the others are drawn: nothing is downloaded. Every classifier chooses its settings inside
the training folds.

examples:
  magnet reproduce tables
  magnet reproduce tables --seeds 3 --out results/tables
  magnet reproduce tables --tables iris wine mine.npz
"""
HELP = """Regenerate a table or figure of the paper on your data: EXPERIMENT is one of

{list}
  all            one after the other, on your data

Each method's settings are chosen by the same number of random trials, judged on held-out training data; a linear map
is tried with dropout too. What you give yourself (any option of `magnet train`) holds for all methods and is not
searched. Runs are kept by configuration under OUT/runs, so the same command goes on where it was stopped, and
experiments share what they have in common.

examples:
  magnet reproduce fine-grained --data features.npz --out results/features
  magnet reproduce hierarchy --data features.npz --out results/features --seeds 5
  magnet reproduce all --data digits --out results/digits
  magnet reproduce tables
""".format(list="\n".join(f"  {name:<14} {text}" for name, text in EXPERIMENTS.items()))


@dataclass(frozen=True)
class ReproduceOptions(TrainConfig):
    """Regenerate a table or figure."""

    out: Path | None = None
    """Folder of the results (default: results/DATA); each experiment has a folder of its own in it."""
    seeds: int = 3
    """Runs with each method's chosen settings."""
    pairings: int = 5
    """Random pairings of classes in the hierarchy experiment."""
    trials: int = 16
    """Settings tried for each method before choosing."""
    settings: Path | None = None
    """results.json of an experiment whose chosen settings to take instead of searching."""
    against: Path | None = None
    """results.json of the same experiment, made before: tell which figures agree with it within their spread."""
    methods: tuple[str, ...] = ()
    """What to compare with magnet, which must be among them (default: softmax, triplet, semantic-triplet, magnet).
    A row may have settings of its own: --methods softmax magnet "magnet(own_mean=batch,schedule=annealing)"."""
    linear: bool = True
    """Leaderboard and estimator: also logistic regression (and linear discriminants, class means); slow where classes
    are many."""
    groups: bool = True
    """Hierarchy: also merge classes into the groups that they belong to, where these are known."""
    peers: bool = False
    """Compare with losses of pytorch-metric-learning too: Proxy-Anchor, SoftTriple, SupCon, Multi-Similarity, ArcFace,
    Proxy-NCA."""


@dataclass(frozen=True)
class TablesOptions:
    """The options of `magnet reproduce tables`."""

    out: Path = Path("results") / "tables"
    """Folder of the results."""
    tables: tuple[str, ...] = ()
    """Which tables: names of the ten, or files of vectors and labels of your own (default: the ten)."""
    seeds: int = 1
    """How often tables are drawn and divided into folds."""
    seed: int = 0
    """The first of them."""
    against: Path | None = None
    """results.json made before: tell which figures agree with it within their spread."""


def main(arguments: Sequence[str]) -> None:
    """Run experiments, print their tables, write their figures and results."""
    wanted, words = _wanted(arguments)
    if wanted == ["tables"]:
        _cross_validate(words)
        return
    given_first = read_deciding("reproduce", words)
    start = preset_defaults(given_first, "magnet")
    default = ReproduceOptions(**vars(start) | {"data": start.data or tyro.MISSING})
    own = tuple(field.name for field in dataclasses.fields(ReproduceOptions) if field.name not in TRAINED)
    options = read_grouped(ReproduceOptions, "reproduce EXPERIMENT", HELP, words, default, {"experiment": own} | GROUPS)
    if "method" in given_options(words):
        raise UserError("reproduce compares several methods: give them as --methods, such as --methods softmax magnet")
    if options.against and len(wanted) > 1:
        raise UserError("--against compares one experiment with its earlier results: name the experiment, not all")
    check_settings(options)
    for row in options.methods:
        check_method(row if row.startswith("pml/") else row.partition("(")[0])
    for flag, file in (("--settings", options.settings), ("--against", options.against)):
        if file is not None and not file.is_file():
            raise UserError(f"{flag} must be the results.json of an experiment; {file} does not exist")
    settings = TRAINED - {"method", "out", "data", "preset"}
    given = {name: getattr(options, name) for name in sorted(settings & given_options(words))}

    def configure(row: str) -> TrainConfig:
        method, own = read_row(row)
        start = preset_defaults(given_first, method, str(own.get("start", "")))
        return dataclasses.replace(start, **given | {"out": None} | own)

    from rich.console import Console

    from magnet.experiments.cache import other_data_note
    from magnet.experiments.lab import Lab, methods_of, read_row
    from magnet.experiments.outcome import read_values

    console = Console()
    before = read_values(options.against, wanted[0]) if options.against else None
    for row in options.methods:  # before any work: a row's own settings must make sense
        config = configure(row)
        config.check()
        begun = f"(start={config.start})" if config.start == "random" else ""
        check_used(config, configure(config.method + begun))
    say_notes([start_note(configure("magnet"))])
    folder = options.out or Path("results") / short_name(options.data)
    for name in wanted:
        lab = Lab(
            configure, folder / name, fixed=frozenset(given), seeds=options.seeds, pairings=options.pairings,
            methods=methods_of(name, options.methods, peers=options.peers), trials=options.trials,
            settings=options.settings, linear=options.linear, groups=options.groups,
            console=console,
        )  # fmt: skip
        try:
            if name == wanted[0]:
                say_notes([other_data_note(lab.runs, lab.data)])
            _reproduce(name, lab, console, before)
        except UserError as error:
            if len(wanted) == 1:
                raise
            console.print(f"{name} is left out: {error}\n", highlight=False, markup=False)


def _reproduce(name: str, lab: Any, console: Any, before: dict[str, Any] | None) -> None:
    console.print(f"[bold]{name}[/] on {lab.data.name}: {EXPERIMENTS[name]}")
    lab.out.mkdir(parents=True, exist_ok=True)
    try:
        outcome = import_module(f"magnet.experiments.{name.replace('-', '_')}").run(lab)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped during {name}; the same command goes on from there") from None
    _show(outcome, lab.out, {"experiment": name, **lab.about()}, console, before)


def _cross_validate(words: Sequence[str]) -> None:
    """The tables, which have data of their own and train no runs."""
    options = read_options(TablesOptions, "reproduce tables", TABLES_HELP, words)
    if options.against and not options.against.is_file():
        raise UserError(f"--against must be the results.json of an experiment; {options.against} does not exist")

    from rich.console import Console

    from magnet.experiments import tables
    from magnet.experiments.outcome import read_values

    console = Console()
    before = read_values(options.against, "tables") if options.against else None
    outcome = tables.run(console, tables=options.tables, repeats=options.seeds, seed=options.seed)
    about = {"experiment": "tables", "data": list(outcome.values), "seeds": options.seeds, "seed": options.seed}
    _show(outcome, options.out, about, console, before)


def _show(outcome: Any, folder: Path, about: dict[str, Any], console: Any, before: dict[str, Any] | None) -> None:
    for table in outcome.tables:
        console.print()
        console.print(table.rich())
    if before is not None:
        from magnet.experiments.outcome import agreement

        table = agreement(before, outcome.values)
        console.print()
        console.print(table.rich() if table.rows else table.title)
    path = outcome.save(folder, about)
    pictures = "".join(f", {figure.name}" for figure in outcome.figures)
    console.print(f"\nwritten: {path}{pictures}\n", highlight=False, soft_wrap=True)


def _wanted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    if not arguments or arguments[0] in ("-h", "--help"):
        return [], ["--help"]
    name, *words = arguments
    if name == "all":
        return [name for name in EXPERIMENTS if name not in WITHOUT_DATA], words
    if name not in EXPERIMENTS:
        hint = did_you_mean(name, [*EXPERIMENTS, "all"])
        raise UserError(
            f"there is no experiment {name!r}{hint} There are: {', '.join(EXPERIMENTS)}, all. "
            "Example: magnet reproduce fine-grained --data features.npz"
        )
    return [name], words
