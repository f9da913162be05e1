"""The portable folder: a model as safetensors and JSON."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file
from torch import Tensor

import magnet
from magnet.errors import UserError
from magnet.export.description import preprocessing
from magnet.export.model import Model
from magnet.export.of_run import measured, model_of
from magnet.export.reading import BUNDLE, CLUSTERS, FORMAT, NAMES, NETWORK, REFERENCES
from magnet.files import replacing_folder

if TYPE_CHECKING:
    from magnet.training.run import Run

FEW = 50_000  # references that are taken along unless they are declined


def export_bundle(
    run: "Run | Model",
    folder: str | os.PathLike[str],
    *,
    with_references: bool | None = None,
    force: bool = False,
) -> Path:
    """Write a model as a folder that needs neither the run nor its data; whole or not at all.

    Args:
        run: an opened run, or a model.
        folder: where to.
        with_references: whether the representations of the training set go along, for `search`; by default if they
            are 50,000 or fewer.
        force: replace a bundle that is there already. Anything else is never replaced.
    """
    model, folder = model_of(run), Path(folder)
    _check_place(folder, force)
    if with_references and model.references is None:
        raise UserError("the model has no references that could go along")
    references = model.references if with_references or (with_references is None and _few(model)) else None
    about = {
        "format": FORMAT,
        "magnet": magnet.__version__,
        "torch": torch.__version__,
        **model.description.to_dict(),
        "preprocessing": preprocessing(model.description, model.network.mean, model.network.std),
        "measured": measured(run, plain=False),
    }
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with replacing_folder(folder) as draft:
            _save(draft / NETWORK, model.network.state_dict())
            _save(draft / CLUSTERS, model.index.tensors())
            if references is not None:
                _save(draft / REFERENCES, {"representations": references})
                _write_json(draft / NAMES, model.names)
            _write_json(draft / BUNDLE, about)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error}") from error
    return folder


def _few(model: Model) -> bool:
    return model.references is not None and len(model.references) <= FEW


def _check_place(folder: Path, force: bool) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() and not (force and (folder / BUNDLE).is_file()):
        hint = ", or --force to replace it" if (folder / BUNDLE).is_file() else ""
        raise UserError(f"{folder} exists already: choose another place{hint}")


def _save(path: Path, tensors: dict[str, Tensor]) -> None:
    save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}, path)


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
