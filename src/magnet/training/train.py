"""train: from a configuration to a run folder."""

import os
from dataclasses import replace
from pathlib import Path

from lightning_fabric import Fabric
from rich.console import Console
from safetensors.torch import load_file

from magnet.data import Dataset
from magnet.errors import UserError
from magnet.methods import method_class
from magnet.training.checkpoint import checkpoints, find_checkpoint
from magnet.training.config import TrainConfig
from magnet.training.display import Display
from magnet.training.loop import Trainer
from magnet.training.workbench import Workbench, complete, make_workbench, open_for

CONFIG = "config.yaml"


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
    method_class(config.method)  # an unknown method is said before anything is opened
    if data is None:
        data = open_for(config)
    config = complete(config, data)
    if data.kind == "images":
        data = data.with_image_size(config.image_size)
    folder = _folder(config, data, resume)
    config = replace(config, out=folder)
    fabric = _fabric(config)
    fabric.launch()
    started = resume and bool(checkpoints(folder / "checkpoint"))
    if fabric.is_global_zero:
        folder.mkdir(parents=True, exist_ok=True)
        config.save(folder / CONFIG)
    bench = make_workbench(config, data=data, rank=fabric.global_rank, world_size=fabric.world_size, fresh=not started)
    if not started:
        _warm_start(bench, folder, resume=resume, console=console, silent=silent)
    title = f"{config.method} on {data.name}"
    silent = silent or not fabric.is_global_zero
    with Display(title, quiet=config.quiet, silent=silent, console=console) as display:
        trainer = Trainer(bench, fabric, display, folder, resume=started)
        display.set_total(trainer.total)
        trainer.run()
    if trainer.interrupted:
        raise KeyboardInterrupt(
            f"stopped at step {trainer.step} of {trainer.total}; go on: magnet train --resume {folder}"
        )
    return folder


def read_config(folder: Path) -> TrainConfig:
    """The configuration of a run, wherever its folder is now."""
    return replace(TrainConfig.load(folder / CONFIG), out=folder)


def _folder(config: TrainConfig, data: Dataset, resume: bool) -> Path:
    if config.out is not None:
        if not resume and (config.out / CONFIG).exists():
            raise UserError(
                f"{config.out} holds a run already: give another --out, or `magnet train --resume {config.out}`"
            )
        return config.out
    base = Path("runs") / f"{data.name}-{config.method}-{config.seed}"
    folder, number = base, 1
    while (folder / CONFIG).exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def _fabric(config: TrainConfig) -> Fabric:
    """One device, or as many processes as torchrun started."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    return Fabric(
        accelerator=config.device,
        devices=local,
        num_nodes=max(1, world // local),
        strategy="ddp" if world > 1 else "auto",
        precision=config.precision,
    )


def _warm_start(bench: Workbench, folder: Path, *, resume: bool, console: Console | None, silent: bool) -> None:
    """Take the network of a partly trained softmax net, given or trained now for a few epochs."""
    config = bench.config
    source = config.warm_start
    if config.warm_start_epochs:
        source = folder / "warm-start"
        softmax = replace(
            config, method="softmax", out=source, epochs=config.warm_start_epochs, steps=0, warm_start_epochs=0,
            validation=0.0, patience=0, keep_refreshes=0, evaluate=False,
        )  # fmt: skip
        again = resume and (source / CONFIG).exists()
        train(softmax, resume=again, data=bench.data, console=console, silent=silent)
    if source is None:
        return
    checkpoint = find_checkpoint(source / "checkpoint", "last")
    saved = load_file(checkpoint / "learner.safetensors")
    weights = {k.removeprefix("network."): v for k, v in saved.items() if k.startswith("network.")}
    try:
        bench.learner.network.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"the network of {source} does not fit --backbone {config.backbone}: {error}") from error
