"""What a method is: its answers to four questions, which are all that the trainer asks.

How are batches drawn (`sampler`, `clusters`); what is done when the representations are refreshed (`prepare` before
training, `refresh` and `observe` during it); what is the loss of a batch (`loss`); how does a representation get a
label (`classifier`, `scaling`, `variance`, and `logits` for a method with a head of its own).

Here too: batches of single examples, at random or balanced over the classes. The table of the methods by name is in
`magnet.methods`.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from magnet.classify import NearestClusters, SoftNeighbours
from magnet.index import ClusterIndex
from magnet.methods import RULE_NAMES as RULE_NAMES

Classifier = Literal["knc", "knn", "head"]


@dataclass(frozen=True)
class Options:
    """The settings of all methods, with the paper's values. A method reads the settings named in its ``uses``."""

    alpha: float = 1.0  # the gap
    scaling: float = 1.0
    own_mean: Literal["batch", "leave-one-out"] = "batch"
    losses: Literal["drawn", "refreshed"] = "drawn"  # that seed clusters are drawn by
    clusters_per_class: int = 8  # K
    clusters_per_batch: int = 12  # M
    examples_per_cluster: int = 4  # D
    impostor_fraction: float = 0.1
    target_neighbours: int = 3

    @property
    def batch_size(self) -> int:
        """M D: every method sees as many examples in a step as Magnet does."""
        return self.clusters_per_batch * self.examples_per_cluster

    @classmethod
    def of(cls, config: object) -> "Options":
        """The options among the attributes of a larger configuration."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class Setting:
    """What a method needs to know: the labels of the training set, the dimension, the seed, and the processes."""

    labels: Tensor  # (N,) class ids 0..C-1 of the training examples
    classes: int
    dim: int  # of the representations
    seed: int = 0
    rank: int = 0
    world_size: int = 1


class Batch(NamedTuple):
    """A batch as the loss sees it."""

    inputs: Tensor  # (B, ...)
    labels: Tensor  # (B,)
    clusters: Tensor  # (B,) the cluster that each row was drawn from, for methods that draw clusters


class Discriminant(NamedTuple):
    """The votes of one cluster a class, as a linear function of representations (n, d): ``scores = r W^T + b``."""

    weight: Tensor  # (C', d), of the classes that there are
    bias: Tensor  # (C',)
    classes: Tensor  # (C',)

    @classmethod
    def of(cls, means: ClusterIndex, scaling: float) -> "Discriminant":
        """``-s |r - mu_c|^2 / 2 sigma^2 + log n_c`` of the class means, up to what all classes have in common."""
        factor = scaling / float(means.variance.clamp_min(torch.finfo(torch.float32).tiny))
        bias = means.sizes.clamp_min(1).log() - factor / 2 * means.centres.square().sum(dim=1)
        return cls(factor * means.centres, bias, means.centre_labels)


class MethodLoss(NamedTuple):
    """The loss of a batch."""

    loss: Tensor  # ()
    per_example: Tensor  # (B,), for the sampler
    variance: Tensor | None = None  # () of the batch, where the method has one


class BatchSampler(Protocol):
    """A source of batches that can be saved and resumed."""

    def __iter__(self) -> Iterator[list[int]]: ...
    def __len__(self) -> int: ...
    def update(self, indices: Tensor, losses: Tensor) -> None:
        """Take the losses of a batch, and count the batch as used."""

    def state_dict(self) -> dict[str, Any]:
        """Ints and tensors."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""


Network = Callable[[Tensor], Tensor]
MeanInputs = Callable[[Tensor, int], Tensor]


class Method(nn.Module):
    """The base of all methods. Parameters and buffers are trained and saved with the network."""

    uses: ClassVar[frozenset[str]] = frozenset()  # the options that the method reads, beside M and D
    classifier: ClassVar[Classifier] = "knc"  # the rule that it is judged by in the paper
    normalised: ClassVar[bool] = False  # whether representations lie on the unit sphere
    reads_inputs: ClassVar[bool] = False  # whether `prepare` does anything
    reads_representations: ClassVar[bool] = True  # whether `refresh` does anything
    wants_index: ClassVar[bool] = False  # whether `refresh` needs the clusters, and not all representations

    @property
    def wants_representations(self) -> bool:
        """Whether `refresh` takes all representations."""
        return self.reads_representations and not self.wants_index

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__()
        self.setting, self.options = setting, options

    @cached_property
    def sampler(self) -> BatchSampler:
        """Where batches come from: every example once an epoch, in random order, unless a method draws others.

        It is made when it is first asked for, since a trained method is used without one.
        """
        return RandomBatches(self.setting, self.options)

    @property
    def scaling(self) -> float:
        """The factor on normalised squared distances that the classifiers are to use."""
        return 1.0

    @property
    def variance(self) -> Tensor | None:
        """The sigma^2 () that the classifiers are to use; None: the variance of the index."""
        return None

    def prepare(self, space: Tensor, mean_inputs: MeanInputs) -> None:
        """Once, before training.

        Args:
            space: (N, D) the input space: the vectors themselves, or the untrained network's view of images.
            mean_inputs: gives the mean input (J, ...) of each of J groups, from assignments (N,) and J.
        """

    def begin(self, discriminant: Discriminant) -> None:
        """Once, before training from the whitened start, whose linear discriminant a head may begin with."""

    def refresh(self, representations: Tensor | None, index: ClusterIndex | None) -> None:
        """Take the current representations (N, d) of the whole training set, or the index of their clusters."""

    def observe(self, network: Network) -> None:
        """Called after each embedding of the training set, with the network in evaluation mode."""

    def clusters(self, indices: Tensor) -> Tensor:
        """The cluster (B,) that each example of a drawn batch stands for; zeros if the method draws no clusters."""
        return torch.zeros_like(indices)

    def loss(self, network: Network, batch: Batch) -> MethodLoss:
        """The loss of a batch; ``network`` maps inputs to representations."""
        raise NotImplementedError

    def logits(self, representations: Tensor) -> Tensor | None:
        """Scores (n, C) of the method's own head, if it has one."""
        return None

    def soft_rule(
        self,
        name: Literal["knc", "knn"],
        index: ClusterIndex,
        references: Tensor | None,
        labels: Tensor,
        neighbours: int,
    ) -> SoftNeighbours:
        """kNC over the clusters of the training set or soft kNN over its examples, with one lengthscale for both.

        The lengthscale is the method's running variance, or the variance of the index for a method without one.

        Args:
            name: which of the two.
            index: the clusters.
            references: (N, d) representations of the training set, with ``labels`` (N,); kNC does without.
            neighbours: L.
        """
        variance = self.variance if self.variance is not None else index.variance
        variance = variance.clamp_min(torch.finfo(torch.float32).tiny)
        if name == "knc":
            return NearestClusters(index, neighbours, variance=variance, scaling=self.scaling)
        assert references is not None
        return SoftNeighbours(references, labels, neighbours, variance=variance, scaling=self.scaling)

    def own_rule(
        self, index: ClusterIndex | None, references: Tensor | None, labels: Tensor, neighbours: int
    ) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """The rule that the method is judged by: probabilities (n, C) of representations (n, d), and the classes (C,).

        Arguments as of `soft_rule`; a head needs none of them.
        """
        if self.classifier == "head":
            return self._head_probabilities, torch.arange(self.setting.classes)
        assert index is not None
        rule = self.soft_rule(self.classifier, index, references, labels, neighbours)
        return rule.predict_proba, rule.classes

    @torch.no_grad()
    def _head_probabilities(self, representations: Tensor) -> Tensor:
        device = next(chain(self.parameters(), self.buffers())).device
        logits = self.logits(representations.to(device))
        assert logits is not None
        return logits.double().softmax(dim=1).cpu()


def generator(*parts: int) -> torch.Generator:
    """A generator of its own for each tuple of integers, however large."""
    # The string of all parts is hashed: sums or products of the parts would overflow or coincide.
    return torch.Generator().manual_seed(random.Random(f"{parts}").getrandbits(63))


def seed_globally(seed: int, device: torch.device) -> None:
    """`torch.manual_seed` for the generators that work on ``device`` draws from."""
    # torch.manual_seed also queues a call, with its stack trace, for every kind of device that is missing: that takes
    # longer than a step of a small network, and the queue grows for ever.
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


class ClassCircles:
    """The examples class by class, each class a circle on which others of the same class are found."""

    def __init__(self, labels: Tensor) -> None:
        self.order = labels.argsort(stable=True)
        self.place = self.order.argsort()
        _, own, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
        self.start, self.size = (sizes.cumsum(0) - sizes)[own], sizes[own]  # (N,) of the class of each example

    def others(self, examples: Tensor, uniform: Tensor) -> Tensor:
        """Another member (n,) of the class of each example (n,), by numbers (n,) in [0, 1); a single member is its own.

        >>> circles = ClassCircles(torch.tensor([0, 1, 0, 0]))
        >>> circles.others(torch.tensor([0, 1, 2]), torch.tensor([0.0, 0.5, 0.9]))
        tensor([2, 1, 0])
        """
        start, size = self.start[examples], self.size[examples]
        step = 1 + (uniform * (size - 1)).long()  # round the circle, but not back to the example
        chosen: Tensor = self.order[start + (self.place[examples] - start + step) % size]
        return chosen


class RandomBatches:
    """Draws every example once an epoch, shuffled by (seed, epoch), split among the ranks.

    The last batch of an epoch is filled up from the next order, so that all batches are of one size.

    Args:
        setting: the training examples, the seed, and this process among the others.
        options: a batch has M D examples.

    >>> labels, options = torch.zeros(5), Options(clusters_per_batch=2, examples_per_cluster=1)
    >>> list(RandomBatches(Setting(labels, classes=1, dim=2), options))
    [[1, 3], [4, 0], [2, 3]]
    """

    group: ClassVar[int] = 1  # examples that `draw` returns for each one of the random order: 2 for pairs

    def __init__(self, setting: Setting, options: Options) -> None:
        self.count, self.examples = len(setting.labels), options.batch_size
        self.seed, self.rank, self.world_size = setting.seed, setting.rank, setting.world_size
        self._taken = max(1, self.examples // self.group)  # examples of the random order in a batch
        self._used = 0
        self._orders: dict[int, Tensor] = {}

    def __len__(self) -> int:
        # All methods have the same number of steps in an epoch: it is counted in examples, not in pairs or triplets.
        return math.ceil(self.count / (self.examples * self.world_size))

    def __iter__(self) -> Iterator[list[int]]:
        for number in range(self._used, (self._used // len(self) + 1) * len(self)):
            yield self.draw(number)

    def draw(self, number: int) -> list[int]:
        """Batch ``number`` of this rank: a function of the seed and the number alone."""
        epoch, step = divmod(number, len(self))
        start = (step * self.world_size + self.rank) * self._taken
        places = torch.arange(start, start + self._taken)
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
        super().__init__(setting, options)
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
        again, rest = divmod(self.examples // self.classes, len(members))
        return members * again + rng.sample(members, rest)
