"""Class-balanced batches: some classes, as many examples of each."""

import random
from itertools import chain

import torch

from magnet.methods.base import Options, Setting
from magnet.methods.sampling import RandomBatches, generator


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
