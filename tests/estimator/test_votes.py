"""Votes weighted by the mass of clusters."""

import numpy as np
import torch

from magnet.estimator.choosing import Data, hold_out
from magnet.estimator.votes import Trial as Trial
from magnet.estimator.votes import WeightedVotes, calibrate
from magnet.index import ClusterIndex


def test_votes_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    centres, queries = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    columns, mass = np.array([0, 0, 1, 2, 2, 2]), np.array([1.0, 5, 2, 0.1, 7, 3])
    votes = WeightedVotes(*map(torch.tensor, (centres, columns, mass)), variance=0.7, scaling=1.3, neighbours=6).proba(
        torch.tensor(queries)
    )
    distances = ((queries[:, None] - centres) ** 2).sum(axis=2)
    each = mass * np.exp(-1.3 * distances / (2 * 0.7))
    expected = np.stack([each[:, columns == c].sum(axis=1) for c in range(3)], axis=1) / each.sum(axis=1)[:, None]
    np.testing.assert_allclose(votes.numpy(), expected)


def test_calibration_finds_the_scaling_of_the_data():
    # Two Gaussian classes of unit variance in one dimension: with sigma^2 = 1 the right scaling is 1.
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(4000) % 2
    r = (2.0 * labels + torch.randn(4000, generator=rng)).double()[:, None]
    index = ClusterIndex(torch.tensor([[0.0], [2.0]]).double(), torch.arange(2), labels, torch.tensor(1.0))
    scaling, loss = calibrate([Trial(index, r, labels)], torch.ones(2).double(), neighbours=2)
    assert 0.85 < scaling < 1.15
    assert loss < 0.5


def test_held_out_parts_are_disjoint_stratified_and_leave_something_of_each_class():
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate([100, 50, 2, 1])])
    data = Data(torch.arange(len(labels)).double()[:, None], labels)
    folds = hold_out(data, 0.1, torch.ones(4), 8, seed=0)
    seen = torch.cat([held.x for held in folds.held])
    assert len(seen.unique()) == len(seen)
    for part, held in zip(folds.parts, folds.held, strict=True):
        assert sorted(torch.cat([part.x, held.x]).flatten().tolist()) == list(range(len(labels)))
        assert part.labels.unique().tolist() == [0, 1, 2, 3]
        assert torch.bincount(held.labels)[:2].tolist() == [10, 5]
    assert hold_out(data.take(torch.arange(20)), 0.1, torch.ones(4), 8, seed=0) is None
