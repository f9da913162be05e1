"""The tree of sums draws in proportion to its weights."""

import random

import pytest

from magnet.sampler import SumTree


def entry_at(weights, point):
    """Walk along the weights, laid end to end."""
    for j, weight in enumerate(weights):
        if point < weight:
            return j
        point -= weight
    raise AssertionError


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 100])
def test_it_finds_the_entry_that_a_walk_along_the_weights_finds(count):
    rng = random.Random(count)
    weights = [rng.choice([0, 1, 2, 5]) for _ in range(count - 1)] + [3]
    tree = SumTree(weights)
    assert tree.total == sum(weights)
    assert [tree[j] for j in range(count)] == weights
    for point in range(sum(weights)):
        assert tree.find(point) == entry_at(weights, point)
        assert tree.find(point + 0.5) == entry_at(weights, point + 0.5)


def test_changed_weights_give_the_tree_that_they_would_have_made():
    rng = random.Random(0)
    weights = [rng.random() for _ in range(37)]
    tree = SumTree(weights)
    for _ in range(500):
        j = rng.randrange(37)
        weights[j] = rng.choice([0.0, rng.random() * 10 ** rng.randint(-9, 9)])
        tree[j] = weights[j]
    fresh = SumTree(weights)
    assert tree.total == fresh.total  # exactly: nothing drifts
    assert all(tree.find(u * tree.total) == fresh.find(u * tree.total) for u in (rng.random() for _ in range(500)))


def test_an_entry_of_weight_zero_is_never_found_even_at_the_very_end():
    for weights in ([0.0, 1.0, 0.0], [0.1] * 10 + [0.0] * 6, [1e-300, 0.0, 1e300, 0.0], [0.0] * 9 + [0.3]):
        tree = SumTree(weights)
        for u in (0.0, 0.3, 0.7, 1 - 2**-53, 1.0):
            assert weights[tree.find(u * tree.total)] > 0


def test_an_empty_tree_and_one_of_zeros_have_no_weight():
    assert SumTree([]).total == 0
    assert SumTree([0.0] * 5).total == 0


@pytest.mark.parametrize("count", [16, 2**16])
def test_a_change_touches_one_path_only(count):
    tree = SumTree([1.0] * count)
    before = list(tree._sums)
    tree[3] = 9.0
    changed = sum(a != b for a, b in zip(before, tree._sums, strict=True))
    assert changed == count.bit_length()  # the leaf and the inner sums above it
