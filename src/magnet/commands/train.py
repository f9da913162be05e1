"""magnet train."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from magnet.commands.terminal import given_options, read_options, say_notes, value_of
from magnet.errors import UserError
from magnet.training.config import TrainConfig, start_note, with_preset

HELP = """Train a representation on labelled images or vectors.

Defaults follow the preset, which is chosen by the data unless you name one; what you give yourself goes first.

examples:
  magnet train --data photos/ --out runs/photos
  magnet train --data features.npz --method triplet --seed 1
  magnet train --data pets:oxford-iiit-pet --preset paper/pets --weights googlenet.pth
  magnet train --resume runs/photos
  torchrun --nproc-per-node 2 -m magnet train --data photos/ --out runs/photos
"""


@dataclass(frozen=True)
class TrainOptions(TrainConfig):
    """The options of `magnet train`."""

    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run, which keeps its settings."""


def main(arguments: Sequence[str]) -> None:
    """Train or resume, then evaluate."""
    given = given_options(arguments)
    run = value_of("--resume", arguments)
    if "resume" in given and (not run or run.startswith("--")):
        raise UserError("--resume needs the folder of a run, as in: magnet train --resume runs/photos")
    start = preset_defaults(arguments)
    default = TrainOptions(**vars(start) | {"data": start.data or ("" if "resume" in given else tyro.MISSING)})
    options = read_options(TrainOptions, "train", HELP, arguments, default=default)
    if options.resume is not None:
        others = sorted(given - {"resume", "quiet"})
        if others:
            words = " ".join(f"--{name.replace('_', '-')}" for name in others)
            raise UserError(f"--resume goes on with the settings of the run: leave out {words}")
        _resume(options.resume, options.quiet)
        return
    check_used(options, default)

    from magnet.training.train import train

    config = config_of(options)
    if int(os.environ.get("RANK", "0")) == 0:
        say_notes([start_note(config)])
    _finish(train(config), config)


def preset_defaults(arguments: Sequence[str], method: str = "", start: str = "") -> TrainConfig:
    """The settings where nothing else is given: those of the preset, for what is given that they depend on."""
    return with_preset(
        TrainConfig(
            data=value_of("--data", arguments),
            method=method or value_of("--method", arguments, "magnet"),
            preset=value_of("--preset", arguments, "auto"),
            backbone=value_of("--backbone", arguments, "auto"),
            start="random" if (start or value_of("--start", arguments)) == "random" else "auto",
        )
    )


def config_of(options: TrainConfig) -> TrainConfig:
    """The settings of a run among the options of a command that has more."""
    return TrainConfig(**{field.name: getattr(options, field.name) for field in dataclasses.fields(TrainConfig)})


def _resume(folder: Path, quiet: bool) -> None:
    from magnet.training.config import read_config
    from magnet.training.folder import checkpoints, read_progress
    from magnet.training.train import train

    config = dataclasses.replace(read_config(folder), quiet=quiet)
    found = checkpoints(folder / "checkpoint")
    if found and read_progress(found[-1])["finished"]:
        raise UserError(f"{folder} is finished: nothing to go on with")
    _finish(train(config, resume=True), config)


def check_used(config: TrainConfig, default: TrainConfig) -> None:
    """A setting that the chosen method does not read is refused, not ignored."""
    from magnet.methods import METHODS, Options, method_class

    used = method_class(config.method).uses
    always = {"clusters_per_batch", "examples_per_cluster", "clusters_per_class"}  # batches and kNC of every method
    for field in dataclasses.fields(Options):
        name = field.name
        if name not in used | always and getattr(config, name) != getattr(default, name):
            users = [other for other in METHODS if name in method_class(other).uses]
            raise UserError(
                f"--{name.replace('_', '-')} does nothing for {config.method}; it is for {', '.join(users)}"
            )


def _finish(folder: Path, config: TrainConfig) -> None:
    if int(os.environ.get("RANK", "0")) != 0:
        return
    from magnet.training.folder import find_checkpoint, read_progress

    seconds: dict[str, float] = read_progress(find_checkpoint(folder / "checkpoint", "last"))["seconds"]
    total = sum(seconds.values()) or 1.0
    shares = ", ".join(f"{what} {spent / total:.0%}" for what, spent in seconds.items())
    print(f"The run is in {folder}  ({total:.0f} s: {shares})")
    if config.evaluate:
        from magnet.commands.evaluate import main as evaluate

        evaluate([str(folder)])
