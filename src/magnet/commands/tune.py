"""magnet tune."""

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from magnet.commands.options import given_options, read_options, short_name, value_of
from magnet.commands.train import check_used, settings_of
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset

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
    start = TuneOptions(
        data=value_of("--data", arguments, ""),
        method=value_of("--method", arguments, "magnet"),
        preset=value_of("--preset", arguments, "auto"),
    )
    # The annealing factor is searched as in the paper, whatever the schedule of the preset, unless cosine is asked for.
    default = dataclasses.replace(with_preset(start), data=start.data or tyro.MISSING, schedule="annealing")
    options = read_options(TuneOptions, "tune", HELP, arguments, default=default)
    check_used(options, default)
    folder = options.out or Path("searches") / f"{short_name(options.data)}-{options.method}-{options.seed}"

    from rich.console import Console

    from magnet.commands.screen import progress
    from magnet.commands.tune_report import Lines, tell
    from magnet.training.search import Search, tune

    search = Search(
        settings_of(options), folder, options.trials, options.jobs, options.sampler,
        frozenset(given_options(arguments)), options.keep,
    )  # fmt: skip
    console = Console()
    lines = Lines(search, console)
    with progress("trials") if options.jobs > 1 and not options.quiet else nullcontext() as bar:
        study = tune(search, report=lambda study: lines.show(study, bar), console=console)
    tell(search, study, short_name(options.data), console)
