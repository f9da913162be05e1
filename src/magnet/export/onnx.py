"""Export a model as one file for any ONNX runtime, after checking its outputs against PyTorch's."""

import copy
import json
import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import magnet
from magnet.backbones import VectorBackbone, WhitenedEmbedding
from magnet.data import normalise
from magnet.errors import UserError
from magnet.evaluation.errors import temper
from magnet.export.bundle import measured, model_of
from magnet.export.description import preprocessing
from magnet.export.model import Model
from magnet.files import check_file, writing
from magnet.runs.run import Run

OPSET = 18  # what the exporter writes without converting; onnxruntime has it since 1.14
OUTPUTS = ("representation", "probabilities", "cluster")
TOLERANCE = 1e-4
CHECKED = 64  # examples that a file is checked with


class Graph(nn.Module):
    """Inputs (batch, ...) to representations (batch, d), probabilities (batch, C) and nearest clusters (batch,).

    Images come in 0..1 and are normalised here. The rest is kNC as `magnet.classify` has it, in single precision.
    """

    mean: Tensor
    std: Tensor
    origin: Tensor
    centres: Tensor
    means: Tensor
    log_weights: Tensor
    columns: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.network = copy.deepcopy(model.network).cpu()
        if isinstance(self.network.embedding, WhitenedEmbedding):
            self.network.embedding = self.network.embedding.folded()
        self.images = model.network.kind == "images"
        self.normalised = model.description.network.normalised
        self.classes, self.temperature = len(model.classes), model.description.votes.temperature
        self.neighbours, rule = model.rule.neighbours, model.rule
        self.factor = min(rule.scaling / (2 * rule.variance), torch.finfo(torch.float32).max)
        origin = rule.references.mean(dim=0)  # expanded squares stay accurate around it
        self.register_buffer("mean", torch.tensor(model.network.mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(model.network.std).view(-1, 1, 1))
        self.register_buffer("origin", origin)
        self.register_buffer("centres", rule.references - origin)
        # Equal weights and zero shifts are left out of the graph.
        self.refined = not torch.equal(rule.references, model.index.centres)
        self.weighted = model.description.votes.weighted
        self.register_buffer("means", model.index.centres - origin)
        self.register_buffer("log_weights", model.index.sizes.clamp_min(1).float().log())
        self.register_buffer("columns", model.index.centre_labels)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The three outputs."""
        r = self.network((inputs - self.mean) / self.std if self.images else inputs)
        if self.normalised:
            r = nn.functional.normalize(r, dim=1)
        q = r - self.origin
        squares, ids = _squares(q, self.centres).topk(self.neighbours, dim=1, largest=False)
        logits = (squares[:, :1] - squares) * self.factor
        votes = torch.softmax(logits + self.log_weights[ids] if self.weighted else logits, dim=1)
        # Not len(r), which the exporter would take for a constant.
        tally = r.new_zeros(r.shape[0], self.classes).scatter_add(1, self.columns[ids], votes)
        nearest = _squares(q, self.means).argmin(dim=1) if self.refined else ids[:, 0]
        return r, temper(tally, self.temperature), nearest


def _squares(q: Tensor, centres: Tensor) -> Tensor:
    """Squared distances (n, J) of q (n, d) to centres (J, d)."""
    return q.square().sum(dim=1, keepdim=True) + centres.square().sum(dim=1) - 2 * (q @ centres.T)


class Checked(NamedTuple):
    """How much the outputs of an ONNX file differ from PyTorch's."""

    examples: int
    real: bool  # whether they are examples of the run's data
    representation: float  # largest difference, relative to the largest coordinate if that is above 1
    probabilities: float
    labels: int  # examples to which both give the same label
    size: int  # of the file, in bytes
    measured: dict[str, Any] | None  # the error that PyTorch has on the test part in the view of the file


def export_onnx(run: Run | Model, path: str | os.PathLike[str], *, force: bool = False) -> Checked:
    """Write a model as one ONNX file, weights included, and compare its outputs with PyTorch's.

    The input is ``inputs``, vectors (batch, d) or images (batch, 3, size, size) in 0..1; the outputs are
    ``representation`` (batch, d), ``probabilities`` (batch, C), calibrated, and ``cluster`` (batch,). For images it
    computes the plain view, not the mean of the test views. The metadata say the rest.

    Args:
        run: an opened run, or a model. A run whose data is open is checked on examples of it.
        path: the file.
        force: replace an existing file.

    Raises:
        UserError: if the outputs differ from PyTorch's by more than 1e-4; then no file is written.
    """
    path = Path(path)
    check_file(path, force=force)
    onnx, runtime = _import("onnx"), _import("onnxruntime")
    _import("onnxscript")
    model, (raw, real) = model_of(run), examples(run)
    inputs = model.views.augment.centre(raw) if model.views.augment else raw
    content = _export(Graph(model).eval(), inputs)
    known = measured(run, plain=True)
    onnx.helper.set_model_props(content, metadata(model) | {"measured": json.dumps(known)})
    with writing(path) as draft:
        draft.write_bytes(content.SerializeToString())
        session = runtime.InferenceSession(draft, providers=["CPUExecutionProvider"])
        found = differences(model, inputs, session.run(list(OUTPUTS), {"inputs": inputs.numpy()}))
    return Checked(len(inputs), real, *found, path.stat().st_size, known)


def metadata(model: Model) -> dict[str, str]:
    """The metadata of the file; values other than names and numbers are JSON."""
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


def differences(model: Model, inputs: Tensor, outputs: list[np.ndarray]) -> tuple[float, float, int]:
    """The largest differences of representations and of probabilities, and the number of equal labels.

    Raises if the differences are too large.
    """
    network = model.network
    r = model.represent(normalise(inputs, network.mean, network.std) if network.kind == "images" else inputs)
    p = model.predict_proba(r)
    there, share, cluster = (torch.from_numpy(output) for output in outputs)
    apart = float((there - r).abs().max() / r.abs().max().clamp_min(1)), float((share - p).abs().max())
    to_centres = torch.cdist(r.double(), model.index.centres.double())
    detour = to_centres.gather(1, cluster[:, None])[:, 0] - to_centres.min(dim=1).values  # 0, or a tie
    if not (max(apart) <= TOLERANCE and bool((detour <= TOLERANCE * to_centres.amax(dim=1)).all())):
        raise UserError(
            f"nothing is written: the ONNX graph differs from PyTorch by {apart[0]:.1e} in representations and "
            f"{apart[1]:.1e} in probabilities, more than {TOLERANCE:g}"
        )
    return *apart, int((share.argmax(dim=1) == p.argmax(dim=1)).sum())


def examples(run: Run | Model) -> tuple[Tensor, bool]:
    """Raw examples to check the file with, and whether they are real: from the test part if the run's data is open."""
    if not isinstance(run, Model) and run.opened:
        test = run.data.indices("test")
        rows = test if len(test) else run.train
        return run.data.batch(rows[:: max(1, len(rows) // CHECKED)][:CHECKED]), True
    network, shape = model_of(run).network, model_of(run).description.network.shape
    inputs = torch.rand(CHECKED, *shape, generator=torch.Generator().manual_seed(0))
    if isinstance(network, VectorBackbone):
        inputs = (inputs - 0.5) * 4 * network.input_scale.cpu() + network.input_mean.cpu()
    return inputs, False


def _export(graph: Graph, inputs: Tensor) -> Any:
    """The ONNX model, made by the exporter that is based on torch.export.

    It supports a variable batch size and all our backbones, and is the only exporter that is still developed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns about its own code
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
        raise UserError(f"ONNX export needs {name}, which is not installed: pip install 'magnet-loss[onnx]'") from error
