"""Which examples are shown: all of them, or a sample that keeps the classes and the parts in proportion."""

import numpy as np


def choose(labels: np.ndarray, split: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Ids (n,) of at most ``count`` of N examples, in random order, so that no class is drawn over the others.

    Args:
        labels: (N,) classes.
        split: (N,) parts.
        count: how many at most. Every class of every part gives its share of them, and at least one while they last.
        seed: the same one gives the same ids.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    _, group, sizes = np.unique(np.stack([labels, split])[:, order], axis=1, return_inverse=True, return_counts=True)
    by_group = np.argsort(group, kind="stable")
    rank = np.empty(len(order), np.int64)  # of each example in its group
    rank[by_group] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # The first of each group, then each group at the pace of its size.
    chosen = np.argsort(rank / sizes[group], kind="stable")[:count]
    return order[np.sort(chosen)]
