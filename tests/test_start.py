"""The closed-form start: whitening within clusters, votes weighted by members, and what held-out examples choose."""

import numpy as np
import pytest
import torch

from magnet.classify import NearestClusters
from magnet.index import ClusterIndex
from magnet.recipe import Recipe
from magnet.start import StartSettings, WithinClusters, choose_start, order_directions
from magnet.votes import Examples, VotingTrial, calibrate_votes, cluster, hold_out, stratified_folds


def test_votes_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    centres, queries = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    columns, mass = np.array([0, 0, 1, 2, 2, 2]), np.array([1.0, 5, 2, 0.1, 7, 3])
    index = ClusterIndex(
        torch.tensor(centres), torch.tensor(columns), torch.arange(6), torch.tensor(0.7, dtype=torch.float64)
    )
    votes = NearestClusters(index, scaling=1.3, weights=torch.tensor(mass)).predict_proba(torch.tensor(queries))
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
    scaling, loss, _ = calibrate_votes([VotingTrial(index, r, labels)], torch.ones(2).double(), neighbours=2)
    assert 0.85 < scaling < 1.15
    assert loss < 0.5


def test_held_out_parts_are_disjoint_stratified_and_leave_something_of_each_class():
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate([100, 50, 2, 1])])
    data = Examples(torch.arange(len(labels)).double()[:, None], labels)
    folds = hold_out(data, 0.1, torch.ones(4), 8, seed=0)
    seen = torch.cat([held.x for held in folds.held])
    assert len(seen.unique()) == len(seen)
    for part, held in zip(folds.parts, folds.held, strict=True):
        assert sorted(torch.cat([part.x, held.x]).flatten().tolist()) == list(range(len(labels)))
        assert part.labels.unique().tolist() == [0, 1, 2, 3]
        assert torch.bincount(held.labels)[:2].tolist() == [10, 5]
    assert hold_out(data.take(torch.arange(20)), 0.1, torch.ones(4), 8, seed=0) is None


def two_modes(classes=4, each=60, features=12, seed=0):
    """Classes of two modes, on opposite sides of the origin: the means of all classes are nearly the same."""
    rng = torch.Generator().manual_seed(seed)
    modes = torch.randn(classes, features, generator=rng, dtype=torch.float64)
    modes = torch.stack([modes, -modes], dim=1).flatten(0, 1)
    which = torch.arange(2 * classes).repeat_interleave(each)
    x = modes[which] + torch.randn(len(which), features, generator=rng, dtype=torch.float64)
    return Examples(x, which // 2)


def test_the_start_whitens_what_varies_within_clusters():
    data = two_modes()
    start = WithinClusters(*data, 2).start(shrinkage=0.0, dim=12)
    r = start(data.x)
    index = cluster(data.x.float(), data.labels, 2, seed=0)
    residuals = (
        r.numpy()
        - np.stack([r[index.assignments == j].mean(dim=0) for j in range(len(index))])[index.assignments.numpy()]
    )
    covariance = residuals.T @ residuals / (len(residuals) - len(index))
    np.testing.assert_allclose(covariance, np.eye(12), atol=1e-8)


def test_the_start_with_one_cluster_a_class_is_linear_discriminant_analysis():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    x = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5)) + 2 * np.eye(3, 5)[y]
    start = WithinClusters(torch.tensor(x), torch.tensor(y)).start(shrinkage=0.0, dim=2)
    ours = start(torch.tensor(x)).numpy()
    theirs = LinearDiscriminantAnalysis(solver="eigen", n_components=2).fit(x, y).transform(x)
    # The same distances between examples: the two differ by a rotation and a shift at most.
    gap = lambda z: ((z[:40, None] - z[None, :40]) ** 2).sum(axis=2)  # noqa: E731
    np.testing.assert_allclose(gap(ours), gap(theirs), rtol=0.02, atol=1e-3)


def test_the_start_does_not_depend_on_how_the_rows_are_cut_into_blocks(monkeypatch):
    data = two_modes()
    whole = WithinClusters(*data, power=1.0, standardize=True).start(0.4, 6)
    monkeypatch.setattr("magnet.start.BLOCK", 7)
    np.testing.assert_allclose(WithinClusters(*data, standardize=True).start(0.4, 6).components, whole.components)


def test_held_out_votes_find_the_modes_that_labels_hide_and_no_others():
    folds = hold_out(two_modes(), 0.2, torch.ones(4), 128, seed=0)
    assert choose_start(folds, standardize=(False,), dim=8)[0].n_clusters == 2
    rng = torch.Generator().manual_seed(1)
    labels = torch.arange(240) % 4
    x = 2 * torch.eye(4, 12, dtype=torch.float64)[labels] + torch.randn(240, 12, generator=rng, dtype=torch.float64)
    folds = hold_out(Examples(x, labels), 0.2, torch.ones(4), 128, seed=0)
    assert choose_start(folds, standardize=(False,), dim=8)[0].n_clusters == 1


def test_classes_of_one_mode_and_of_six_get_clusters_by_their_sizes():
    rng = torch.Generator().manual_seed(0)
    modes = 5 * torch.randn(14, 20, generator=rng, dtype=torch.float64)
    owner = torch.tensor([0] * 6 + [1] * 6 + [2, 3])  # two classes of six kinds, two of one
    which = torch.arange(14).repeat_interleave(40)
    x = modes[which] + 2 * torch.randn(len(which), 20, generator=rng, dtype=torch.float64)
    data = Examples(x, owner[which])
    index = cluster(data.x, data.labels, 4, seed=0)
    assert torch.bincount(index.centre_labels).tolist() == [7, 7, 1, 1]
    best = choose_start(hold_out(data, 0.2, torch.ones(4), 128, seed=0), standardize=(False,), dim=20)[0]
    assert best.n_clusters == 4


def test_whitening_within_clusters_is_taken_where_it_clearly_helps_and_else_within_classes():
    folds = hold_out(two_modes(each=200), 0.2, torch.ones(4), 128, seed=0)
    apart = choose_start(folds, standardize=(False,), dim=8)[0]
    assert (apart.n_clusters, apart.settings.start_clusters) == (2, 2)  # what lies between the two modes is no noise
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(600) % 3
    x = 2 * torch.eye(3, 12, dtype=torch.float64)[labels] + torch.randn(600, 12, generator=rng, dtype=torch.float64)
    folds = hold_out(Examples(x, labels), 0.2, torch.ones(3), 128, seed=0)
    assert choose_start(folds, standardize=(False,), clusters=(4,), dim=8)[0].settings.start_clusters == 1
    assert (
        choose_start(folds, standardize=(False,), clusters=(4,), start_clusters=4, dim=8)[0].settings.start_clusters
        == 4
    )


def test_the_square_root_is_taken_where_it_helps_and_never_of_negative_features():
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(600) % 3
    roots = 3 + torch.eye(3, 10, dtype=torch.float64)[labels] + torch.randn(600, 10, generator=rng, dtype=torch.float64)
    x = roots.clamp_min(0) ** 4  # of skewed features the power that makes them even is the lower one
    folds = hold_out(Examples(x, labels), 0.2, torch.ones(3), 128, seed=0)
    assert choose_start(folds, clusters=(1,), dim=8)[0].settings.power == 0.5
    folds = hold_out(Examples(x - 1, labels), 0.2, torch.ones(3), 128, seed=0)
    assert choose_start(folds, clusters=(1,), dim=8)[0].settings.power == 1


def test_ordered_directions_are_a_rotation_with_the_discriminating_ones_first():
    data = two_modes()
    data = Examples(data.x + 4 * torch.eye(4, 12, dtype=torch.float64)[data.labels], data.labels)
    turn = order_directions(data.x, data.labels)
    np.testing.assert_allclose(turn @ turn.T, np.eye(12), atol=1e-10)
    turned = data.x @ turn.T
    means = torch.stack([turned[data.labels == c].mean(dim=0) for c in range(4)])
    strength = means.var(dim=0)
    assert (strength[:3] > 1e3 * strength[3:].max()).all()
    assert (strength[:2] >= strength[1:3]).all()


def test_every_example_is_held_out_once_unless_it_is_alone():
    labels = torch.tensor([0] * 11 + [1] * 2 + [2] + [4] * 5)
    fold = stratified_folds(labels, folds=5, seed=0)
    assert fold[labels == 2].tolist() == [-1]
    for c in (0, 1, 4):
        counts = torch.bincount(fold[labels == c], minlength=5)
        assert int(counts.max()) - int(counts.min()) <= 1
        assert int(counts.max()) < int((labels == c).sum())


def test_of_very_many_examples_settings_are_chosen_by_a_part_with_enough_of_each_class():
    def part(examples, classes):
        data = Examples(torch.zeros(examples, 1), torch.arange(examples) % classes)
        return torch.bincount(Recipe().part_to_choose_by(data, seed=0).labels, minlength=classes)

    few = part(60_000, 10)
    assert 15_000 <= int(few.sum()) <= 20_000
    assert int(few.max()) - int(few.min()) <= 1
    assert int(part(90_000, 3_000).min()) >= 8
    assert int(part(5_000, 10).sum()) == 5_000


@pytest.mark.parametrize("matrix", [None, torch.randn(3, 6, generator=torch.Generator().manual_seed(1)).double()])
def test_unit_length_brings_whitened_examples_to_their_mean_length_before_the_map(matrix):
    generator = torch.Generator().manual_seed(0)
    data = Examples(torch.rand(40, 6, generator=generator).double(), torch.arange(40) % 4)
    settings = StartSettings(0.5, False, 0.3)
    plain, start = settings.fit(data, 6, seed=0), settings._replace(unit_length=True).fit(data, 6, seed=0)
    squares = sum(float((plain(row[None])[0] ** 2).sum()) for row in data.x) / 40
    for row in data.x:
        expected = plain(row[None])[0]
        expected = expected / sum(float(value) ** 2 for value in expected) ** 0.5 * squares**0.5
        found = start if matrix is None else start.then(matrix)
        expected = expected if matrix is None else matrix @ expected
        torch.testing.assert_close(found(row[None])[0], expected)


def test_the_length_stays_where_it_tells_the_classes_apart_and_in_few_dimensions():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(300) % 3
    x = 0.01 * torch.randn(300, 40, generator=generator).double()
    x[:, 0] += 3.0 * y + 0.5 * torch.randn(300, generator=generator)  # on a line, the second class in the middle
    folds = hold_out(Examples(x, y), 0.2, torch.ones(3), 128, seed=0)
    assert not choose_start(folds, standardize=(False,), clusters=(1,), dim=40)[0].settings.unit_length
    few = hold_out(Examples(x[:, :8], y), 0.2, torch.ones(3), 128, seed=0)
    assert not choose_start(few, standardize=(False,), clusters=(1,), dim=8)[0].settings.unit_length
    assert choose_start(few, standardize=(False,), clusters=(1,), unit_length=(True,), dim=8)[0].settings.unit_length
