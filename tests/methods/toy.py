"""A training loop of one screen, that knows a method by its answers only, and toy problems for it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from magnet.classify import NearestClusters, SoftNeighbours
from magnet.index import ClusterIndex
from magnet.methods import Batch, Method, Options, Setting, method_class


@dataclass
class Trained:
    method: Method
    network: nn.Module
    x: Tensor
    y: Tensor

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        return represent(self.method, self.network, x)

    def error(self, x: Tensor, y: Tensor, rule: str, clusters_per_class: int = 2) -> float:
        """The share of x (n, p) that gets another label than y (n,), by "knc", "knn" or "head"."""
        r, train = self.embed(x), self.embed(self.x)
        index = ClusterIndex.fit(train, self.y, clusters_per_class)
        scaling, variance = self.method.scaling, self.method.variance
        if rule == "head":
            logits = self.method.logits(r)
            assert logits is not None
            return float((logits.argmax(dim=1) != y).float().mean())
        if rule == "knc":
            classifier = NearestClusters(index, variance=variance, scaling=scaling)
        else:
            variance = index.variance if variance is None else variance
            classifier = SoftNeighbours(train, self.y, variance=variance, scaling=scaling)
        return float((classifier.predict(r) != y).float().mean())


def represent(method: Method, network: nn.Module, x: Tensor) -> Tensor:
    return functional.normalize(network(x), dim=1) if method.normalised else network(x)


def setting_of(y: Tensor, dim: int = 2, **others: int) -> Setting:
    return Setting(y, int(y.max()) + 1, dim, **others)


def mean_rows(x: Tensor):
    """The `mean_inputs` of vectors x (N, p)."""
    return lambda ids, count: torch.stack([x[ids == j].mean(dim=0) for j in range(count)])


def train(
    name: str, network: nn.Module, x: Tensor, y: Tensor, options: Options, *, epochs: int = 20, rate: float = 0.01
) -> Trained:
    """Train on x (N, p) and y (N,), refreshing every epoch."""
    torch.manual_seed(0)
    dim = network(x[:1]).shape[1]
    method = method_class(name)(setting_of(y, dim), options)
    method.prepare(x, mean_rows(x))
    optimiser = torch.optim.Adam([*network.parameters(), *method.parameters()], lr=rate)

    def look() -> None:
        with torch.no_grad():
            r = represent(method, network, x)
            if method.wants_index:
                method.refresh(None, ClusterIndex.fit(r, y, options.clusters_per_class))
            elif method.reads_representations:
                method.refresh(r, None)
            method.observe(lambda inputs: represent(method, network, inputs))

    for _ in range(epochs):
        look()
        for rows in method.sampler:
            indices = torch.tensor(rows)
            batch = Batch(x[indices], y[indices], method.clusters(indices))
            output = method.loss(lambda inputs: represent(method, network, inputs), batch)
            optimiser.zero_grad()
            output.loss.backward()
            optimiser.step()
            method.sampler.update(indices, output.per_example)
    look()
    return Trained(method, network, x, y)


def blobs(count: int = 240, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three classes, well apart in two coordinates, under six others that say nothing and vary ten times as much.

    Distances between inputs are mostly noise, so neighbours in the untrained space are mostly wrong.
    """
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 3
    angle = y * 2 * torch.pi / 3
    signal = torch.stack([angle.cos(), angle.sin()], dim=1) + 0.2 * torch.randn(count, 2, generator=generator)
    return torch.cat([signal, 2 * torch.randn(count, 6, generator=generator)], dim=1), y


def xor(count: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two classes of two modes each, at opposite corners of a square: both have their mean at its centre.

    Four further coordinates are noise, weak enough for K-means on the inputs to find the modes.
    """
    generator = torch.Generator().manual_seed(seed)
    corner = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    mode = torch.arange(count) % 4
    signal = corner[mode] + 0.25 * torch.randn(count, 2, generator=generator)
    return torch.cat([signal, 0.5 * torch.randn(count, 4, generator=generator)], dim=1), mode // 2
