"""magnet train."""

import dataclasses
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from magnet import backbones, methods
from magnet.commands.terminal import (
    given_options,
    line_console,
    open_run,
    plain,
    read_grouped,
    say_notes,
    show_evaluation,
)
from magnet.data.sources import find_source, kind_of
from magnet.errors import UserError, flag
from magnet.training.config import CONFIG, TrainConfig, check_logger, check_new, check_run, read_config
from magnet.training.presets import start_note, with_preset

if TYPE_CHECKING:
    from magnet.data import Dataset

HELP = """Train a representation on labelled images or vectors.

Defaults follow the preset, which is chosen by the data unless you name one, or the file given as --config; what you
give yourself goes first.

examples:
  magnet train --data photos/ --out runs/photos
  magnet train --data features.npz --method triplet --seed 1
  magnet train --data pets:oxford-iiit-pet --preset paper/pets --weights googlenet.pth
  magnet train --config searches/photos-magnet-0/best.yaml --seed 1
  magnet train --resume runs/photos
  torchrun --nproc-per-node 2 -m magnet train --data photos/ --out runs/photos
"""


@dataclass(frozen=True)
class TrainOptions(TrainConfig):
    """The options of `magnet train`."""

    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """All settings from a file: config.yaml of a run, or best.yaml of `magnet tune`. Options beside it go first."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run, which keeps its settings."""


# The options as `--help` shows them; what is not named here is about the training.
GROUPS = {
    "data": (
        "data", "label", "judge", "validation", "bad_images", "max_pixels", "hash_images", "image_size", "rescale",
        "flip", "test_draws",
    ),
    "method": (
        "method", "preset", "config", "alpha", "scaling", "own_mean", "losses", "clusters_per_class", "clusters_by",
        "clusters_per_batch", "examples_per_cluster", "impostor_fraction", "target_neighbours", "refresh_every",
    ),
    "network": (
        "backbone", "start", "power", "shrinkage", "standardize", "start_clusters", "kernel_width", "unit_length",
        "dim", "hidden", "dropout", "weights", "freeze", "freeze_part", "renew", "freeze_batchnorm",
        "warm_start", "warm_start_epochs",
    ),
    "votes": (
        "neighbours", "votes", "centres", "votes_scaling", "votes_clusters", "pull", "knn_scaling", "knn_neighbours",
    ),
    "training": (),
    "output": (
        "out", "resume", "evaluate", "checkpoint_every", "keep_refreshes", "logger", "quiet",
    ),
}  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Train or resume, then evaluate."""
    given, first_read = given_options(arguments), read_deciding("train", arguments)
    start = preset_defaults(first_read) if first_read.config is None else read_file(first_read.config)
    if "config" in given and "preset" in given:
        raise UserError("--config brings all settings: leave out --preset")
    needed = "" if "resume" in given else tyro.MISSING
    default = TrainOptions(**vars(start) | {"data": start.data or needed})
    options = read_grouped(TrainOptions, "train", HELP, arguments, default, GROUPS)
    if options.resume is not None:
        others = sorted(given - {"resume", "quiet"})
        if others:
            words = " ".join(map(flag, others))
            raise UserError(f"--resume goes on with the settings of the run: leave out {words}")
        check_run(options.resume)
        _resume(options.resume, options.quiet)
        return
    check_settings(options)
    if options.out is not None:
        check_new(options.out)
    first = int(os.environ.get("RANK", "0")) == 0
    console = line_console()
    with console.status("Loading PyTorch, opening the data") if first and not options.quiet else nullcontext():
        from magnet.training.train import train
        from magnet.training.workbench import complete, open_for

        check_used(options, default)
        data = open_for(config_of(options))
        config = complete(config_of(options), data)
    if first:
        say_notes([start_note(config)])
        for line in plan(config, data):
            console.print(plain(line))
    _finish(train(config_of(options), data=data), config)


def read_file(path: Path) -> TrainConfig:
    """The settings in a file that a run or `magnet tune` wrote. A run that is there already is not written again."""
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(f"--config {path} {found}: give a .yaml of settings")
    try:
        config = TrainConfig.load(path)
    except TypeError:
        raise UserError(f"{path} does not say which data to train on: it has no `data`") from None
    return dataclasses.replace(config, out=None) if config.out and (config.out / CONFIG).exists() else config


def check_settings(config: TrainConfig) -> None:
    """Refuse wrong settings, as far as that is possible without torch: names, numbers, and paths."""
    config.check()
    methods.check_method(config.method)
    if config.backbone != "auto":
        backbones.check_backbone(config.backbone)
    find_source(config.data, label=config.label, judge=config.judge)
    check_logger(config.logger)
    if config.weights is not None and not config.weights.is_file():
        raise UserError(f"--weights {config.weights} does not exist")
    if config.warm_start is not None:
        check_run(config.warm_start)


def plan(config: TrainConfig, data: "Dataset") -> list[str]:
    """What is going to be trained, in lines for people: the data and its parts, method and network, the length."""
    from magnet.training.workbench import describe_images

    parts = {part: len(data.indices(part)) for part in ("train", "validation", "test")}
    counts = ", ".join(f"{count:,} {part}" for part, count in parts.items() if count)
    size = f" of {data.shape[0]:,} numbers" if data.kind == "vectors" else ""
    batch = config.clusters_per_batch * config.examples_per_cluster
    if batch and (config.steps or config.epochs >= 0):
        steps = config.steps or config.epochs * -(-parts["train"] // batch)
        length = f"{steps:,} steps of {batch} examples"
    else:
        length = "length and batches chosen by held-out training data"
    least = "at most " if config.start == "whitened" else ""  # that many, if there are so many features and examples
    dim = f" to {least}{config.dim} dimensions" if config.dim else ""
    trunk = ", trunk frozen" if config.freeze else ""
    return [
        f"{data.name}: {len(data):,} {data.kind}{size}, {len(data.classes):,} classes; {counts}",
        f"{config.method} with {config.backbone}{dim}{trunk}; {config.start} start, preset {config.preset}",
        *([describe_images(config, data)] if data.kind == "images" else []),
        f"{length}; seed {config.seed}",
    ]


def read_deciding(command: str, arguments: Sequence[str]) -> TrainOptions:
    """Read the options once without a preset, which depends on some of them; other options are passed over."""
    read, _ = tyro.cli(
        TrainOptions, prog=f"magnet {command}", args=list(arguments), default=TrainOptions(""),
        return_unknown_args=True, add_help=False,
    )  # fmt: skip
    return read


def preset_defaults(given: TrainConfig, method: str = "", start: str = "") -> TrainConfig:
    """The settings of the preset, which depends on the data, method, backbone and start that are given."""
    random = (start or given.start) == "random"
    return with_preset(
        TrainConfig(
            given.data, method=method or given.method, preset=given.preset, backbone=given.backbone,
            start="random" if random else "auto",
            freeze=given.freeze, weights=given.weights, warm_start=given.warm_start,
        )
    )  # fmt: skip


def config_of(options: TrainConfig) -> TrainConfig:
    """The settings of a run among the options of a command that has more."""
    return TrainConfig(**{field.name: getattr(options, field.name) for field in dataclasses.fields(TrainConfig)})


def _resume(folder: Path, quiet: bool) -> None:
    from magnet.training.folder import FOLDER, last_progress
    from magnet.training.train import train

    config = dataclasses.replace(read_config(folder), quiet=quiet)
    found = last_progress(folder / FOLDER)
    if found and found["finished"]:
        raise UserError(f"{folder} is finished: nothing to go on with")
    _finish(train(config, resume=True), config)


def check_used(config: TrainConfig, default: TrainConfig) -> None:
    """A setting that the chosen method does not read is refused, not ignored."""
    from magnet.methods import METHODS, method_class
    from magnet.methods.base import Options

    used = method_class(config.method).uses
    always = {"clusters_per_batch", "examples_per_cluster", "clusters_per_class"}  # batches and kNC of every method
    for field in dataclasses.fields(Options):
        name = field.name
        if name not in used | always and getattr(config, name) != getattr(default, name):
            users = ", ".join(other for other in METHODS if name in method_class(other).uses)
            raise UserError(f"{flag(name)} does nothing for {config.method}; it is for {users}")


def _finish(folder: Path, config: TrainConfig) -> None:
    if int(os.environ.get("RANK", "0")) != 0:
        return
    from magnet.training.folder import FOLDER, last_progress

    seconds = (last_progress(folder / FOLDER) or {}).get("seconds", {})
    total = sum(seconds.values()) or 1.0
    shares = ", ".join(f"{what} {spent / total:.0%}" for what, spent in seconds.items() if spent >= total / 200)
    done, console = read_config(folder), line_console()
    chosen = [name for name, value in vars(done).items() if name != "out" and value != getattr(config, name)]
    if chosen:
        values = [(name.replace("_", " "), getattr(done, name)) for name in chosen]
        words = [f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in values]
        console.print(f"Chosen by held-out training data: {', '.join(words)}")
    console.print(plain(f"The run is in {folder}  ({total:.0f} s: {shares})"))
    if config.evaluate:
        from magnet.runs.evaluate import evaluate

        with open_run(folder) as run:
            result = evaluate(run)
        show_evaluation(result, Console(highlight=False))
    look = "magnet explore" if find_spec("openTSNE") else "magnet report"
    photos = "PHOTO" if kind_of(config.data) == "images" else "VECTORS.npy"
    print(f"\nNext: {look} {folder}\n      magnet classify {folder} {photos}")
    if config.freeze and photos == "PHOTO":
        print(f"      magnet train --data {config.data} --warm-start {folder}  # go on: train the whole network")
