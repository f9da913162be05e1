"""Whether an ONNX file says what PyTorch says."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from magnet.backbones import VectorBackbone
from magnet.data import normalise
from magnet.errors import UserError
from magnet.export.model import Model
from magnet.export.of_run import model_of

if TYPE_CHECKING:
    from magnet.training.run import Run

TOLERANCE = 1e-4
CHECKED = 64  # examples that a file is tried on


class Checked(NamedTuple):
    """How far the file is from PyTorch."""

    examples: int
    real: bool  # whether they are examples of the run's data
    representation: float  # largest difference, relative to the largest coordinate if that is above 1
    probabilities: float
    labels: int  # examples to which both give the same label
    size: int  # of the file, in bytes
    measured: dict[str, Any] | None  # the error that PyTorch has on the test part in the view of the file


def compare(model: Model, inputs: Tensor, outputs: list[np.ndarray]) -> tuple[float, float, int]:
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


def examples(run: "Run | Model") -> tuple[Tensor, bool]:
    """Raw examples to try the file on, and whether they are real ones: of the run's test part, if its data is open."""
    if not isinstance(run, Model) and run.opened:
        test = run.data.indices("test")
        rows = test if len(test) else run.bench.train
        return run.data.batch(rows[:: max(1, len(rows) // CHECKED)][:CHECKED]), True
    network, shape = model_of(run).network, model_of(run).description.network.shape
    inputs = torch.rand(CHECKED, *shape, generator=torch.Generator().manual_seed(0))
    if isinstance(network, VectorBackbone):
        inputs = (inputs - 0.5) * 4 * network.input_scale.cpu() + network.input_mean.cpu()
    return inputs, False
