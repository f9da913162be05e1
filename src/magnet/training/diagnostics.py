"""Numbers that reveal a broken run: what batches are made of, and how much the index moves."""

from collections import Counter
from typing import Any

import numpy as np
from torch import Tensor

from magnet.index import ClusterIndex


def churn(before: Tensor, after: Tensor) -> float:
    """The fraction of examples that left their cluster between two assignments (N,), whatever the ids are now.

    Each new cluster is taken as the continuation of the old one that most of its members come from.
    """
    old = int(before.max()) + 1
    pairs = (after * old).add_(before).numpy()
    pairs.sort()  # in place: `torch.unique` of pairs takes many times their memory
    first = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]]))
    stayed = np.zeros(int(after.max()) + 1, np.int64)
    np.maximum.at(stayed, pairs[first] // old, np.diff(first, append=len(pairs)))
    return 1 - int(stayed.sum()) / len(after)


class BatchWatch:
    """Collects what batches look like between two looks at it."""

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels
        self.seeds: set[int] = set()
        self.impostors: Counter[int] = Counter()
        self.distinct: list[int] = []

    def see(self, labels: Tensor, clusters: Tensor, draws_clusters: bool) -> None:
        """Take note of a batch: labels (B,) and clusters (B,), on the CPU."""
        first, *_ = every = labels.tolist()
        found = set(every)
        self.distinct.append(len(found))
        if draws_clusters:
            self.seeds.add(int(clusters[0]))
            self.impostors.update(found - {first})

    def report(self) -> dict[str, float]:
        """Distinct classes in a batch, on average since the last report."""
        mean = sum(self.distinct) / max(len(self.distinct), 1)
        self.distinct = []
        return {"classes_per_batch": round(mean, 2)}

    def close_period(self, index: ClusterIndex) -> dict[str, object]:
        """Between two refreshes: the share of clusters that were seeds, and how often classes were impostors."""
        coverage = len(self.seeds) / len(index)
        histogram = {str(label): count for label, count in sorted(self.impostors.items())}
        self.seeds, self.impostors = set(), Counter()
        return {"seed_coverage": round(coverage, 4), "impostor_classes": histogram}

    def state(self) -> dict[str, object]:
        """What has been seen since the last looks, as plain values."""
        return {"seeds": sorted(self.seeds), "impostors": sorted(self.impostors.items()), "distinct": self.distinct}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved `state`."""
        self.seeds, self.impostors = set(state["seeds"]), Counter(dict(state["impostors"]))
        self.distinct = list(state["distinct"])
