"""Neighbourhoods: the sampler, its index and the schedule of refreshes, for the training loop of another library."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from magnet.index import ClusterIndex
from magnet.sampler import NeighbourhoodSampler
from magnet.training.distribution import gather_rows


class Indexed(Dataset[Any]):
    """A dataset that says which example it gives: ``(i, ...)`` for tuples, ``{"index": i, ...}`` for dictionaries."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, i: int) -> Any:
        item = self.dataset[i]
        return {"index": i, **item} if isinstance(item, Mapping) else (i, *item)


class Neighbourhoods:
    """Draws batches, takes their losses, knows when a refresh is due, and saves the state of all that.

    Until the first refresh every class is one cluster. With several processes, each draws its own neighbourhoods, and
    all get the losses of all, so that they keep the same state.

    Args:
        labels: (N,) classes of the training examples, in the order of the dataset.
        clusters_per_class: K of the index.
        refresh_every: batches between refreshes; 0: an epoch.
        seed: of K-means and of the batches.
        sampling: the other options of `NeighbourhoodSampler`.
    """

    def __init__(
        self, labels: Tensor, *, clusters_per_class: int = 8, refresh_every: int = 0, seed: int = 0, **sampling: Any
    ) -> None:
        self.labels = torch.as_tensor(labels).cpu()
        self.clusters_per_class, self.refresh_every, self.seed = clusters_per_class, refresh_every, seed
        classes, assignments = torch.unique(self.labels, return_inverse=True)
        nowhere = ClusterIndex(torch.zeros(len(classes), 1), classes, assignments, torch.ones(()))
        self.sampler = NeighbourhoodSampler(nowhere, seed=seed, **sampling)
        self.steps, self.refreshed_at = 0, -1  # batches used, in all and at the last refresh

    @property
    def index(self) -> ClusterIndex:
        """The clusters that batches are drawn from now."""
        return self.sampler.index

    @property
    def due(self) -> bool:
        """Whether the index must be refreshed before the next batch."""
        every = self.refresh_every or len(self.sampler)
        return self.refreshed_at < 0 or self.steps - self.refreshed_at >= every

    def join(self, rank: int, world_size: int) -> None:
        """Take part as one of several processes."""
        self.sampler.rank, self.sampler.world_size = rank, world_size

    def share(self) -> range:
        """The examples that this process embeds at a refresh."""
        return range(self.sampler.rank, len(self.labels), self.sampler.world_size)

    def refresh(self, places: Tensor, representations: Tensor) -> None:
        """Fit a new index to the representations (n, d) of this process's share of the examples, ``places`` (n,)."""
        world = self.sampler.world_size
        places, rows = gather_rows(places.cpu(), world), gather_rows(representations.float().cpu(), world)
        everything = torch.empty(len(self.labels), rows.shape[1])
        everything[places] = rows
        seed = self.seed * 1_000_003 + self.steps
        self.sampler.refresh(ClusterIndex.fit(everything, self.labels, self.clusters_per_class, seed=seed))
        self.refreshed_at = self.steps

    def update(self, indices: Tensor, losses: Tensor) -> None:
        """Take the losses (B,) of this process's batch."""
        world = self.sampler.world_size
        self.sampler.update(gather_rows(indices.cpu(), world), gather_rows(losses.detach().float().cpu(), world))
        self.steps += 1

    def state_dict(self) -> dict[str, Tensor]:
        """The state after the last batch used, as tensors."""
        state: dict[str, Any] = {f"index.{name}": tensor for name, tensor in self.index.tensors().items()}
        state |= {f"sampler.{name}": value for name, value in self.sampler.state_dict().items()}
        state |= {"steps": self.steps, "refreshed_at": self.refreshed_at}
        return {name: torch.as_tensor(value) for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue exactly from a `state_dict`."""
        parts: dict[str, dict[str, Any]] = {"index": {}, "sampler": {}}
        for name, value in state.items():
            part, dot, key = name.partition(".")
            if dot:
                parts[part][key] = value
        self.sampler.refresh(ClusterIndex(**parts["index"]))
        self.sampler.load_state_dict(parts["sampler"])
        self.steps, self.refreshed_at = int(state["steps"]), int(state["refreshed_at"])
