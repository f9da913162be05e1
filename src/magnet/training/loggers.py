"""Loggers that get the records of the journal: TensorBoard, Weights & Biases, MLflow.

TensorBoard's files are in the run folder. Weights & Biases and MLflow are used through Lightning's loggers, and are
configured by their own environment variables: with ``WANDB_MODE=offline`` all files stay in the run, and without
``MLFLOW_TRACKING_URI`` MLflow's database is a file in the run.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from magnet.errors import UserError
from magnet.files import inside

PACKAGES = {"tensorboard": ("tensorboard",), "wandb": ("wandb", "lightning"), "mlflow": ("mlflow", "lightning")}
PROJECT = "magnet"


class Logger(Protocol):
    """Gets every record of the journal."""

    def show(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """A record: train, refresh, validation or time, with its values."""

    def close(self) -> None:
        """Finish."""


def check_logger(name: str) -> None:
    """Refuse a logger whose packages are not installed."""
    missing = [package for package in PACKAGES.get(name, ()) if find_spec(package) is None]
    if missing:
        raise UserError(f"--logger {name} needs {' and '.join(missing)}: pip install 'magnet-loss[{name}]'")


def open_logger(name: str, folder: Path, settings: dict[str, Any], resume_at: int | None) -> Logger | None:
    """The logger of this name for a run; None for "none".

    Args:
        name: one of PACKAGES, or "none".
        folder: of the run.
        settings: all of them, by name.
        resume_at: the step that a resumed run starts from.
    """
    check_logger(name)
    if name == "none":
        return None
    if name == "tensorboard":
        return _Board(folder, resume_at)
    makers: dict[str, Callable[[Path], Any]] = {"wandb": _wandb, "mlflow": _mlflow}
    try:
        return _Sent(makers[name](folder), settings)
    except Exception as error:  # of any kind: theirs, or of the network
        raise UserError(f"--logger {name} cannot be opened: {error}") from error


class _Board:
    """TensorBoard's event files, in the run."""

    def __init__(self, folder: Path, resume_at: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        place = inside(folder, "tensorboard")
        self._writer = SummaryWriter(str(place), purge_step=None if resume_at is None else resume_at + 1)

    def show(self, kind: str, step: int, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(f"{kind}/{name}", value, step)
            elif name == "impostor_classes" and value:
                classes = np.repeat([int(c) for c in value], list(value.values()))
                self._writer.add_histogram(f"{kind}/{name}", classes, step, bins=len(value))

    def close(self) -> None:
        self._writer.close()


class _Sent:
    """A logger of Lightning."""

    def __init__(self, logger: Any, settings: dict[str, Any]) -> None:
        self._logger = logger
        logger.log_hyperparams(settings)

    def show(self, kind: str, step: int, values: dict[str, Any]) -> None:
        numbers = {f"{kind}/{name}": float(v) for name, v in values.items() if isinstance(v, int | float)}
        if numbers:
            self._logger.log_metrics(numbers, step)

    def close(self) -> None:
        self._logger.finalize("success")
        finish = getattr(self._logger.experiment, "finish", None)  # of Weights & Biases, which Lightning leaves open
        if finish is not None:
            finish()


def _wandb(folder: Path) -> Any:
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    return _lightning_loggers().WandbLogger(name=folder.resolve().name, project=project, save_dir=str(folder))


def _mlflow(folder: Path) -> Any:
    place = {"tracking_uri": os.environ.get("MLFLOW_TRACKING_URI", "")}
    if not place["tracking_uri"]:
        local = inside(folder, "mlflow").resolve()
        place["tracking_uri"] = f"sqlite:///{local / 'mlflow.db'}"
        place["artifact_location"] = (local / "artifacts").as_uri()
    project = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    return _lightning_loggers().MLFlowLogger(project, run_name=folder.resolve().name, **place)


def _lightning_loggers() -> Any:
    from magnet.backbones.timm import import_torchvision

    with suppress(ImportError):
        import_torchvision()  # Lightning imports it where it is installed, which would fail beside a CPU build of torch
    from lightning.pytorch import loggers

    return loggers
