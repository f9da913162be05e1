"""The time to draw a batch and to update its losses, as the numbers of clusters and examples grow."""

from collections.abc import Callable

import torch
from torch import Tensor

from magnet.bench.measurement import Measurement, compare_times
from magnet.index import ClusterIndex
from magnet.sampler import NeighbourhoodSampler


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """More clusters, then more examples in the same number of clusters."""
    progress("1,000 and 100,000 clusters")
    few, many = turn(1000, 10), turn(100_000, 10)
    clusters = compare_times(many, few, repeats=15, calls=300).measurement(
        "clusters", "draw and update, 100,000 clusters against 1,000, ten examples each", "1,000 clusters", bound=2.0
    )
    progress("10,000 and 1,000,000 examples")
    small, large = turn(1000, 10), turn(1000, 1000)
    examples = compare_times(large, small, repeats=15, calls=300).measurement(
        "examples",
        "draw and update, 1,000,000 examples against 10,000, in 1,000 clusters",
        "10,000 examples",
        bound=1.25,
    )
    return [clusters, examples]


class Scattered(ClusterIndex):
    """An index with arbitrary impostors: the search for the nearest ones is not measured here."""

    def nearest_impostors(self, m: int, clusters: Tensor | None = None, *, exact: bool | None = None) -> Tensor:
        """(J, m), from the clusters with the next ids, which are of other classes here."""
        return (torch.arange(len(self)).unsqueeze(1) + torch.linspace(1, len(self) // 4 - 1, m).long()) % len(self)


def turn(clusters: int, members: int) -> Callable[[], None]:
    """A function that draws a batch of M = 12, D = 4 and updates its losses; the sampler has run for a while."""
    source = torch.Generator().manual_seed(0)
    index = Scattered(
        torch.randn(clusters, 2, generator=source),
        torch.arange(clusters) % (clusters // 4),
        torch.arange(clusters * members) % clusters,
        torch.ones(()),
    )
    sampler = NeighbourhoodSampler(index, batches=10**9)
    everyone = torch.arange(clusters * members)
    sampler.update(everyone, torch.rand(len(everyone), generator=source))
    draws = iter(sampler)
    losses = torch.rand(48, generator=source)

    def step() -> None:
        sampler.update(torch.tensor(next(draws)), losses)

    for _ in range(20):  # the first losses take effect
        step()
    return step
