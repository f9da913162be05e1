"""export_onnx: one file that any ONNX runtime can run, checked before it is there."""

import json
import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import magnet
from magnet.errors import UserError
from magnet.export.description import preprocessing
from magnet.export.graph import OUTPUTS, Graph
from magnet.export.model import Model
from magnet.export.of_run import measured, model_of
from magnet.export.onnx_check import Checked, compare, examples
from magnet.files import replacing

if TYPE_CHECKING:
    from magnet.training.run import Run

OPSET = 18  # what the exporter writes without converting; onnxruntime has it since 1.14


def export_onnx(run: "Run | Model", path: str | os.PathLike[str], *, force: bool = False) -> Checked:
    """Write a model as one ONNX file, weights inside, and compare what it says with PyTorch.

    The input is ``inputs``, vectors (batch, d) or images (batch, 3, size, size) in 0..1; the outputs are
    ``representation`` (batch, d), ``probabilities`` (batch, C), calibrated, and ``cluster`` (batch,). For images it
    computes the plain view, not the mean of the test views. The metadata say the rest.

    Args:
        run: an opened run, or a model. A run whose data is open is checked on examples of it.
        path: the file.
        force: replace a file that is there already.

    Raises:
        UserError: when the file differs from PyTorch by more than 1e-4; none is left behind then.
    """
    path = Path(path)
    if path.is_dir() or (path.exists() and not force):
        raise UserError(f"{path} exists already: choose another place, or --force to replace it")
    onnx, runtime = _import("onnx"), _import("onnxruntime")
    _import("onnxscript")
    model, (raw, real) = model_of(run), examples(run)
    inputs = model.views.augment.centre(raw) if model.views.augment else raw
    content = _export(Graph(model).eval(), inputs)
    known = measured(run, plain=True)
    onnx.helper.set_model_props(content, metadata(model) | {"measured": json.dumps(known)})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_bytes(content.SerializeToString())
            session = runtime.InferenceSession(draft, providers=["CPUExecutionProvider"])
            found = compare(model, inputs, session.run(list(OUTPUTS), {"inputs": inputs.numpy()}))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error}") from error
    return Checked(len(inputs), real, *found, path.stat().st_size, known)


def metadata(model: Model) -> dict[str, str]:
    """What is written into the file beside the graph; anything but a name or a number is JSON."""
    about, votes = model.description, model.description.votes
    return {
        "magnet_version": magnet.__version__,
        "method": about.method,
        "backbone": about.network.backbone,
        "classes": json.dumps(model.classes, ensure_ascii=False),
        "cluster_labels": json.dumps(
            [model.classes[c] for c in model.index.centre_labels.tolist()], ensure_ascii=False
        ),
        "preprocessing": json.dumps(preprocessing(about, model.network.mean, model.network.std)),
        "normalised": json.dumps(about.network.normalised),
        "variance": repr(votes.variance),
        "scaling": repr(votes.scaling),
        "neighbours": repr(model.rule.neighbours),
        "temperature": repr(votes.temperature),
        "novelty_threshold": json.dumps(votes.novelty_threshold),
    }


def _export(graph: Graph, inputs: Tensor) -> Any:
    """The ONNX model, by the exporter that reads the graph as torch.export traces it.

    That one keeps the batch size open by itself and is the only one still developed; it takes all our backbones.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about itself
        program = torch.onnx.export(
            graph,
            (inputs[:2],),
            input_names=["inputs"],
            output_names=list(OUTPUTS),
            dynamic_shapes={"inputs": {0: torch.export.Dim("batch")}},
            opset_version=OPSET,
            external_data=False,
            verbose=False,
            dynamo=True,
        )
    assert program is not None
    return program.model_proto


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(f"ONNX export needs {name}, which cannot be imported: pip install 'magnet[onnx]'") from error
