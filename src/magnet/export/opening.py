"""load: a model from wherever it is kept."""

import os
from pathlib import Path
from typing import Literal

import torch

from magnet.errors import UserError
from magnet.export.model import Model
from magnet.export.of_run import model_of
from magnet.export.reading import BUNDLE, read_bundle
from magnet.training.config import CONFIG
from magnet.training.refresh import Report
from magnet.training.run import Run


def load(
    path: str | os.PathLike[str],
    *,
    which: Literal["best", "last"] = "best",
    device: str = "auto",
    report: Report | None = None,
) -> Model:
    """Open a run folder or an exported bundle for use. Nothing in it is executed.

    Args:
        path: the folder.
        which: of a run, the "best" checkpoint by validation (the last where there was none) or the "last".
        device: where to compute; "auto" takes a GPU if there is one.
        report: told how many examples of a run are embedded, of how many, the first time that it is used.
    """
    folder = Path(path)
    if (folder / BUNDLE).is_file():
        chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        return read_bundle(folder, torch.device(chosen))
    if (folder / CONFIG).is_file():
        return model_of(Run(folder, which=which, device=device, need_data=False, report=report))
    if not folder.exists():
        raise UserError(f"there is no run at {folder}: no such folder")
    if not folder.is_dir():
        hint = "; an ONNX file is for onnxruntime" if folder.suffix.lower() == ".onnx" else ""
        raise UserError(f"{folder} is a file: give the folder of a run or of a bundle{hint}")
    raise UserError(
        f"{folder} is not a run and not a bundle: it has neither {CONFIG} nor {BUNDLE}. "
        f"Train one with `magnet train --out {folder}`"
    )
