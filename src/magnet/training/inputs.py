"""What a method may ask of the inputs before the first step: the space they lie in, and their means."""

import torch
from torch import Tensor

from magnet.training.embed import embed
from magnet.training.learner import Learner
from magnet.training.loading import batches
from magnet.training.workbench import Workbench

CHUNK = 256


def input_space(learner: Learner, bench: Workbench, device: torch.device) -> Tensor:
    """The training examples (N, d): vectors as they are, images as the network sees them before its first step."""
    if bench.data.kind == "vectors":
        return bench.data.batch(bench.train)
    return embed(learner, bench.data, bench.train, bench.views, device=device, workers=bench.workers)


def mean_inputs(bench: Workbench, assignments: Tensor, count: int) -> Tensor:
    """The mean input (count, ...) of the training examples assigned (N,) to each of ``count`` places."""
    total, rows = None, range(len(bench.train))
    chunks = [list(rows[start : start + CHUNK]) for start in range(0, len(rows), CHUNK)]
    for places, raw in batches(bench.data, bench.train, chunks, bench.workers):
        inputs = bench.views.plain(raw)
        total = torch.zeros(count, *inputs.shape[1:]) if total is None else total
        total.index_add_(0, assignments[places], inputs)
    assert total is not None
    size = torch.bincount(assignments, minlength=count).clamp_min(1)
    return total / size.view(-1, *[1] * (total.ndim - 1))
