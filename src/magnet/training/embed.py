"""The embedding pass: many examples, one moment, in eval mode."""

from collections.abc import Callable

import torch
from torch import Tensor

from magnet.backbones import has_batchnorm, reestimate_batchnorm
from magnet.data import Dataset
from magnet.training.learner import Learner
from magnet.training.loading import batches, in_order
from magnet.training.views import Views

Report = Callable[[int, int], None]
STATISTICS = 4096  # examples that batch-norm statistics are estimated from


@torch.no_grad()
def embed(
    learner: Learner,
    data: Dataset,
    rows: Tensor,
    views: Views,
    *,
    device: torch.device,
    workers: int = 0,
    test: bool = False,
    seed: int = 0,
    report: Report | None = None,
) -> Tensor:
    """Representations (n, d), on the CPU, of the examples ``rows`` of the data.

    The plain view of each, or with ``test`` the mean over the test views that ``seed`` draws (section 4); ``report`` is
    told how many are done, of how many.
    """
    was_training = learner.training
    learner.eval()
    representations: Tensor | None = None  # one block, filled as it comes: there is no second copy at the end
    done = 0
    for _, raw in in_order(data, rows, workers):
        raw = raw.to(device)
        seen = views.test(raw, seed) if test else [views.plain(raw)]
        mean = torch.stack([learner.represent(view) for view in seen]).mean(dim=0)
        if representations is None:
            representations = torch.empty(len(rows), mean.shape[1])
        representations[done : done + len(raw)] = mean
        done += len(raw)
        if report:
            report(done, len(rows))
    learner.train(was_training)
    assert representations is not None, "nothing to embed"
    if test and learner.method.normalised:
        representations = torch.nn.functional.normalize(representations, dim=1)
    return representations


def settle_batchnorm(
    learner: Learner, data: Dataset, rows: Tensor, views: Views, *, device: torch.device, workers: int, seed: int
) -> None:
    """Estimate batch-norm statistics anew from random training examples, before an embedding pass."""
    if not has_batchnorm(learner.network):
        return
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:STATISTICS]
    drawn = [part.tolist() for part in order.split(64)]
    raws = (raw for _, raw in batches(data, rows, drawn, workers))
    reestimate_batchnorm(learner.network, (views.plain(raw.to(device)) for raw in raws))
