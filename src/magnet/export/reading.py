"""A portable folder read back. Nothing in it is executed: tensors come from safetensors, all else from JSON."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from magnet.backbones import build
from magnet.errors import UserError
from magnet.export.description import Description
from magnet.export.model import Model
from magnet.files import read_json
from magnet.index import ClusterIndex

BUNDLE, NAMES = "bundle.json", "names.json"
NETWORK, CLUSTERS, REFERENCES = "network.safetensors", "clusters.safetensors", "references.safetensors"
FORMAT = "magnet-bundle/2"


def read_bundle(folder: Path, device: torch.device) -> Model:
    """The model in a folder written by `export_bundle`."""
    about = _read_json(folder / BUNDLE)
    if not isinstance(about, dict):
        raise UserError(f"{folder / BUNDLE} does not hold a description but {type(about).__name__}")
    if about.get("format") != FORMAT:
        raise UserError(f"{folder} is of format {about.get('format')!r}, not {FORMAT!r}: export it anew")
    try:
        description = Description.from_dict(about)
        part = description.network
        network = build(part.backbone, example_shape=part.shape, dim=part.dim or None, hidden=part.hidden or None)
        network.load_state_dict(_load(folder / NETWORK))
        c = _load(folder / CLUSTERS)
        index = ClusterIndex(c["centres"], c["centre_labels"], c["assignments"], c["variance"])
        references, names = None, []
        if (folder / REFERENCES).is_file():
            references, names = _load(folder / REFERENCES)["representations"], _read_json(folder / NAMES)
        model = Model(description, network.to(device), index, references, names)
        _check(model)
    except UserError as error:
        raise UserError(f"the bundle {folder} cannot be used: {error}") from error
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"the bundle {folder} is broken ({reason}): export it anew") from error
    return model


def _check(model: Model) -> None:
    """Raise where the parts of a bundle do not belong together."""
    rule, index = model.rule, model.index  # making the rule checks the numbers of the votes
    if int(rule.classes[-1]) >= len(model.classes) or int(rule.classes[0]) < 0:
        raise ValueError(f"a cluster is of class {int(rule.classes[-1])}, of {len(model.classes)}")
    if index.centres.shape[1] != model.network.dim:
        raise ValueError(f"clusters have {index.centres.shape[1]} dimensions, the network gives {model.network.dim}")
    if model.references is not None:
        expected = (len(index.assignments), model.network.dim)
        if tuple(model.references.shape) != expected or len(model.names) != expected[0]:
            raise ValueError(
                f"{len(model.names)} names and references of shape {tuple(model.references.shape)}, "
                f"expected {expected[0]} and {expected}"
            )


def _load(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise UserError(f"{path.name} is missing")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path.name} cannot be read ({error}): it is broken or cut short") from error


def _read_json(path: Path) -> Any:
    try:
        return read_json(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error})") from error
