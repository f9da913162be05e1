"""magnet tune."""

import dataclasses
import shlex
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro
from rich.console import Console

from magnet.commands.terminal import given_options, progress, read_grouped, short_name, table
from magnet.commands.train import GROUPS, check_settings, check_used, config_of, preset_defaults, read_deciding
from magnet.errors import flag, percent
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset

if TYPE_CHECKING:
    from magnet.training.search import Search, Study

HELP = """Search for settings at random, as the paper does, judged on validation data; the test part is not looked at.

Magnet: learning rate, annealing, gap, scaling, clusters per batch and examples per cluster (at most 48 examples),
clusters per class. Triplet: learning rate, annealing, gap, impostor fraction, neighbourhood size. Others: learning
rate, annealing and, for contrastive, the margin. What you give yourself is not varied. The same command goes on with
a search that was stopped or should be longer; started twice, both work on it together.

examples:
  magnet tune --data features.npz --trials 40 --epochs 10
  magnet tune --data photos/ --method triplet --backbone convnet --jobs 2 --out searches/triplet
  magnet tune --data digits --learning-rate 0.01 --sampler tpe
"""


# As the paper's appendix calls them, and in short.
TITLES = {
    "learning_rate": ("Learning rate", "Rate"),
    "annealing": ("Annealing factor", "Annealing"),
    "alpha": ("Gap", "Gap"),
    "scaling": ("Global scaling", "Scaling"),
    "clusters_per_class": ("Clusters/class", "K"),
    "clusters_per_batch": ("Clusters/batch", "M"),
    "examples_per_cluster": ("Examples/cluster", "D"),
    "impostor_fraction": ("Nearest impostor fraction", "Fraction"),
    "neighbours": ("Neighbourhood size", "L"),
}


@dataclass(frozen=True)
class TuneOptions(TrainConfig):
    """Search for settings."""

    out: Path | None = None
    """Folder of the search (default: searches/DATA-METHOD-SEED)."""
    trials: int = 20
    """How many settings to try, in all."""
    jobs: int = 1
    """Processes that try settings side by side."""
    sampler: Literal["random", "tpe"] = "random"
    """random, as in the paper, or tpe, which looks where earlier trials did well."""
    keep: bool = False
    """Keep the weights of all trials, not of the best alone."""


def main(arguments: Sequence[str]) -> None:
    """Search, then say what was found and how to use it."""
    start = preset_defaults(read_deciding("tune", arguments))
    # As in the paper, the annealing factor is searched even if the preset has a cosine schedule, unless that is given.
    default = TuneOptions(**vars(start) | {"data": start.data or tyro.MISSING, "schedule": "annealing"})
    groups = GROUPS | {"search": ("trials", "jobs", "sampler", "keep")}
    options = read_grouped(TuneOptions, "tune", HELP, arguments, default, groups)
    check_settings(options)
    check_used(options, default)
    folder = options.out or Path("searches") / f"{short_name(options.data)}-{options.method}-{options.seed}"

    from magnet.training.search import Search, tune

    search = Search(
        config_of(options), folder, options.trials, options.jobs, options.sampler,
        frozenset(given_options(arguments)), options.keep,
    )  # fmt: skip
    console = Console()
    lines = Lines(search, console)
    with progress("trials") if options.jobs > 1 and not options.quiet else nullcontext() as bar:
        study = tune(search, report=lambda study: lines.show(study, bar), console=console)
    tell(search, study, short_name(options.data), console)


class Lines:
    """Prints a line for every trial that has ended since the last call; the first call sums up earlier trials."""

    def __init__(self, search: "Search", console: Console) -> None:
        self.search, self.console = search, console
        self.shown: set[int] | None = None

    def show(self, study: "Study", bar: Callable[[int, int], None] | None) -> None:
        """Print the news of the study."""
        from magnet.training.search import settings_of

        ended, ranked = study.ended(), study.ranked()
        best = f"best {percent(ranked[0].value)}" if ranked else ""
        if self.shown is None and ended:
            self._say(f"going on after {len(ended)} trials  {best}")
        elif self.shown is not None:
            for trial in ended:
                if trial.number not in self.shown:
                    values = [f"{TITLES[k][1]} {v:g}" for k, v in settings_of(trial.params).items()]
                    error = "failed" if trial.value is None else f"error {percent(trial.value)}"
                    self._say("  ".join([f"trial {trial.number}", error, best, *values]))
        self.shown = {trial.number for trial in ended}
        if bar is not None:
            bar(len(ended), self.search.trials)

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=not self.console.is_terminal)


def tell(search: "Search", study: "Study", data: str, console: Console) -> None:
    """Print the best five trials, the best settings as in the paper's table, and the command that trains with them."""
    from magnet.training.search import settings_of

    ranked = [(trial, settings_of(trial.params)) for trial in study.ranked()[:5]]
    winner, settings = ranked[0]
    short = [TITLES[name][1] for name in settings]
    best = table("Trial", "Error", *short, right=("Trial", "Error", *short))
    for trial, values in ranked:
        best.add_row(str(trial.number), percent(trial.value), *(f"{values[name]:g}" for name in settings))
    chosen = table("Model", "Hyperparameter", data, right=(data,))
    for i, (name, value) in enumerate(settings.items()):
        chosen.add_row("" if i else search.config.method.capitalize(), TITLES[name][0], f"{value:g}")
    config = final_config(search, settings)
    config.save(search.folder / "best.yaml")
    failed = sum(trial.value is None for trial in study.ended())
    console.print(f"\n{len(study.ended())} trials, {failed} failed. The best, by validation error:\n", highlight=False)
    console.print(best, "", chosen, "", sep="\n")
    print(f"All settings: {search.folder / 'best.yaml'}")
    print(f"The run of the best trial: {search.run_folder(winner.number)}")
    print(f"To train with them:\n{command_of(config)}")


def final_config(search: "Search", settings: dict[str, Any]) -> TrainConfig:
    """The configuration of the final training: on all training data, unless a validation part is given or needed."""
    keeps = search.config.validation or search.config.patience
    validation = search.base.validation if keeps else 0.0
    return dataclasses.replace(search.config, out=search.folder / "final", validation=validation, **settings)


def command_of(config: TrainConfig) -> str:
    """The command line of `magnet train` that gives this configuration."""
    default = with_preset(TrainConfig(config.data, method=config.method, preset=config.preset)).to_dict()
    words = ["magnet", "train", "--data", config.data, "--method", config.method, "--preset", config.preset]
    for name, value in config.to_dict().items():
        if name not in ("data", "method", "preset") and value != default[name]:
            switch = [flag(name if value else f"no_{name}")]
            words += switch if isinstance(value, bool) else [flag(name), str(value)]
    return shlex.join(words)
