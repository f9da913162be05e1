"""magnet train."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import tyro

from magnet.commands.options import read_options, value_of
from magnet.errors import UserError
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset

HELP = """Train a representation on labelled images or vectors.

Defaults follow the preset, which is chosen by the data unless you name one; what you give yourself goes first.

examples:
  magnet train --data photos/ --out runs/photos
  magnet train --data features.npz --method triplet --seed 1
  magnet train --data pets:oxford-iiit-pet --preset paper/pets --weights googlenet.pth
  magnet train --resume runs/photos
  torchrun --nproc-per-node 2 -m magnet train --data photos/ --out runs/photos
"""


def main(arguments: Sequence[str]) -> None:
    """Train or resume, then evaluate."""
    resume = value_of("--resume", arguments, "")
    if resume:
        _resume(resume, arguments)
        return
    start = TrainConfig(
        data=value_of("--data", arguments, ""),
        method=value_of("--method", arguments, "magnet"),
        preset=value_of("--preset", arguments, "auto"),
    )
    default = dataclasses.replace(with_preset(start), data=start.data or tyro.MISSING)
    config = read_options(TrainConfig, "train", HELP, arguments, default=default)
    check_used(config, default)

    from magnet.training.train import train

    _finish(train(config), config)


def _resume(run: str, arguments: Sequence[str]) -> None:
    folder = Path(run)
    rest = [word for word in arguments if word not in ("--resume", run, f"--resume={run}")]
    quiet = "--quiet" in rest
    if [word for word in rest if word != "--quiet"]:
        raise UserError(f"--resume goes on with the settings of the run; leave out {' '.join(rest)}")
    from magnet.training.checkpoint import checkpoints, read_progress
    from magnet.training.config import read_config
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
    from magnet.training.checkpoint import find_checkpoint, read_progress

    seconds: dict[str, float] = read_progress(find_checkpoint(folder / "checkpoint", "last"))["seconds"]
    total = sum(seconds.values()) or 1.0
    shares = ", ".join(f"{what} {spent / total:.0%}" for what, spent in seconds.items())
    print(f"The run is in {folder}  ({total:.0f} s: {shares})")
    if config.evaluate:
        from magnet.commands.evaluate import main as evaluate

        evaluate([str(folder)])
