"""Batches of single examples, at random or balanced over the classes, and the random numbers that they come from."""

import math
import random
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from magnet.methods.base import Options, Setting


def generator(*parts: int) -> torch.Generator:
    """A generator of its own for each tuple of integers, however large."""
    # A string is hashed whole; sums and products of the parts would overflow or meet.
    return torch.Generator().manual_seed(random.Random(f"{parts}").getrandbits(63))


def seed_globally(seed: int, device: torch.device) -> None:
    """`torch.manual_seed` for the generators that work on ``device`` draws from."""
    # For a device that is not there, torch.manual_seed notes the call and the whole stack, to do it when it appears:
    # slower than a small network's step, and never forgotten.
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


class RandomBatches:
    """Draws every example once an epoch, shuffled by (seed, epoch), split among the ranks.

    The last batch of an epoch is filled up from the next order, so that all batches are of one size.
    """

    def __init__(self, count: int, batch_size: int, *, seed: int = 0, rank: int = 0, world_size: int = 1) -> None:
        self.count, self.batch_size = count, batch_size
        self.seed, self.rank, self.world_size = seed, rank, world_size
        self._used = 0
        self._orders: dict[int, Tensor] = {}

    @classmethod
    def of(cls, setting: Setting, options: Options) -> "RandomBatches":
        """Batches of M D examples for this process."""
        ranks = {"rank": setting.rank, "world_size": setting.world_size}
        return RandomBatches(len(setting.labels), options.batch_size, seed=setting.seed, **ranks)

    def __len__(self) -> int:
        return math.ceil(self.count / (self.batch_size * self.world_size))

    def __iter__(self) -> Iterator[list[int]]:
        for number in range(self._used, (self._used // len(self) + 1) * len(self)):
            yield self.draw(number)

    def draw(self, number: int) -> list[int]:
        """Batch ``number`` of this rank: a function of the seed and the number alone."""
        epoch, step = divmod(number, len(self))
        start = (step * self.world_size + self.rank) * self.batch_size
        places = torch.arange(start, start + self.batch_size)
        examples = self._order(epoch)[places % self.count]
        again = places >= self.count
        examples[again] = self._order(epoch + 1)[places[again] % self.count]
        return examples.tolist()

    def update(self, indices: Tensor, losses: Tensor) -> None:
        """Count the batch as used; losses do not matter here."""
        self._used += 1

    def state_dict(self) -> dict[str, Any]:
        """How many batches have been used."""
        return {"used": self._used}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the batches used."""
        self._used = int(state["used"])

    def _order(self, epoch: int) -> Tensor:
        if epoch not in self._orders:
            self._orders = {e: order for e, order in self._orders.items() if e >= epoch - 1}
            self._orders[epoch] = torch.randperm(self.count, generator=generator(self.seed, epoch))
        return self._orders[epoch]


class BalancedBatches(RandomBatches):
    """Batches of M classes with D examples each, drawn without replacement, for losses of pairs and tuples.

    Classes come in random order, each once a round. Of a class with fewer than D examples, all are taken, then some
    again. With fewer than M classes, a batch of the same size holds the most classes that divide it evenly.
    """

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(
            len(setting.labels),
            options.batch_size,
            seed=setting.seed,
            rank=setting.rank,
            world_size=setting.world_size,
        )
        classes, sizes = torch.unique(setting.labels, return_counts=True)
        self._members = setting.labels.argsort(stable=True).split(sizes.tolist())
        most = min(options.clusters_per_batch, len(classes))
        self.classes = next(n for n in range(most, 0, -1) if options.batch_size % n == 0)

    def draw(self, number: int) -> list[int]:
        """Batch ``number`` of this rank: a function of the seed and the number alone."""
        place = number * self.world_size + self.rank
        a_round, part = divmod(place, len(self._members) // self.classes)
        order = torch.randperm(len(self._members), generator=generator(self.seed, a_round))
        rng = random.Random(f"examples {self.seed} {place}")
        chosen = order[part * self.classes : (part + 1) * self.classes].tolist()
        return list(chain.from_iterable(self._some(self._members[c].tolist(), rng) for c in chosen))

    def _some(self, members: list[int], rng: random.Random) -> list[int]:
        again, rest = divmod(self.batch_size // self.classes, len(members))
        return members * again + rng.sample(members, rest)
