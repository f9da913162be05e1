"""Nearest rows: exact, in bounded memory, and in time that grows with the data and no faster."""

import pytest
import torch

from magnet.evaluation.errors import retrieval
from magnet.neighbours import equal_pairs, nearest, nearest_of_chunk, smallest
from watching import Watch


def points(n, d=5, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("width", "count"), [(5000, 3), (4099, 11), (300, 1), (300, 299), (7, 7), (1000, 0)])
def test_the_smallest_are_those_of_a_sort(width, count):
    x = points(40, width)
    values, places = smallest(x, count)
    assert torch.equal(values, x.sort(dim=1).values[:, :count])
    assert torch.equal(x.gather(1, places), values)
    assert all(len(set(row)) == count for row in places.tolist())


def test_the_smallest_of_equal_and_infinite_values_are_as_many_as_asked_for():
    x = torch.full((3, 4000), torch.inf)
    x[0, 5::7] = 1.0
    x[1, 3999] = -2.0
    values, places = smallest(x, 20)
    assert values[0].tolist() == [1.0] * 20
    assert values[1].tolist() == [-2.0] + [torch.inf] * 19
    assert all(len(set(row)) == 20 for row in places.tolist())


def test_equal_pairs_are_those_of_a_comparison_of_all():
    g = torch.Generator().manual_seed(0)
    a, b = torch.randint(9, (50,), generator=g), torch.randint(4, 15, (70,), generator=g)
    pairs = torch.stack(equal_pairs(a, b), dim=1)
    assert sorted(pairs.tolist()) == (a[:, None] == b).nonzero().tolist()
    assert all(len(side) == 0 for side in equal_pairs(a[:0], b))
    assert all(len(side) == 0 for side in equal_pairs(a, b + 100))


@pytest.mark.parametrize("elements", [1, 100, 4000, 2**22])
def test_blocks_and_chunks_find_what_a_full_table_finds(monkeypatch, elements):
    monkeypatch.setattr("magnet.neighbours.CHUNK_ELEMENTS", elements)
    monkeypatch.setattr("magnet.neighbours.WIDTH", 64)
    queries, references = points(20), points(150, seed=1)
    distances, ids = nearest(queries, references, 9)
    table = torch.cdist(queries, references, compute_mode="donot_use_mm_for_euclid_dist").square()
    assert torch.equal(ids, table.argsort(dim=1)[:, :9])
    torch.testing.assert_close(distances, table.sort(dim=1).values[:, :9], rtol=1e-4, atol=1e-4)


def groups(ratio, d=32, per_group=40):
    """Points in 25 groups, ``ratio`` times as far from the mean of all as from that of their group."""
    g = torch.Generator().manual_seed(0)
    places = torch.randn(25, d, generator=g, dtype=torch.float64)
    places = ratio * places / places.norm(dim=1, keepdim=True)
    return (places.repeat(per_group, 1) + torch.randn(25 * per_group, d, generator=g) / d**0.5).float()


@pytest.mark.parametrize("ratio", [1, 100, 1000, 10_000])
@pytest.mark.parametrize("count", [1, 10, 40, 60])  # of a group of 40: some, all, and some of other groups
@pytest.mark.parametrize("elements", [1000, 2**22])
def test_neighbours_within_groups_that_are_far_apart_are_exact_in_single_precision(monkeypatch, ratio, count, elements):
    monkeypatch.setattr("magnet.neighbours.CHUNK_ELEMENTS", elements)
    x = groups(ratio)
    queries = x[:50] + 0.01 * points(50, 32)
    distances, ids = nearest(queries, x, count)
    table = (queries.double()[:, None] - x.double()).square().sum(dim=2)
    values, expected = table.sort(dim=1)
    near = min(count, 40)
    assert torch.equal(ids[:, :near], expected[:, :near])
    torch.testing.assert_close(distances.double(), values[:, :count], rtol=3e-4, atol=0)


@pytest.mark.parametrize("ratio", [1, 1000])
def test_the_distance_of_a_point_to_itself_is_zero(ratio):
    x = groups(ratio)
    for count in (1, 5, 60):
        distances, ids = nearest(x[:100], x, count)
        assert torch.equal(ids[:, 0], torch.arange(100))
        assert distances[:, 0].max() == 0


def test_impostors_within_groups_that_are_far_apart_are_exact_in_single_precision():
    x, labels = groups(1000), torch.arange(1000) // 25 % 4
    distances, ids = nearest_of_chunk(x[:80], x, 12, labels[:80], labels)
    table = (x[:80].double()[:, None] - x.double()).square().sum(dim=2)
    table[labels[:80, None] == labels] = torch.inf
    assert torch.equal(ids, table.argsort(dim=1)[:, :12])
    torch.testing.assert_close(distances.double(), table.sort(dim=1).values[:, :12], rtol=1e-5, atol=0)


@pytest.mark.parametrize("count", [10, 60])
def test_a_second_look_where_digits_are_lost_holds_no_more_than_the_first(monkeypatch, count):
    monkeypatch.setattr("magnet.neighbours.CHUNK_ELEMENTS", 2**12)
    monkeypatch.setattr("magnet.neighbours.WIDTH", 2**8)
    largest = []
    for ratio in (1, 1000):
        x = groups(ratio)
        with Watch() as watch:
            nearest(x[:200], x, count)
        largest.append(watch.largest())
    assert largest[1] <= largest[0]


def test_half_precision_is_searched_in_single_precision():
    x = points(200).half()
    distances, ids = nearest(x[:20], x, 7)
    expected = nearest(x[:20].float(), x.float(), 7)
    assert torch.equal(ids, expected[1])
    torch.testing.assert_close(distances, expected[0])


def test_references_of_the_own_label_are_at_infinity():
    queries, references = points(20), points(50, seed=1)
    labels, reference_labels = torch.arange(20) % 4, torch.arange(50) % 4
    distances, ids = nearest_of_chunk(queries, references, 50, labels, reference_labels)
    other = reference_labels[ids] != labels[:, None]
    assert torch.equal(other, distances.isfinite())


def test_gradients_flow_through_the_distances():
    queries = points(6).requires_grad_()
    distances, ids = nearest(queries, points(30, seed=1), 4)
    distances.sum().backward()
    expected = 2 * (queries.detach()[:, None] - points(30, seed=1)[ids]).sum(dim=1)
    torch.testing.assert_close(queries.grad, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("what", ["nearest", "retrieval"])
def test_twice_the_references_are_twice_the_work_in_the_same_memory(monkeypatch, what):
    monkeypatch.setattr("magnet.neighbours.CHUNK_ELEMENTS", 2**14)
    monkeypatch.setattr("magnet.neighbours.WIDTH", 2**9)
    monkeypatch.setattr("magnet.evaluation.errors.CHUNK_ELEMENTS", 2**14)
    queries, labels = points(100), torch.arange(100)
    seen = []
    for n in (8192, 16384):
        references, owners = points(n, seed=1), torch.arange(n) % (n // 16)  # as many of each class
        with Watch() as watch:
            if what == "nearest":
                nearest(queries, references, 8)
            else:
                retrieval(queries, labels, references, owners)
        seen.append(watch)
    assert sum(seen[1].products()) == 2 * sum(seen[0].products())
    assert seen[1].total() <= 2.1 * seen[0].total()
    assert max(seen[1].products()) == max(seen[0].products()) <= 2**14
    assert seen[1].largest() <= 2**15
