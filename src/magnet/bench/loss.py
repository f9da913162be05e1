"""The loss alone, forward and backward, against the losses of pytorch-metric-learning on the same batch."""

from collections.abc import Callable

import torch
from pytorch_metric_learning import losses, miners
from torch import Tensor, nn

from magnet.bench.measurement import Measurement, compare, seconds
from magnet.objective import MagnetLoss

DIM, EXAMPLES = 1024, 4


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """Batches of 12 and of 48 clusters; the bound is on the fastest of the others."""
    found = []
    for clusters in (12, 48):
        progress(f"batches of {clusters} x {EXAMPLES}")
        representations, labels = active_batch(clusters)
        magnet = MagnetLoss()
        ours = step(magnet, representations, lambda: magnet(representations, labels, labels).loss)  # noqa: B023
        peers = others(clusters, representations, labels)
        times = {name: min(seconds(peer, 10) for _ in range(3)) for name, peer in peers.items()}
        fastest = min(times, key=lambda name: times[name])
        for name, peer in peers.items():
            calls = max(3, round(0.05 / times[name]))
            timed = compare(ours, peer, repeats=11, calls=calls)
            bound = 1.0 if name == fastest else None
            what = f"M = {clusters}, D = {EXAMPLES}, d = {DIM}, forward and backward"
            found.append(timed.measurement(f"Magnet / {name}", what, name, bound=bound))
    return found


def active_batch(clusters: int) -> tuple[Tensor, Tensor]:
    """Representations (B, d) of one cluster for each class, wide enough that no loss and no miner is at rest."""
    source = torch.Generator().manual_seed(0)
    labels = torch.arange(clusters).repeat_interleave(EXAMPLES)
    centres = torch.randn(clusters, DIM, generator=source)
    spread = 2 * torch.randn(len(labels), DIM, generator=source)
    return (centres[labels] + spread).requires_grad_(), labels


def others(classes: int, representations: Tensor, labels: Tensor) -> dict[str, Callable[[], None]]:
    """The peers, each with as many classes as the batch has: those with proxies are at their cheapest so."""
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
    """Forward and backward of a loss, with gradients that start from nothing."""

    def run() -> None:
        module.zero_grad()
        representations.grad = None
        loss().backward()

    return run
