"""K-means of all classes at once is as good as scikit-learn's class by class, and never stumbles."""

import threading

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from magnet import clustering
from magnet.clustering import clusters_by_size, distinct, in_threads, kmeans_per_class, order_by_group, threads
from watching import Watch


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def blobs(sizes, d, modes, spread=4.0, seed=0):
    """Classes that are mixtures of ``modes`` Gaussians."""
    g = generator(seed)
    parts = []
    for size in sizes:
        centres = torch.randn(modes, d, generator=g) * spread
        parts.append(centres[torch.randint(modes, (size,), generator=g)] + torch.randn(size, d, generator=g))
    return torch.cat(parts), torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


def shapes(name):
    g = generator(1)
    if name == "clear modes":
        return *blobs([300] * 6, 8, modes=5), 5
    if name == "a thousand small classes":
        return *blobs([6 + i % 7 for i in range(1000)], 6, modes=3, spread=2.0), 3
    if name == "Zipf-sized classes":
        return *blobs([max(1, 1200 // rank) for rank in range(1, 61)], 8, modes=4, spread=2.0), 4
    if name == "no structure":
        return torch.rand(1500, 2, generator=g), torch.randint(5, (1500,), generator=g), 6
    x, labels = blobs([400, 60, 250], 32, modes=8, spread=1.0)
    return x * torch.logspace(0, -2, 32) + 1000.0, labels, 8  # stretched, and far from the origin


SHAPES = ["clear modes", "a thousand small classes", "Zipf-sized classes", "no structure", "stretched and far away"]


@pytest.mark.parametrize("name", SHAPES)
def test_inertia_is_within_one_percent_of_the_best_of_three_of_scikit_learn(name):
    x, labels, k = shapes(name)
    found = kmeans_per_class(x, labels, k)
    expected = 0.0
    for c in labels.unique():
        points = x[labels == c].double().numpy()
        expected += KMeans(min(k, len(points)), n_init=3, random_state=0).fit(points).inertia_
    assert float(found.inertia) <= 1.01 * expected
    centres = found.centres.double()[found.assignments]
    np.testing.assert_allclose(float(found.inertia), float((x.double() - centres).square().sum()), rtol=1e-3)
    assert 1 <= found.iterations <= 100


@pytest.mark.parametrize("name", SHAPES)
def test_at_convergence_centres_are_means_and_every_example_is_at_its_nearest_centre(name):
    x, labels, k = shapes(name)
    found = kmeans_per_class(x, labels, k, max_iterations=1000)
    x, centres = x.double(), found.centres.double()
    counts = torch.bincount(found.assignments, minlength=len(centres))
    assert (counts > 0).all()
    means = torch.zeros_like(centres).index_add_(0, found.assignments, x) / counts[:, None]
    torch.testing.assert_close(centres, means, rtol=1e-6, atol=1e-5)
    assert torch.equal(found.centre_labels[found.assignments], labels)
    distances = torch.cdist(x, means, compute_mode="donot_use_mm_for_euclid_dist")
    distances.masked_fill_(labels[:, None] != found.centre_labels[None, :], torch.inf)
    own = distances.gather(1, found.assignments[:, None]).squeeze(1)
    assert (own <= distances.min(dim=1).values * (1 + 1e-4) + 1e-5).all()


def test_classes_of_unequal_size_that_lie_far_apart_are_clustered_as_precisely_as_near_ones():
    x, labels = blobs([100, 150, 199], 4, modes=4, spread=1.0)
    x = x.round(decimals=2)
    near = kmeans_per_class(x.double(), labels, 4, max_iterations=1000)
    far = kmeans_per_class(x + 4096.0 * labels[:, None], labels, 4, max_iterations=1000)
    assert float(far.inertia) == pytest.approx(float(near.inertia), rel=0.01)
    moved = (x + 4096.0 * labels[:, None]).double()
    distances = torch.cdist(moved, far.centres.double(), compute_mode="donot_use_mm_for_euclid_dist")
    own = distances.gather(1, far.assignments[:, None]).squeeze(1)
    assert (own <= distances.min(dim=1).values + 1e-3).all()


def test_clusters_are_ordered_by_class_then_by_size():
    x, labels = blobs([90, 50, 70], 3, modes=4)
    labels = torch.tensor([40, -3, 7])[labels]  # any integers will do
    found = kmeans_per_class(x, labels, 4)
    assert found.centre_labels.tolist() == [-3] * 4 + [7] * 4 + [40] * 4
    counts = torch.bincount(found.assignments).tolist()
    assert all(counts[j] >= counts[j + 1] for j in range(11) if j % 4 != 3)


@pytest.mark.parametrize("k", [[3, 1, 5], {30: 5, 10: 3, 20: 1}], ids=["list", "dict"])
def test_every_class_can_have_its_own_k(k):
    x, labels = blobs([40, 40, 40], 3, modes=5)
    found = kmeans_per_class(x, (labels + 1) * 10, k)
    assert torch.bincount(found.centre_labels // 10).tolist() == [0, 3, 1, 5]


def test_a_class_with_fewer_distinct_points_than_k_gets_one_cluster_for_each():
    distinct = torch.tensor([[0.0, 0], [1, 0], [0, 1e-3]])
    x = torch.cat([distinct.repeat(20, 1), torch.randn(50, 2, generator=generator())])
    labels = torch.tensor([0] * 60 + [1] * 50)
    found = kmeans_per_class(x, labels, 8)
    assert (found.centre_labels == 0).sum() == 3
    assert (found.centre_labels == 1).sum() == 8
    torch.testing.assert_close(found.centres[found.assignments[:60]], x[:60])


def test_a_class_of_one_example_and_a_class_of_one_point_are_one_cluster_each():
    x = torch.cat([torch.full((1, 3), 5.0), torch.full((30, 3), -2.5), torch.randn(20, 3, generator=generator())])
    labels = torch.tensor([0] + [1] * 30 + [2] * 20)
    found = kmeans_per_class(x, labels, 4)
    assert found.centre_labels.tolist() == [0, 1, 2, 2, 2, 2]
    torch.testing.assert_close(found.centres[:2], torch.tensor([[5.0] * 3, [-2.5] * 3]))


@pytest.mark.parametrize("seed", range(5))
def test_many_duplicates_leave_no_cluster_empty_and_no_centre_twice(seed):
    g = generator(seed)
    x = torch.randint(3, (200, 2), generator=g).float()
    labels = torch.randint(3, (200,), generator=g)
    found = kmeans_per_class(x, labels, 7, seed=seed)
    assert (torch.bincount(found.assignments, minlength=len(found.centres)) > 0).all()
    for c in range(3):
        mine = found.centres[found.centre_labels == c]
        assert len(mine) == len(mine.unique(dim=0)) == 7
    assert torch.isfinite(found.centres).all()


@pytest.mark.parametrize("seed", range(5))
def test_k_clusters_are_found_wherever_there_are_k_distinct_points(seed):
    x = torch.rand(400, 1, generator=generator(seed), dtype=torch.float64) ** 4
    labels = torch.arange(400) % 20
    found = kmeans_per_class(x, labels, 12, seed=seed, restarts=1)
    assert torch.equal(torch.bincount(found.centre_labels), torch.full((20,), 12))


def points_on_a_line(*places):
    """One class."""
    rows = torch.tensor(places)[None, :, None]
    return clustering.points_of(rows, torch.ones(1, len(places), dtype=torch.bool))


def test_an_emptied_cluster_restarts_at_the_worst_served_point():
    x = points_on_a_line(0.0, 1.0, 10.0, 11.0, 50.0)
    # The third centre is where the first is: nobody is nearest to it.
    start = torch.tensor([[[[1.0, 1, 0, 0, 0], [0, 0, 1, 1, 0], [1, 1, 0, 0, 0]]]])
    member, *_ = clustering.lloyd(x, start, torch.ones(1, 1, 3, dtype=torch.bool), 100)
    assert sorted(member[0, 0].tolist()) == [[0, 0, 0, 0, 1], [0, 0, 1, 1, 0], [1, 1, 0, 0, 0]]


def test_a_point_halfway_between_two_centres_belongs_to_the_first():
    x = points_on_a_line(0.0, 1.0, 2.0)
    start = torch.tensor([[[[1.0, 0, 0], [0, 0, 1]]]])
    member, *_ = clustering.lloyd(x, start, torch.ones(1, 1, 2, dtype=torch.bool), 0)
    assert member.tolist() == [[[[1, 1, 0], [0, 0, 1]]]]


@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_products_of_the_points_and_products_with_them_give_the_same_clusters(monkeypatch, spread):
    x, labels = blobs([20, 31, 17], 32, modes=4, spread=spread)  # fewer points than dimensions
    expected = kmeans_per_class(x, labels, 4)
    of = clustering.points_of

    def transposed(rows, real):
        found = of(rows, real)
        assert clustering._multiplied(found)
        return found._replace(others=rows.transpose(1, 2).contiguous())

    monkeypatch.setattr(clustering, "points_of", transposed)
    with threads(1):  # what is patched in Python is not in the script
        found = kmeans_per_class(x, labels, 4)
    assert torch.equal(found.assignments, expected.assignments)
    torch.testing.assert_close(found.centres, expected.centres)


def test_padding_changes_nothing():
    x, labels = blobs([100, 51], 4, modes=5, spread=1.0)  # one block, in which the second class is padded
    together = kmeans_per_class(x, labels, 5)
    for c in range(2):
        alone = kmeans_per_class(x[labels == c], labels[labels == c], 5)
        torch.testing.assert_close(alone.centres, together.centres[together.centre_labels == c])


@pytest.mark.parametrize("d", [4, 64], ids=["more points than dimensions", "fewer"])
def test_twice_the_classes_are_twice_the_work_in_the_same_memory(monkeypatch, d):
    monkeypatch.setattr("magnet.clustering.BLOCK_ELEMENTS", 2**13)
    x, labels = blobs([20] * 800, d, modes=3, spread=10.0)
    seen = []
    for classes in (400, 800):
        with threads(1), Watch() as watch:  # a watch sees its own thread alone
            kmeans_per_class(x[: 20 * classes], labels[: 20 * classes], 3)
        seen.append(watch)
    assert seen[1].total() <= 2.1 * seen[0].total()
    assert max(seen[1].products()) <= 2**13
    # Ids of all examples and all centres are what is asked for; there is no second copy of x.
    assert seen[1].largest() <= max(len(x), 3 * 800 * d) < len(x) * d


def test_the_same_seed_gives_the_same_clusters_and_another_seed_another_start():
    x = torch.rand(600, 5, generator=generator())
    labels = torch.arange(600) % 3
    first, again, other = (kmeans_per_class(x, labels, 8, seed=s, restarts=1) for s in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(first[:4], again[:4], strict=True))
    assert not torch.equal(first.assignments, other.assignments)


def test_the_global_random_state_is_neither_used_nor_touched():
    x, labels = blobs([50, 50], 3, modes=4)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = kmeans_per_class(x, labels, 4)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(kmeans_per_class(x, labels, 4).assignments, first.assignments)


def test_a_class_is_clustered_alike_whichever_classes_stand_beside_it():
    x, labels = blobs([100, 130, 190, 30], 4, modes=5, spread=1.0)
    together = kmeans_per_class(x, labels, 5)
    for c in range(4):
        mine = labels == c
        alone = kmeans_per_class(x[mine], labels[mine], 5)
        assert torch.equal(alone.assignments, together.assignments[mine] - together.assignments[mine].min())


@pytest.mark.parametrize("elements", [1, 2000])
def test_the_size_of_blocks_does_not_matter(monkeypatch, elements):
    x, labels = blobs([30 + 3 * i for i in range(20)], 4, modes=3)
    expected = kmeans_per_class(x, labels, 3)
    monkeypatch.setattr("magnet.clustering.BLOCK_ELEMENTS", elements)
    found = kmeans_per_class(x, labels, 3)
    assert float(found.inertia) == pytest.approx(float(expected.inertia), rel=0.01)
    assert torch.equal(found.centre_labels, expected.centre_labels)


@pytest.mark.parametrize("d", [4, 128], ids=["more points than dimensions", "fewer"])
def test_the_number_of_threads_changes_not_a_bit(monkeypatch, d):
    monkeypatch.setattr("magnet.clustering.BLOCK_ELEMENTS", 2**13)
    x, labels = blobs([20 + i for i in range(60)], d, modes=3, spread=0.5)
    found = []
    for count in (1, 2, 3, 3):
        with threads(count):
            found.append(kmeans_per_class(x, labels, 3))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0][:4], other[:4], strict=True))


def test_restarts_and_classes_that_have_settled_are_not_computed_again(monkeypatch):
    sizes = []
    scores = clustering._scores

    def counted(x, member, *rest):
        sizes.append(member.shape[:2])
        return scores(x, member, *rest)

    monkeypatch.setattr(clustering, "_scores", counted)
    x, labels = blobs([400] * 6, 4, modes=4, spread=0.5)
    with threads(1):
        kmeans_per_class(x, labels, 4)
    assert sizes[0] == (6, 3)
    assert len({groups for groups, _ in sizes}) > 2
    assert sizes[-1][1] < 3


def test_inference_mode_gives_the_same_clusters():
    x, labels = blobs([300] * 8, 8, modes=4, spread=0.5)
    expected = kmeans_per_class(x, labels, 4)
    with torch.inference_mode(), threads(2):
        found = kmeans_per_class(x, labels, 4)
    assert torch.equal(found.assignments, expected.assignments)


def test_more_restarts_are_never_worse():
    x = torch.rand(300, 2, generator=generator(2))
    labels = torch.arange(300) % 3
    inertias = [float(kmeans_per_class(x, labels, 10, restarts=n).inertia) for n in (1, 3, 10)]
    assert inertias[0] >= inertias[1] >= inertias[2]


def test_iterations_stop_at_the_maximum_with_centres_that_are_still_means():
    x = torch.rand(500, 4, generator=generator())
    labels = torch.arange(500) % 2
    found = kmeans_per_class(x, labels, 8, max_iterations=1)
    assert found.iterations == 1
    for j in range(len(found.centres)):
        torch.testing.assert_close(found.centres[j], x[found.assignments == j].mean(dim=0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_work(dtype):
    x, labels = blobs([50, 50], 3, modes=4)
    found = kmeans_per_class(x.to(dtype), labels, 4)
    assert found.centres.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert len(found.centres) == 8


def test_autocast_changes_nothing():
    x, labels = blobs([60, 90], 8, modes=4)
    expected = kmeans_per_class(x, labels, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = kmeans_per_class(x, labels, 4)
    assert torch.equal(found.centres, expected.centres)


@pytest.mark.parametrize("total", [1, 2, 4])
@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_every_part_is_done_once(count, total):
    assert sorted(in_threads(lambda part: part * part, range(count), total)) == [i * i for i in range(count)]


def test_as_many_parts_are_done_at_a_time_as_there_are_threads():
    meet = threading.Barrier(3, timeout=30)  # nobody goes on until three have come
    assert in_threads(lambda part: meet.wait() >= 0, range(3), 3) == [True] * 3


@pytest.mark.parametrize(("parts", "each"), [(2, 2), (4, 1), (9, 1), (1, 4)])
def test_threads_are_shared_out_among_the_parts(parts, each):
    meet = threading.Barrier(min(parts, 4), timeout=30)

    def work(part):
        if part < min(parts, 4):
            meet.wait()
        torch.ones(100_000).add_(1)  # the first operation of a thread
        return torch.get_num_threads()

    with threads(1):
        assert in_threads(work, range(parts), 4) == [each] * parts


def test_an_error_in_a_part_comes_through_and_torch_has_its_threads_again():
    def work(part):
        if part == 3:
            raise RuntimeError("part 3")
        return part

    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="part 3"):
        in_threads(work, range(50), 2)
    assert torch.get_num_threads() == before
    asked = []
    later = threading.Thread(target=lambda: asked.append(torch.get_num_threads()))
    later.start()
    later.join()
    with threads(before + 3):
        assert torch.get_num_threads() == before + 3
    assert torch.get_num_threads() == before
    assert asked == [before]


@pytest.mark.parametrize("inference", [False, True])
def test_a_part_can_write_into_a_tensor_that_was_made_outside(inference):
    with torch.inference_mode(inference):
        squares = torch.zeros(10)
        in_threads(lambda part: squares[part].fill_(part**2), range(10), 3)
    assert squares.tolist() == [i**2 for i in range(10)]


def drawn(high, count, seed=0, low=0):
    return torch.randint(low, high, (count,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("labels", [
    drawn(50, 1000), 3 * drawn(50, 1000), drawn(50, 1000, low=-50), drawn(10**12, 1000), torch.tensor([7]),
    drawn(50, 1000).int(),
])  # fmt: skip
def test_distinct_labels_are_those_of_unique(labels):
    expected = torch.unique(labels, return_inverse=True, return_counts=True)
    for found, wanted in zip(distinct(labels), expected, strict=True):
        assert torch.equal(found, wanted)
        assert found.dtype == wanted.dtype


def test_labels_that_are_ids_already_are_not_copied():
    labels = drawn(50, 1000)
    with Watch() as watch:
        found = distinct(labels)[1]
    assert found.data_ptr() == labels.data_ptr()
    assert watch.largest() <= 50


@pytest.mark.parametrize("block", [1, 7, 100, 10_000])
@pytest.mark.parametrize("groups", [1, 5, 60])
def test_the_order_by_group_is_that_of_a_stable_sort(monkeypatch, block, groups):
    monkeypatch.setattr("magnet.clustering.SORTED", block)
    mixed = torch.cat([torch.arange(groups), drawn(groups, 500)])
    for ids in (mixed, mixed.sort().values, torch.cat([mixed.sort().values, torch.zeros(1, dtype=torch.long)])):
        assert torch.equal(order_by_group(ids, torch.bincount(ids)).long(), ids.argsort(stable=True))


def test_ordering_holds_one_table_and_a_block_however_many_rows(monkeypatch):
    monkeypatch.setattr("magnet.clustering.SORTED", 64)
    ids = drawn(16, 5000)
    sizes = torch.bincount(ids, minlength=16)
    with Watch() as watch:
        order_by_group(ids, sizes)
    assert [elements for _, elements in watch.made if elements > 64] == [5000]


def test_clusters_by_size_are_in_proportion_one_at_least_and_the_same_for_equal_classes():
    labels = torch.tensor([7] * 60 + [2] * 20 + [5] * 39 + [9])
    assert clusters_by_size(labels, 4) == {2: 3, 5: 5, 7: 8, 9: 1}
    assert clusters_by_size(labels, 1) == {2: 1, 5: 1, 7: 1, 9: 1}
    assert clusters_by_size(labels, 40, least_members=4) == {2: 5, 5: 9, 7: 15, 9: 1}
    assert clusters_by_size(torch.arange(30) % 3, 8) == {0: 8, 1: 8, 2: 8}
