"""The tree over centres against comparing with all of them."""

import pytest
import torch

from magnet import tree as tree_module
from magnet.classify import NearestClusters
from magnet.index import ClusterIndex
from magnet.neighbours import squared_distances
from magnet.tree import FEWEST, LEAF, CentreTree, sample_of


def cloud(count, d, seed=0, dtype=torch.float32):
    return torch.randn(count, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def groups(count=20_000, number=300, d=32, dtype=torch.float32):
    where = torch.randint(number, (count,), generator=torch.Generator().manual_seed(1))
    return 2 * cloud(number, d, 2, dtype)[where] + cloud(count, d, 3, dtype)


def recall(found, queries, points, count, labels=None, point_labels=None):
    """By distance: of points at the same distance any will do."""
    true = squared_distances(queries, points)
    if labels is not None:
        true[labels[:, None] == point_labels] = torch.inf
    last = true.topk(count, dim=1, largest=False).values[:, -1:]
    mine = true.gather(1, found)
    assert (found.sort(dim=1).values.diff(dim=1) > 0).all()  # none is given twice
    return float((mine <= last * (1 + 1e-5)).double().mean())


KINDS = {
    "3 dimensions": lambda: cloud(20_000, 3),
    "8 dimensions": lambda: cloud(20_000, 8),
    "groups": groups,
    "groups in double": lambda: groups(dtype=torch.float64),
    "a line in 64": lambda: cloud(20_000, 1) * torch.ones(64) + 1e-3 * cloud(20_000, 64, 1),
    "far from the origin": lambda: cloud(20_000, 4) + 1e3,
    "every point four times": lambda: cloud(5_000, 4).repeat(4, 1),
    "one group dense, one wide": lambda: torch.cat([1e-3 * cloud(15_000, 6), 10 + 10 * cloud(5_000, 6)]),
}


DOES_NOT_PAY = {("8 dimensions", 128), ("groups", 128), ("groups in double", 128)}  # beyond the own group all is noise


@pytest.mark.parametrize("count", [11, 128])
@pytest.mark.parametrize("kind", KINDS)
def test_99_percent_of_the_nearest_points_are_found_in_some_of_the_leaves(kind, count):
    points = KINDS[kind]()
    tree = CentreTree(points)
    beam = tree.beam(points[sample_of(points)], count)
    if (kind, count) in DOES_NOT_PAY:
        assert beam is None
        return
    assert beam[0] <= len(tree.centres) // tree_module.WORTH
    queries = points[torch.randperm(len(points), generator=torch.Generator().manual_seed(9))[:1000]]
    distances, ids = tree.nearest(queries, count, beam)
    assert distances.dtype == points.dtype
    assert (distances.diff(dim=1) >= 0).all()
    expected = (queries[:, None].double() - points[ids].double()).square().sum(dim=2)
    torch.testing.assert_close(distances.double(), expected, rtol=1e-4, atol=1e-12)
    assert recall(ids, queries, points, count) >= 0.99


def test_in_noise_of_many_dimensions_the_answer_is_to_compare_with_all():
    points = cloud(20_000, 48)
    assert CentreTree(points).beam(points[sample_of(points)], 11) is None


def test_more_neighbours_than_some_of_the_leaves_hold_are_not_looked_for_in_them():
    points = cloud(9_000, 2)
    assert CentreTree(points).beam(points[:50], 4_000) is None


def test_points_of_the_own_label_do_not_count():
    points, labels = groups(), torch.arange(20_000) // 7
    tree, sample = CentreTree(points), sample_of(points)
    beam = tree.beam(points[sample], 11, labels[sample], labels)
    rows = torch.arange(0, 20_000, 37)
    _, ids = tree.nearest(points[rows], 11, beam, labels[rows], labels)
    assert (labels[ids] != labels[rows, None]).all()
    assert recall(ids, points[rows], points, 11, labels[rows], labels) >= 0.99


def test_all_leaves_give_what_comparing_with_all_gives():
    points, queries = cloud(3_000, 12), cloud(200, 12, 5)
    tree = CentreTree(points)
    distances, ids = tree.nearest(queries, 20, [len(tree.centres)])
    true = squared_distances(queries, points).topk(20, dim=1, largest=False)
    assert torch.equal(ids, true.indices)
    torch.testing.assert_close(distances.double(), true.values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [1, 2, 5, LEAF, LEAF + 1, 3 * LEAF])
def test_trees_of_few_points_have_few_leaves_and_find_all_that_there_are(number):
    points = cloud(number, 3)
    tree = CentreTree(points)
    assert len(tree.centres) <= max(1, 2 * number // LEAF + 1)
    distances, ids = tree.nearest(cloud(4, 3, 1), 10_000, [1])
    assert distances.shape == ids.shape == (4, number)
    assert torch.equal(ids.sort(dim=1).values, torch.arange(number).expand(4, -1))


def test_equal_points_are_cut_into_leaves_and_found_once_each():
    points = torch.ones(1_000, 3)
    tree = CentreTree(points)
    assert len(tree.centres) == 8
    assert tree._sizes.tolist() == [125] * 8
    distances, ids = tree.nearest(points[:2], 300, [3])
    assert (distances == 0).all()
    assert (ids.sort(dim=1).values.diff(dim=1) > 0).all()


def test_a_query_whose_leaves_hold_too_few_is_compared_with_all():
    points = torch.cat([cloud(600, 2), 100 + cloud(3, 2)])  # three by themselves
    tree = CentreTree(points)
    found = tree.nearest(points[-1:], 9, [1])
    true = squared_distances(points[-1:], points).topk(9, dim=1, largest=False)
    assert torch.equal(found[1], true.indices)
    labels = torch.arange(603) % 2  # of each label but one there is nobody else
    labels[labels == 0] = 1
    labels[5] = 0
    distances, ids = tree.nearest(points[:3], 2, [1], labels[:3], labels)
    assert ids.tolist() == [[5, -1]] * 3
    assert distances[:, 1].isinf().all()


def test_the_same_answers_every_time_alone_or_among_others_and_with_any_number_of_threads():
    points = groups(10_000, d=8)
    tree, again = CentreTree(points), CentreTree(points.clone())
    beam = tree.beam(points[sample_of(points)], 11)
    assert again.beam(points[sample_of(points)], 11) == beam
    _, ids = tree.nearest(points, 11, beam)
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert torch.equal(CentreTree(points).nearest(points, 11, beam)[1], ids)
    finally:
        torch.set_num_threads(before)
    some = torch.tensor([17, 9_000, 3])
    assert torch.equal(tree.nearest(points[some], 11, beam)[1], ids[some])


def test_very_many_leaves_are_themselves_found_by_a_tree(monkeypatch):
    monkeypatch.setattr(tree_module, "LEAF", 16)
    monkeypatch.setattr(tree_module, "FEWEST", 1000)
    points = cloud(20_000, 3)
    tree = CentreTree(points)
    beam = tree.beam(points[sample_of(points)], 5)
    assert len(beam) == 2
    assert beam[1] < len(tree._above.centres)
    queries = points[::41]
    assert recall(tree.nearest(queries, 5, beam)[1], queries, points, 5) >= 0.99


def test_gradients_flow_through_the_distances():
    points, queries = cloud(500, 3, dtype=torch.float64), cloud(2, 3, 1, dtype=torch.float64)
    tree = CentreTree(points.requires_grad_())
    distances, ids = tree.nearest(queries.requires_grad_(), 3, [2])
    distances.sum().backward()
    expected = 2 * (queries[:, None] - points[ids]).sum(dim=1)
    torch.testing.assert_close(queries.grad, expected)
    torch.testing.assert_close(points.grad.sum(dim=0), -expected.sum(dim=0))


def index_of(points, per_class=4):
    return ClusterIndex(points, torch.arange(len(points)) // per_class, torch.arange(len(points)), torch.tensor(4.0))


def test_nearest_clusters_by_the_tree_vote_as_all_do():
    index, queries = index_of(groups(d=8)), groups(d=8) + cloud(20_000, 8, 11) / 8**0.5 * 2
    queries = queries[::20]
    exact, near = (NearestClusters(index, 32, exact=e) for e in (True, False))
    assert near._tree is not None
    assert exact._tree is None
    _, ids = near.nearest(queries)
    assert recall(ids, queries, index.centres, 32) >= 0.99
    assert float((near.predict(queries) == exact.predict(queries)).double().mean()) >= 0.99
    assert torch.equal(near.predict_proba(queries[:50]), near.predict_proba(queries)[:50])
    moved = near.moved_to(index.centres.flip(0).contiguous())
    _, ids = moved.nearest(queries)
    assert recall(ids, queries, moved.references, 32) >= 0.99


def test_nearest_clusters_are_compared_with_all_where_a_tree_does_not_pay():
    for index in (index_of(cloud(FEWEST - 1, 4)), index_of(cloud(FEWEST, 64))):
        assert NearestClusters(index, 32, exact=False)._tree is None
