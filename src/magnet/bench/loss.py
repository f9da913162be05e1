"""The loss alone, forward and backward, against the losses of pytorch-metric-learning on the same batch."""

from collections.abc import Callable

import torch
from pytorch_metric_learning import losses, miners
from torch import Tensor, nn

from magnet.bench.measurement import Measurement, compare_times, seconds
from magnet.objective import MagnetLoss

DIM, EXAMPLES = 1024, 4


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """Batches of 12 and of 48 clusters."""
    found = []
    for clusters in (12, 48):
        progress(f"batches of {clusters} x {EXAMPLES}")
        representations, labels = active_batch(clusters)
        magnet = MagnetLoss()
        ours = step(magnet, representations, lambda: magnet(representations, labels, labels).loss)  # noqa: B023
        peers = others(clusters, representations, labels)
        for name, peer in peers.items():
            calls = max(3, round(0.05 / min(seconds(peer, 3) for _ in range(3))))
            timed = compare_times(ours, peer, repeats=11, calls=calls)
            what = f"D = {EXAMPLES}, d = {DIM}, forward and backward"
            found.append(timed.measurement(f"M = {clusters}, {name}", what, name, bound=1.0))
    return found


def active_batch(clusters: int) -> tuple[Tensor, Tensor]:
    """Representations (B, d), one cluster for each class, so wide that every loss and every miner has work to do."""
    source = torch.Generator().manual_seed(0)
    labels = torch.arange(clusters).repeat_interleave(EXAMPLES)
    centres = torch.randn(clusters, DIM, generator=source)
    spread = 2 * torch.randn(len(labels), DIM, generator=source)
    return (centres[labels] + spread).requires_grad_(), labels


def others(classes: int, representations: Tensor, labels: Tensor) -> dict[str, Callable[[], None]]:
    """The other losses, made for the classes of the batch only, which is the cheapest case for losses with proxies."""
    triplet, miner = losses.TripletMarginLoss(), miners.TripletMarginMiner()
    soft, anchor = losses.SoftTripleLoss(classes, DIM), losses.ProxyAnchorLoss(classes, DIM)
    return {
        "TripletMarginLoss": step(
            triplet, representations, lambda: triplet(representations, labels, miner(representations, labels))
        ),
        "SoftTriple": step(soft, representations, lambda: soft(representations, labels)),
        "ProxyAnchor": step(anchor, representations, lambda: anchor(representations, labels)),
    }


def step(module: nn.Module, representations: Tensor, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """A function that runs a loss forward and backward, from empty gradients."""

    def run() -> None:
        module.zero_grad()
        representations.grad = None
        loss().backward()

    return run
