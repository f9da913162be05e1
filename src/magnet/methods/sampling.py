"""Batches of single examples, in a new random order every epoch."""

import math
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


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
