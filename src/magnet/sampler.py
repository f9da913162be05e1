"""NeighbourhoodSampler: what to look at next (section 3.2, component 1)."""

import math
import random
import warnings
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import Sampler

from magnet.files import check_layout
from magnet.index import ClusterIndex
from magnet.neighbours import check_ids, check_number, check_representations, check_whole

# Losses are summed as whole multiples of this: sums of integers are exact, so they do not drift over millions of
# updates, and a restored sampler has the very weights of the one that was saved.
UNIT = 2.0**-20
NEVER_SEEN = -1
LARGEST_LOSS = 2.0**31
REMEMBERED = 1024  # batches in flight whose clusters are kept for a loop that never reports losses
MOST_EXAMPLES = 2**24  # of a batch
STILL_NEW = 2**62  # a batch number that never comes
# What a state has, beside three numbers.
STATE = {
    "losses": "int N", "new": "bool J", "waiting_numbers": "int u", "waiting_sizes": "int u",
    "waiting_examples": "int e", "waiting_losses": "int e",
}  # fmt: skip


@dataclass
class _Batch:
    number: int
    examples: list[int]
    clusters: list[int]
    start: int  # where its examples begin in the list of the examples of all ranks, rank after rank
    total: int  # and how many examples all ranks have together


@dataclass
class _Update:
    number: int  # the batch that the losses are of
    examples: list[int]  # distinct
    losses: list[int]  # in units
    before: list[int] | None = None  # what they replaced, once they have taken effect


class NeighbourhoodSampler(Sampler[list[int]]):
    """Draws local neighbourhoods (section 3.2): a seed cluster and its nearest impostor clusters, D examples of each.

    A ``batch_sampler`` for `torch.utils.data.DataLoader`. Every batch lists the seed cluster's examples first, then
    those of its impostors, nearest first. Seeds are drawn in proportion to the mean cached loss of a cluster.
    A cluster of which nothing was known when the index was made comes first, in random order, until it has been a seed
    or shown a loss: an impostor's hinge at zero does not say that all is well there. If all losses are zero, seeds are
    uniform. Of a cluster with fewer than D examples, all are taken, then some again.

    Losses are cached for each example, by `update`. They take effect ``delay`` batches after the next one, whether a
    DataLoader has fetched ahead or not, so that the batches drawn are the same for any number of workers, as long
    as ``num_workers * prefetch_factor <= delay``. Batch number b depends on the seed, b, the losses and the index
    alone. All ranks that are told the same losses draw the same seeds, one (different) each.

    After a `refresh` in the middle of a pass, begin a new pass: what was fetched ahead from the old index is then
    drawn again from the new one. A loop that goes on with the pass under way uses up what was fetched ahead first,
    and that depends on the number of workers.

    Args:
        index: the clusters to draw from.
        clusters_per_batch: M; with fewer than M - 1 impostor clusters all are taken and the batch is smaller.
        examples_per_cluster: D.
        batches: in one pass; None: an epoch, ``ceil(N / (M D world_size))``.
        seed: the same seed gives the same batches.
        rank: this process among ``world_size`` ones.
        world_size: processes that draw side by side.
        delay: batches after which losses take effect.
        exact_impostors: False finds 99 % of the impostors faster, by a tree, where there are tens of thousands of
            clusters (see `ClusterIndex.nearest_impostors`).

    Examples:
        Three clusters of a class each, at 0.5, 4.5 and 20.5; every batch is a seed cluster and its nearest impostor.

        >>> points = torch.tensor([[0.0], [1.0], [4.0], [5.0], [20.0], [21.0]])
        >>> index = ClusterIndex.fit(points, torch.tensor([0, 0, 1, 1, 2, 2]), 1)
        >>> list(NeighbourhoodSampler(index, clusters_per_batch=2, examples_per_cluster=2, batches=3))
        [[0, 1, 2, 3], [4, 5, 2, 3], [2, 3, 0, 1]]
    """

    def __init__(
        self,
        index: ClusterIndex,
        *,
        clusters_per_batch: int = 12,
        examples_per_cluster: int = 4,
        batches: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        delay: int = 8,
        exact_impostors: bool = True,
    ) -> None:
        if not isinstance(index, ClusterIndex):
            raise TypeError(f"index must be a ClusterIndex; found {type(index).__name__}")
        clusters_per_batch = check_whole(clusters_per_batch, "clusters_per_batch", 2)
        examples_per_cluster = check_whole(examples_per_cluster, "examples_per_cluster", 1)
        drawn = min(clusters_per_batch, len(index)) * examples_per_cluster
        if drawn > MOST_EXAMPLES:
            raise ValueError(
                f"a batch has at most {MOST_EXAMPLES:,} examples, or it fills the memory; found {drawn:,}: "
                f"clusters_per_batch={clusters_per_batch}, examples_per_cluster={examples_per_cluster}"
            )
        rank, world_size = check_whole(rank, "rank", -(2**31)), check_whole(world_size, "world_size", 1, 2**20)
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must be in 0..world_size-1; found rank={rank}, world_size={world_size}")
        batches = None if batches is None else check_whole(batches, "batches", 1)
        delay, seed = check_whole(delay, "delay", 0), check_whole(seed, "seed", -(2**63), 2**63 - 1)
        self.clusters_per_batch, self.examples_per_cluster = clusters_per_batch, examples_per_cluster
        self.batches, self.seed, self.rank, self.world_size = batches, seed, rank, world_size
        self.delay, self.exact_impostors = delay, exact_impostors
        self._losses = _numbers(torch.full((len(index.assignments),), NEVER_SEEN))
        self._drawn = 0  # batches drawn so far: also the number of the next one
        self._consumed: int | None = None  # batches whose losses came back; None before the first
        self._pass_start = 0
        self._resume_at: int | None = None  # how far into a pass a restored state was
        self._in_flight: deque[_Batch] = deque(maxlen=REMEMBERED)
        self._updates: deque[_Update] = deque()
        self._warned = False
        self.refresh(index)

    def __len__(self) -> int:
        if self.batches is not None:
            return self.batches
        return math.ceil(len(self._losses) / (self.clusters_per_batch * self.examples_per_cluster * self.world_size))

    def __iter__(self) -> Iterator[list[int]]:
        self._roll_back()  # what an abandoned pass fetched ahead is drawn again
        done, self._resume_at = self._resume_at or 0, None
        self._pass_start = self._drawn - done
        for _ in range(len(self) - done):
            yield self._draw()

    def clusters(self, indices: Tensor | Sequence[int]) -> Tensor:
        """The clusters (B,) that the examples of a batch were drawn from, also if the index is a newer one by now."""
        examples = _as_list(indices)
        for batch in self._in_flight:
            if batch.examples == examples:
                return torch.tensor(batch.clusters)
        raise ValueError(
            f"these {len(examples)} examples are not a batch that was drawn and still waits for its losses: "
            "ask for its clusters before update, with the indices in the order drawn"
        )

    def update(self, indices: Tensor | Sequence[int], losses: Tensor | Sequence[float]) -> None:
        """Cache the losses of examples, in O(batch). An example given twice gets the mean.

        A batch in flight counts as used if the indices are exactly its examples in the order drawn, or the examples of
        the batches of all ranks, in the order of the ranks. Losses of any other examples use up no batch.
        """
        examples = _as_list(indices)
        values = _as_losses(losses)
        self._check_update(examples, values)
        own = next((batch for batch in self._in_flight if _reports(examples, batch)), None)
        if own is not None:
            while self._in_flight.popleft() is not own:
                pass
            self._consumed = own.number + 1
            self._warn_if_late(own.number)
        if len(set(examples)) < len(examples):
            examples, values = _means(examples, values)
        number = (self._consumed or 0) - 1
        if own is None:  # nothing is left to find out about these clusters
            for j in {self._assignments[i] for i in examples}:
                self._new_until[j], self._fresh[j] = 0, 0
        self._updates.append(_Update(number, examples, [round(value / UNIT) for value in values]))
        self._settle()

    def refresh(self, index: ClusterIndex) -> None:
        """Draw from a new index of the same examples from now on. Cached losses stay with their examples."""
        if len(index.assignments) != len(self._losses):
            raise ValueError(
                f"the index has {len(index.assignments)} examples; the sampler was made for {len(self._losses)}"
            )
        # What counts when the next batch is used: what counts when one is drawn depends on the number of workers.
        self._settle()
        self._take_back(_tensor(self._losses))
        self._updates = deque(replace(update, before=None) for update in self._updates)
        self.index = index
        self._look_at_index()
        self._sizes: list[int] = index.sizes.tolist()
        self._starts: list[int] = (index.sizes.cumsum(0) - index.sizes).tolist()
        self._impostors = index.nearest_impostors(
            min(self.clusters_per_batch, len(index)) - 1, exact=self.exact_impostors
        ).cpu()
        self._weigh(torch.bincount(self._seen()[0], minlength=len(index)) == 0)

    def _look_at_index(self) -> None:
        self._assignments, self._members = _items(self.index.assignments), _items(self.index.order)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_assignments": None, "_members": None}  # a view of the index cannot be copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._look_at_index()

    def mean_losses(self) -> Tensor:
        """The mean cached loss of each cluster (J,), NaN where none is known."""
        return torch.tensor(self._sums, dtype=torch.float64) * UNIT / torch.tensor(self._known)

    def state_dict(self) -> dict[str, Any]:
        """The state after the last batch consumed (or drawn, if no losses were ever reported): ints and tensors.

        The index is not part of it: save it beside.
        """
        self._settle()
        position, waiting = self._position(), self._updates
        losses = _tensor(self._losses).clone()
        self._take_back(losses)
        return {
            "position": position,
            "in_pass": position - self._pass_start,
            "seed": self.seed,
            "losses": losses,
            "new": torch.tensor(self._new_until) > position,
            "waiting_numbers": torch.tensor([u.number for u in waiting], dtype=torch.long),
            "waiting_sizes": torch.tensor([len(u.examples) for u in waiting], dtype=torch.long),
            "waiting_examples": torch.tensor([i for u in waiting for i in u.examples], dtype=torch.long),
            "waiting_losses": torch.tensor([x for u in waiting for x in u.losses], dtype=torch.long),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken; the sampler must have been made with the same index."""
        self._check_state(state)
        if len(state["losses"]) != len(self._losses) or len(state["new"]) != len(self._new_until):
            raise ValueError(
                f"the state is of {len(state['losses'])} examples in {len(state['new'])} clusters; "
                f"the sampler has {len(self._losses)} in {len(self._sizes)}: give it the index saved with the state"
            )
        self.seed = int(state["seed"])
        self._drawn = int(state["position"])
        self._consumed = self._drawn or None
        in_pass = int(state["in_pass"])
        self._resume_at = in_pass if 0 < in_pass < len(self) else None
        self._pass_start = self._drawn - in_pass
        self._losses = _numbers(state["losses"])
        self._in_flight.clear()
        sizes = state["waiting_sizes"].tolist()
        self._updates = deque(
            _Update(number, examples.tolist(), losses.tolist())
            for number, examples, losses in zip(
                state["waiting_numbers"].tolist(),
                state["waiting_examples"].split(sizes),
                state["waiting_losses"].split(sizes),
                strict=True,
            )
        )
        self._weigh(state["new"].bool())

    def _draw(self) -> list[int]:
        number = self._drawn
        self._apply_due(number)
        seeds = self._draw_seeds(number)
        seed = seeds[self.rank]
        neighbourhood = [seed, *(j for j in self._impostors[seed].tolist() if j >= 0)]
        rng = random.Random(f"examples {self.seed} {number} {self.rank}")
        wanted = self.examples_per_cluster
        places: list[int] = []
        for j in neighbourhood:
            start, size = self._starts[j], self._sizes[j]
            members = range(start, start + size)
            again, rest = divmod(wanted, size)
            for _ in range(again):
                places += members
            places += _some(members, rest, rng)
        examples = [self._members[place] for place in places]
        clusters = [j for j in neighbourhood for _ in range(wanted)]
        start, total = 0, len(examples)
        if self.world_size > 1:
            sizes = (wanted * (1 + (self._impostors[seeds] >= 0).sum(dim=1))).tolist()
            start, total = sum(sizes[: self.rank]), sum(sizes)
        self._in_flight.append(_Batch(number, examples, clusters, start, total))
        self._drawn = number + 1
        return examples

    def _draw_seeds(self, number: int) -> list[int]:
        """One seed cluster for each rank; every rank draws them all, so that all agree on who takes which."""
        rng = random.Random(f"seeds {self.seed} {number}")
        seeds: list[int] = []
        for _ in range(self.world_size):
            seed = self._draw_seed(rng)
            for _ in range(16):  # two ranks on one cluster waste a batch; a few tries tell them apart
                if seed not in seeds:
                    break
                seed = self._draw_seed(rng)
            if self._fresh[seed]:
                self._new_until[seed], self._fresh[seed] = number + 1, 0
            seeds.append(seed)
        return seeds

    def _draw_seed(self, rng: random.Random) -> int:
        for tree in (self._fresh, self._weights):
            if tree.total > 0:
                return tree.find(rng.random() * tree.total)
        return rng.randrange(len(self._sizes))

    def _apply(self, update: _Update) -> None:
        update.before = [self._losses[i] for i in update.examples]
        clusters = [self._assignments[i] for i in update.examples]
        for i, j, before, now in zip(update.examples, clusters, update.before, update.losses, strict=True):
            self._losses[i] = now
            if before == NEVER_SEEN:
                self._known[j] += 1
                before = 0
            self._sums[j] += now - before
        for j in set(clusters):
            self._weights[j] = self._sums[j] / self._known[j]
            if self._sums[j] > 0 and self._fresh[j]:
                self._new_until[j], self._fresh[j] = update.number + self.delay + 1, 0

    def _apply_due(self, number: int) -> None:
        """Let the losses take effect that count when batch ``number`` is drawn."""
        for update in self._updates:
            if update.before is None and self._due(update, number):
                self._apply(update)

    def _settle(self) -> None:
        """Apply the updates that count from the next batch to be used on, and keep the others only.

        Those that the draws of batches fetched ahead have applied early are kept too, since they can be taken back.
        """
        position = self._position()
        self._apply_due(position)
        while self._updates and self._due(self._updates[0], position):
            self._updates.popleft()

    def _take_back(self, losses: Tensor) -> None:
        """Undo in ``losses`` (N,) what was applied early, for batches fetched ahead."""
        for update in reversed(self._updates):
            if update.before is not None:
                losses[torch.tensor(update.examples, dtype=torch.long)] = torch.tensor(update.before, dtype=torch.long)

    def _weigh(self, new: Tensor) -> None:
        """Weights of all clusters, from the losses of the examples; ``new`` (J,): which clusters are to come first."""
        clusters, losses = self._seen()
        known = torch.bincount(clusters, minlength=len(self._sizes))
        sums = torch.zeros_like(known).index_add_(0, clusters, losses)
        self._weights = SumTree(sums.double() / known.clamp_min(1))
        self._fresh = SumTree(new)
        # The number of the batch from which on a cluster is no longer new: it was a seed or showed a loss before.
        self._new_until: list[int] = torch.where(new, STILL_NEW, 0).tolist()
        self._known: list[int] = known.tolist()
        self._sums: list[int] = sums.tolist()

    def _seen(self) -> tuple[Tensor, Tensor]:
        """The clusters (n,) and the losses (n,) of the examples of which a loss is known."""
        losses = _tensor(self._losses)
        seen = losses != NEVER_SEEN
        return self.index.assignments.cpu()[seen], losses[seen]

    def _due(self, update: _Update, number: int) -> bool:
        """Whether the losses count when batch ``number`` is drawn."""
        return update.number + self.delay < number

    def _position(self) -> int:
        return self._drawn if self._consumed is None else self._consumed

    def _roll_back(self) -> None:
        if self._position() != self._drawn:
            start = self._pass_start
            self.load_state_dict(self.state_dict())
            self._pass_start, self._resume_at = start, None

    def _warn_if_late(self, number: int) -> None:
        if number + self.delay + 1 < self._drawn and not self._warned:
            self._warned = True
            warnings.warn(
                f"the losses of batch {number} came after batch {self._drawn - 1} was drawn, more than "
                f"delay={self.delay} later, so what is drawn depends on how far the DataLoader fetches ahead; "
                "give NeighbourhoodSampler a delay of at least num_workers * prefetch_factor",
                stacklevel=3,
            )

    def _check_state(self, state: dict[str, Any]) -> None:
        """Raise unless this is a state that `state_dict` can have given."""
        if not isinstance(state, Mapping):
            raise TypeError(f"the state must be what state_dict gave; found {type(state).__name__}")
        numbers = {name: state[name] for name in ("position", "in_pass", "seed") if name in state}
        check_layout({k: v for k, v in state.items() if k not in numbers}, STATE, "the state of the sampler")
        for name, least in (("position", 0), ("in_pass", 0), ("seed", -(2**63))):
            if name not in state:
                raise ValueError(f"the state of the sampler lacks {name!r}")
            check_whole(state[name], name, least, 2**63 - 1)
        sizes, waiting = state["waiting_sizes"], state["waiting_examples"]
        if len(sizes) and (int(sizes.min()) < 0 or int(sizes.max()) > len(waiting)):
            raise ValueError(f"the state of the sampler has waiting_sizes {int(sizes.min())}..{int(sizes.max())}")
        if int(sizes.sum()) != len(waiting) or int(state["in_pass"]) > int(state["position"]):
            raise ValueError("the state of the sampler does not fit itself: it was not given by state_dict")
        last = len(self._losses) - 1
        if len(waiting) and not 0 <= int(waiting.min()) <= int(waiting.max()) <= last:
            raise ValueError(
                f"the state of the sampler has examples {int(waiting.min())}..{int(waiting.max())} of 0..{last}"
            )
        for name, least in (("losses", NEVER_SEEN), ("waiting_losses", 0)):
            values, most = state[name], round(LARGEST_LOSS / UNIT)
            if len(values) and not least <= int(values.min()) <= int(values.max()) <= most:
                raise ValueError(f"the state of the sampler has {name} of {int(values.min())}..{int(values.max())}")

    def _check_update(self, examples: list[int], values: list[float]) -> None:
        if len(examples) != len(values):
            raise ValueError(f"found {len(examples)} indices and {len(values)} losses; expected one loss for each")
        if examples and not 0 <= min(examples) <= max(examples) < len(self._losses):
            raise IndexError(f"indices must lie in 0..{len(self._losses) - 1}; found {min(examples)}..{max(examples)}")
        if not all(0 <= value < LARGEST_LOSS for value in values):
            raise ValueError(
                f"losses must be finite and >= 0; found {min(values)} .. {max(values)} "
                f"with {sum(map(math.isnan, values))} NaN"
            )


def _reports(examples: list[int], batch: _Batch) -> bool:
    """Whether these are exactly the examples of the batch, or of the batches of all ranks in order."""
    own = slice(batch.start, batch.start + len(batch.examples))
    return examples == batch.examples or (len(examples) == batch.total and examples[own] == batch.examples)


def _some(members: range, count: int, rng: random.Random) -> list[int]:
    """``count`` distinct members; all subsets of that size are equally likely."""
    if 2 * count > len(members):
        return rng.sample(members, count)
    found: dict[int, None] = {}  # in the order drawn; `sample` does the same, at three times the cost
    while len(found) < count:
        found[members[int(rng.random() * len(members))]] = None
    return list(found)


def _means(examples: list[int], values: list[float]) -> tuple[list[int], list[float]]:
    """Each example once, with the mean of its values."""
    found: dict[int, list[float]] = {}
    for example, value in zip(examples, values, strict=True):
        found.setdefault(example, []).append(value)
    return list(found), [sum(several) / len(several) for several in found.values()]


def _as_list(indices: Tensor | Sequence[int]) -> list[int]:
    if isinstance(indices, Tensor):
        return cast(list[int], check_ids(indices, None, "indices", "losses").tolist())
    if isinstance(indices, str | bytes | Mapping) or not isinstance(indices, Iterable):
        raise TypeError(f"indices must be integers (n,); found {type(indices).__name__}")
    return [check_whole(i, "an index", -(2**62)) for i in indices]


def _as_losses(losses: Tensor | Sequence[float]) -> list[float]:
    if isinstance(losses, Tensor):
        check_representations(losses.reshape(-1, 1) if losses.numel() else torch.zeros(1, 1), "losses", finite=False)
        return cast(list[float], losses.flatten().tolist())
    if isinstance(losses, str | bytes | Mapping) or not isinstance(losses, Iterable):
        raise TypeError(f"losses must be numbers (n,); found {type(losses).__name__}")
    return [check_number(x, "a loss") for x in losses]


def _numbers(values: Tensor) -> "array[int]":
    """Integers (N,) in a place where Python reads and writes single ones fast: a tensor takes microseconds for that."""
    numbers = array("q", bytes(8 * len(values)))
    if len(values):
        _tensor(numbers).copy_(values)
    return numbers


def _items(values: Tensor) -> memoryview:
    """A view of the integers of a tensor (N,) from which single ones are read as fast as from an array."""
    return memoryview(values.cpu().contiguous().numpy())  # type: ignore[arg-type]


def _tensor(numbers: "array[int]") -> Tensor:
    """The same memory as a tensor (N,)."""
    return torch.frombuffer(numbers, dtype=torch.long)


class SumTree:
    """Non-negative weights in a complete binary tree of partial sums.

    Inner sums are always made anew from their two children, so they never drift, and equal weights give equal trees
    whatever the order in which the weights were set.
    """

    def __init__(self, weights: Tensor | Sequence[float]) -> None:
        leaves = torch.as_tensor(weights, dtype=torch.float64)
        self._size = 1 << max(0, len(leaves) - 1).bit_length()
        # Node n has the children 2n and 2n + 1; the leaves come last. Python reads single numbers from an array
        # faster than from a tensor, and a tensor over the same memory fills whole levels at once.
        self._sums = array("d", bytes(16 * self._size))
        nodes = torch.frombuffer(self._sums, dtype=torch.float64)
        nodes[self._size : self._size + len(leaves)] = leaves
        level = self._size
        while level > 1:
            level //= 2
            nodes[level : 2 * level] = nodes[2 * level : 4 * level : 2] + nodes[2 * level + 1 : 4 * level : 2]

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return self._sums[1]

    def __getitem__(self, j: int) -> float:
        return self._sums[self._size + j]

    def __setitem__(self, j: int, weight: float) -> None:
        sums, node = self._sums, self._size + j
        sums[node] = weight
        while node > 1:
            node >>= 1
            sums[node] = sums[2 * node] + sums[2 * node + 1]

    def find(self, point: float) -> int:
        """The entry at ``point`` in [0, total) along the weights laid end to end; never one of weight zero."""
        sums, node = self._sums, 1
        while node < self._size:
            node *= 2
            # The right half only if it has any weight: rounding must not lead to an empty entry.
            if point >= sums[node] and sums[node + 1] > 0:
                point -= sums[node]
                node += 1
        return node - self._size
