"""ClusterIndex: members, variance, impostors, and the way to disk and back."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import naive
from magnet import ClusterIndex, NeighbourhoodSampler
from magnet.errors import UserError
from watching import Watch


def data(n=300, classes=6, d=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    return torch.randn(n, d, generator=g) + 0.5 * labels[:, None], labels * 3 + 1


@pytest.fixture(scope="module")
def index():
    return ClusterIndex.fit(*data(), [1, 2, 3, 4, 5, 6])


def test_members_partition_the_examples(index):
    seen = []
    for j in range(len(index)):
        members = index.members(j)
        assert (index.assignments[members] == j).all()
        assert members.tolist() == sorted(members.tolist())
        assert len(members) == index.sizes[j] > 0
        seen += members.tolist()
    assert sorted(seen) == list(range(300))


def test_variance_is_the_squared_distance_to_the_own_centre_over_n_minus_one(index):
    x, labels = data()
    own = sum(naive.squared_distance(r, index.centres[j]) for r, j in zip(x, index.assignments, strict=True))
    np.testing.assert_allclose(index.variance, own / 299, rtol=1e-4)
    np.testing.assert_allclose(index.inertia, own, rtol=1e-4)
    assert torch.equal(index.centre_labels[index.assignments], labels)
    assert index.iterations >= 1


@pytest.mark.parametrize("m", [1, 3, 11])
def test_impostors_equal_a_brute_force_search_nearest_first(index, m):
    for j in range(len(index)):
        assert index.impostors(j, m).tolist() == naive.nearest_impostors(index.centres, index.centre_labels, j, m)


def test_impostors_of_all_clusters_at_once_are_those_of_each(index):
    table = index.nearest_impostors(7)
    assert table.shape == (len(index), 7)
    for j in range(len(index)):
        assert torch.equal(table[j], index.impostors(j, 7))
    some = torch.tensor([5, 0, 20])
    assert torch.equal(index.nearest_impostors(7, some), table[some])


def test_with_fewer_impostors_than_asked_for_all_are_given(index):
    for j in (0, 20):  # of the class with one cluster, and of that with six, of 21
        found = index.impostors(j, 1000).tolist()
        assert found == naive.nearest_impostors(index.centres, index.centre_labels, j, 1000)
        assert len(found) == {0: 20, 20: 15}[j]
    table = index.nearest_impostors(1000)
    assert (table >= 0).sum(dim=1).tolist() == [21 - k for k in range(1, 7) for _ in range(k)]
    assert index.impostors(0, 0).tolist() == []


@pytest.mark.parametrize("elements", [1, 50, 300])
def test_chunks_do_not_change_the_impostors(index, monkeypatch, elements):
    expected = {m: index.nearest_impostors(m) for m in (1, 4, 100)}
    monkeypatch.setattr("magnet.neighbours.CHUNK_ELEMENTS", elements)
    for m, table in expected.items():
        assert torch.equal(index.nearest_impostors(m), table)


@pytest.mark.parametrize(("count", "asked"), [(600, 600), (20_000, 3)])
def test_no_more_distances_than_a_chunk_are_held_at_a_time(monkeypatch, count, asked):
    g = torch.Generator().manual_seed(0)
    index = ClusterIndex(
        torch.randn(count, 3, generator=g), torch.arange(count) % 7, torch.arange(count), torch.tensor(1.0)
    )
    some = torch.arange(asked) * 31 % count
    expected = index.nearest_impostors(5, some)
    monkeypatch.setattr("magnet.neighbours.CHUNK_ELEMENTS", 5000)
    with Watch() as watch:
        found = index.nearest_impostors(5, some)
    assert torch.equal(found, expected)
    assert sum(watch.products()) == count * asked
    assert max(watch.products()) <= 5000


def test_the_memory_of_all_impostors_grows_with_the_centres_and_not_with_their_square(monkeypatch):
    monkeypatch.setattr("magnet.neighbours.CHUNK_ELEMENTS", 2**12)
    monkeypatch.setattr("magnet.neighbours.WIDTH", 2**8)
    seen = []
    for count in (512, 2048):
        g = torch.Generator().manual_seed(0)
        index = ClusterIndex(
            torch.randn(count, 3, generator=g), torch.arange(count) // 4, torch.arange(count), torch.tensor(1.0)
        )
        with Watch() as watch:
            table = index.nearest_impostors(5)
        # Beside the answer (J, 5) nothing is longer than a chunk of rows or a block of distances.
        seen.append(max(elements for _, elements in watch.made if elements != table.numel()))
        assert max(watch.products()) <= 2**12
    assert seen[1] <= 4 * max(seen[0], 512)
    assert seen[1] <= 2**12 < 2048**2 / 1000


def test_making_an_index_holds_two_tables_as_long_as_the_data_and_no_more(monkeypatch):
    monkeypatch.setattr("magnet.clustering.SORTED", 64)
    assignments = torch.arange(5000) % 20
    centres = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    with Watch() as watch:
        index = ClusterIndex(centres, torch.arange(20), assignments, torch.tensor(1.0))
    assert index.assignments is assignments
    assert [elements for _, elements in watch.made if elements > 64] == [5000]  # the order


def structured(count=10_000, per_class=4, d=16):
    """Centres in 60 groups of classes."""
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(count) // per_class
    group = torch.randint(60, (count // per_class,), generator=g)[labels]
    centres = 8 * torch.randn(60, d, generator=g)[group] + torch.randn(count, d, generator=g)
    return ClusterIndex(centres, labels, torch.arange(count), torch.tensor(1.0))


def test_nearly_exact_impostors_are_99_percent_of_the_exact_ones_and_never_of_the_own_class():
    index = structured()
    true, found = (index.nearest_impostors(11, exact=exact) for exact in (True, False))
    assert not torch.equal(found, true)  # the tree was used
    hits = (found[:, :, None] == true[:, None]).any(dim=2)
    assert float(hits.double().mean()) >= 0.99
    assert (found >= 0).all()
    assert (index.centre_labels[found] != index.centre_labels[:, None]).all()
    assert torch.equal(found, index.nearest_impostors(11, exact=False))  # the same every time
    some = torch.tensor([17, 5000, 3])
    assert torch.equal(index.nearest_impostors(11, some, exact=False), found[some])


def test_without_structure_the_nearly_exact_impostors_are_the_exact_ones():
    g = torch.Generator().manual_seed(0)
    index = ClusterIndex(
        torch.randn(9000, 64, generator=g), torch.arange(9000) % 500, torch.arange(9000), torch.tensor(1.0)
    )
    some = torch.arange(0, 9000, 9)
    assert torch.equal(index.nearest_impostors(7, some, exact=False), index.nearest_impostors(7, some, exact=True))


def test_impostors_are_exact_at_any_size_unless_asked_otherwise(monkeypatch):
    index = structured(60_000, d=2)
    asked = []

    def in_no_time(queries, references, count, *labels):
        return torch.zeros(len(queries), count), torch.zeros(len(queries), count, dtype=torch.long)

    class Tree:
        def __init__(self, points):
            asked.append(len(points))

        def beam(self, *anything):
            return None

    monkeypatch.setattr("magnet.index.nearest_of_chunk", in_no_time)
    monkeypatch.setattr("magnet.index.CentreTree", Tree)
    index.nearest_impostors(2)
    NeighbourhoodSampler(index, clusters_per_batch=4)
    assert asked == []
    index.nearest_impostors(2, exact=False)
    NeighbourhoodSampler(index, clusters_per_batch=4, exact_impostors=False)
    assert asked == [60_000, 60_000]


def test_impostors_far_from_the_origin_are_still_right():
    g = torch.Generator().manual_seed(3)
    centres = torch.randn(60, 8, generator=g) + 1e3
    index = ClusterIndex(centres, torch.arange(60) % 5, torch.arange(60), torch.tensor(1.0))
    for j in range(60):
        assert index.impostors(j, 5).tolist() == naive.nearest_impostors(centres, index.centre_labels, j, 5)


def test_autocast_does_not_blur_the_impostors(index):
    expected = index.nearest_impostors(5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(index.nearest_impostors(5), expected)


def test_the_same_seed_gives_an_equal_index():
    first, again = (ClusterIndex.fit(*data(), 5, seed=2) for _ in range(2))
    assert first == again
    assert first != ClusterIndex.fit(*data(), 4, seed=2)
    assert first != "an index"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_loaded_index_equals_the_saved_one(tmp_path, dtype):
    x, labels = data()
    index = ClusterIndex.fit(x.to(dtype), labels, 3)
    path = tmp_path / "index.safetensors"
    index.save(path)
    loaded = ClusterIndex.load(path)
    assert loaded == index
    assert loaded.iterations == index.iterations
    assert loaded.centres.dtype == dtype
    assert torch.equal(loaded.sizes, index.sizes)
    assert torch.equal(loaded.nearest_impostors(4), index.nearest_impostors(4))
    assert [p.name for p in tmp_path.iterdir()] == ["index.safetensors"]  # no draft is left


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no index at .*nowhere\.safetensors"):
        ClusterIndex.load(tmp_path / "nowhere.safetensors")


@pytest.mark.parametrize("keep", [0, 5, 200, -10])
def test_a_broken_file_is_a_clear_error(tmp_path, index, keep):
    path = tmp_path / "index.safetensors"
    index.save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"index\.safetensors cannot be read as an index"):
        ClusterIndex.load(path)


def test_another_safetensors_file_is_not_taken_for_an_index(tmp_path):
    save_file({"weight": torch.zeros(3)}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"not an index.*'pt'"):
        ClusterIndex.load(tmp_path / "model.safetensors")


def test_an_index_file_without_one_of_its_tensors_is_a_clear_error(tmp_path, index):
    tensors = index.tensors()
    del tensors["variance"]
    save_file(tensors, tmp_path / "index.safetensors", metadata={"format": "magnet-cluster-index/1"})
    with pytest.raises(UserError, match="variance"):
        ClusterIndex.load(tmp_path / "index.safetensors")


def test_moving_to_a_device_keeps_the_index(index):
    assert index.to("cpu") == index
    assert index.to("cpu").iterations == index.iterations


def test_its_representation_names_what_it_holds(index):
    assert "21 clusters of 6 classes over 300 examples, d=4" in repr(index)


def test_a_new_class_makes_clusters_of_its_own_however_far_the_reach():
    index = ClusterIndex.fit(torch.tensor([[0.0], [1.0], [9.0], [10.0]]), torch.tensor([0, 0, 1, 1]), 1)
    grown = index.grown(torch.tensor([[5.0], [5.1]]), torch.tensor([2, 2]), reach=torch.inf, clusters_per_class=1)
    assert grown.centre_labels.tolist() == [0, 1, 2]
    torch.testing.assert_close(grown.centres[:2], index.centres)


def test_growth_makes_fewer_clusters_where_there_are_few_examples_for_each():
    r, labels = data()
    index = ClusterIndex.fit(r, labels, 2)
    new = torch.cat([r[:9] + 50, r[:3] - 50])
    grown = index.grown(new, torch.tensor([1] * 9 + [99] * 3), reach=1.0, clusters_per_class=8, examples_per_cluster=4)
    assert grown.centre_labels[len(index) :].tolist() == [1, 1, 99]
    assert torch.equal(grown.assignments[: len(labels)], index.assignments)
    assert grown.sizes.sum() == len(labels) + 12
    assert grown.variance == index.variance
