"""The whole way from an input to a label as one module: what goes into an ONNX file."""

import copy

import torch
from torch import Tensor, nn

from magnet.evaluation.calibration import temper
from magnet.export.model import Model

OUTPUTS = ("representation", "probabilities", "cluster")


class Graph(nn.Module):
    """Inputs (batch, ...) to representations (batch, d), probabilities (batch, C) and nearest clusters (batch,).

    Images come in 0..1 and are normalised here. The rest is kNC as `magnet.classify` has it, in single precision.
    """

    mean: Tensor
    std: Tensor
    origin: Tensor
    centres: Tensor
    columns: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.network = copy.deepcopy(model.network).cpu()
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
        self.register_buffer("columns", model.index.centre_labels)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The three outputs."""
        r = self.network((inputs - self.mean) / self.std if self.images else inputs)
        if self.normalised:
            r = nn.functional.normalize(r, dim=1)
        q = r - self.origin
        squares = q.square().sum(dim=1, keepdim=True) + self.centres.square().sum(dim=1) - 2 * (q @ self.centres.T)
        squares, ids = squares.topk(self.neighbours, dim=1, largest=False)
        votes = torch.softmax((squares[:, :1] - squares) * self.factor, dim=1)
        # Not len(r), which the exporter would take for a constant.
        tally = r.new_zeros(r.shape[0], self.classes).scatter_add(1, self.columns[ids], votes)
        return r, temper(tally, self.temperature), ids[:, 0]
