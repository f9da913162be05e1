"""train: from a configuration to a run folder."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import torch
from lightning_fabric import Fabric
from rich.console import Console

from magnet.data import Dataset
from magnet.errors import UserError, first_few, one_line
from magnet.files import lock, remove_drafts
from magnet.methods import method_class
from magnet.training.config import CONFIG, TrainConfig, check_new, read_config
from magnet.training.display import Display, SteadyConsole
from magnet.training.distribution import Heartbeat, Ranks
from magnet.training.folder import (
    FOLDER,
    LEARNER,
    change_note,
    check_parts,
    checkpoints,
    keep_parts,
    merge_again,
    open_checkpoint,
    restore_parts,
)
from magnet.training.loop import Trainer
from magnet.training.workbench import Workbench, complete, make_workbench, on_features, open_for

LOCK = ".lock"  # in a run folder


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    data: Dataset | None = None,
    console: Console | None = None,
    silent: bool = False,
) -> Path:
    """Train, and return the run folder. With ``resume``, go on from the run's last checkpoint.

    ``data`` stands in for what the configuration names, for a caller that has opened it already.
    """
    config.check()
    method_class(config.method)  # refuses an unknown method before anything is opened
    if data is None:
        data = open_for(config)
        if resume and config.out is not None:
            data = merge_again(config.out, data)
    config = complete(config, data)
    if data.kind == "images":
        data = data.with_image_size(config.image_size, config.rescale)
    if config.patience and not len(data.indices("validation")):
        raise UserError("--patience needs validation data: give --validation 0.1 too, or data with a validation part")
    folder = _folder(config, data, resume)
    if resume:
        check_parts(folder, data)
        data = restore_parts(folder, data)  # whatever a split in the data says now
    changed = change_note(folder, data) if resume else ""
    config = replace(config, out=folder)
    fabric = make_fabric(config)
    fabric.launch()
    silent = silent or not fabric.is_global_zero
    with ExitStack() as until_trained:
        if fabric.world_size > 1:
            until_trained.enter_context(Heartbeat(fabric.global_rank, fabric.world_size))
        fabric.barrier()  # all have looked at the folder before one writes to it
        started = resume and bool(checkpoints(folder / FOLDER))
        with _saying(console, silent or config.quiet) as say:
            ranks = Ranks(fabric.global_rank, fabric.world_size)
            bench = make_workbench(config, data=data, ranks=ranks, fresh=not started, say=say)
        config = bench.config
        if config.warm_start and not started:
            _take_network(bench, config.warm_start)
        if fabric.is_global_zero:  # nothing is written before all settings have been seen to work
            folder.mkdir(parents=True, exist_ok=True)
            until_trained.enter_context(lock(folder / LOCK, lambda: _busy(folder)))
            for place in (folder, folder / FOLDER, folder / "refreshes"):
                remove_drafts(place)
            config.save(folder / CONFIG)
            if not started:
                keep_parts(folder, data)
        if config.warm_start_epochs and not started:
            _take_network(bench, _train_softmax(bench, folder / "warm-start", resume, console, silent))
        if config.freeze and data.kind == "images":
            if started:  # the trunk as it was
                open_checkpoint(folder / FOLDER, "last").load_learner(bench.learner)
            with _saying(console, silent or config.quiet) as say:
                bench = on_features(bench, say)
        title = f"{config.method} on {data.name}"
        display = until_trained.enter_context(Display(title, quiet=config.quiet, silent=silent, console=console))
        trainer = Trainer(bench, fabric, display, folder, resume=started)
        display.set_total(trainer.total)
        for note in [*([f"note: {changed}"] if changed else []), *_notes(data)]:
            display.say(note)
        trainer.run()
    if trainer.interrupted or trainer.stopping:
        if trainer.progress["finished"]:
            raise KeyboardInterrupt(f"stopped after the last step; the run in {folder} is complete")
        raise KeyboardInterrupt(
            f"stopped at step {trainer.step} of {trainer.total}; go on: magnet train --resume {folder}"
        )
    return folder


@contextmanager
def _saying(console: Console | None, silent: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a line of progress while settings are being chosen."""
    if silent:
        yield lambda line: None
        return
    with (console or SteadyConsole()).status("") as status:
        yield lambda line: status.update(line)


def _busy(folder: Path) -> NoReturn:
    raise UserError(f"another process is training in {folder}: wait until it has ended, or give another --out")


def _notes(data: Dataset) -> list[str]:
    """What a person should know of the data before a long run."""
    notes = []
    sizes = torch.bincount(data.labels, minlength=len(data.classes))
    single = [data.classes[c] for c in (sizes == 1).nonzero().flatten().tolist()]
    if single:
        notes.append(f"note: only one example of {first_few(single)}: it is trained on, and cannot be tested")
    notes += [f"note: {note}" for note in data.notes]
    if data.skipped:
        notes.append(f"note: left out {len(data.skipped)} unreadable images, the first {data.skipped[0][0]}")
    return notes


def _folder(config: TrainConfig, data: Dataset, resume: bool) -> Path:
    if config.out is not None:
        if not resume:
            check_new(config.out)
        return config.out
    method = re.sub(r"[^\w.=-]+", "-", config.method).strip("-")  # a name may hold a slash and brackets
    base = Path("runs") / f"{data.name}-{method}-{config.seed}"
    folder, number = base, 1
    while (folder / CONFIG).exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def make_fabric(config: TrainConfig) -> Fabric:
    """One device, or as many processes as torchrun started."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    try:
        return Fabric(
            accelerator=config.device,
            devices=local,
            num_nodes=max(1, world // local),
            strategy="ddp" if world > 1 else "auto",
            precision=config.precision,
        )
    except (RuntimeError, ValueError) as error:
        raise UserError(f"--device {config.device} cannot be used here: {one_line(error)}") from error


def _train_softmax(bench: Workbench, folder: Path, resume: bool, console: Console | None, silent: bool) -> Path:
    """A few epochs of softmax on the same data: the network that a warm start takes."""
    config = replace(
        bench.config, method="softmax", out=folder, epochs=bench.config.warm_start_epochs, steps=0,
        warm_start_epochs=0, renew=False, patience=0, validate_every=10**9, keep_refreshes=0, evaluate=False,
    )  # fmt: skip
    again = resume and (folder / CONFIG).exists()
    try:
        return train(config, resume=again, data=bench.data, console=console, silent=silent)
    except KeyboardInterrupt:
        message = f"stopped during the warm start; go on: magnet train --resume {folder.parent}"
        raise KeyboardInterrupt(message) from None


def _take_network(bench: Workbench, source: Path) -> None:
    """Start from the network of another run; from its head too, where that is for the same classes and method."""
    checkpoint = open_checkpoint(source / FOLDER, "last")
    try:
        checkpoint.load_network(bench.learner.network)
    except UserError as error:
        raise UserError(f"the network of {source} does not fit --backbone {bench.config.backbone}: {error}") from error
    own = dict(bench.learner.method.named_parameters())
    same = read_config(source).method == bench.config.method
    with torch.no_grad():
        for name, parameter in own.items() if same else ():
            head = checkpoint.stored[LEARNER].tensors.get(f"method.{name}")
            if head is not None and head.shape == parameter.shape:
                parameter.copy_(head)
