"""The measurements of scale, run on small sizes: what they measure is right, whatever the times."""

import json

import numpy as np
import pytest
import torch

from magnet.bench import clusters, evaluation, growth, impostors
from magnet.bench.measurement import added_memory

pytest.importorskip("faiss")


@pytest.fixture
def small_growth(monkeypatch, tmp_path):
    monkeypatch.setattr(growth, "CLASSES", 20)
    monkeypatch.setattr(growth, "STEPS", 5)
    monkeypatch.setattr(growth, "TEST", 50)
    growth.write_vectors(tmp_path, 2050)
    return tmp_path


def test_the_slope_of_a_power_is_its_exponent():
    assert growth.slope((10, 100, 1000), [2 * n**1.3 for n in (10, 100, 1000)]) == pytest.approx(1.3)


def test_the_vectors_that_grow_are_the_same_every_time(small_growth, tmp_path):
    x, y = np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy")
    assert x.shape == (2050, 128)
    assert np.bincount(y).min() >= 102
    growth.write_vectors(tmp_path, 2050)
    assert np.array_equal(np.load(tmp_path / "x.npy"), x)


def test_every_piece_is_timed_on_the_first_vectors_of_the_file(small_growth):
    seen = growth._pieces(small_growth, 1500)
    assert set(seen) == {*growth.PIECES, "bytes"}
    assert all(seen[piece] > 0 for piece in growth.PIECES)


def test_the_run_reads_the_file_and_takes_its_steps(small_growth):
    seen = growth._run(small_growth)
    assert seen["steps"] == 5
    assert "embedding" in seen["spent"]


def test_all_three_ways_to_cluster_see_the_same_points():
    x, labels = clusters.blobs([40, 60, 50], 8, 3, spread=6.0)
    totals = [run(x, labels, 3) for run in (clusters._ours, clusters._by_scikit_learn, clusters._by_faiss)]
    assert totals[1] == pytest.approx(totals[0], rel=1e-3)
    assert totals[2] >= 0.999 * totals[0]


def test_a_rival_that_ends_above_one_percent_does_not_count(monkeypatch):
    x, labels = clusters.blobs([40, 60], 4, 2, spread=6.0)
    monkeypatch.setattr(clusters, "_by_faiss", lambda x, labels, k: 1e9)
    found = clusters._compare("two classes", "", x, labels, 2, 1.0)
    assert found.baseline.endswith("scikit-learn")
    assert found.repeats == clusters.REPEATS


@pytest.mark.parametrize("kind", impostors.KINDS)
@pytest.mark.parametrize("which", ["exact", "tree"])
def test_impostors_are_measured(monkeypatch, capsys, which, kind):
    for name, value in {"CLUSTERS": 9000, "CHECKED": 1000, "TIMED": 200, "REPEATS": 1}.items():
        monkeypatch.setattr(impostors, name, value)
    impostors._child(which, kind)
    seen = json.loads(capsys.readouterr().out)
    assert seen["seconds"] > 0
    if which == "tree":
        assert min(seen["recall"]) >= 0.985  # each is of 1,000 clusters
        assert set(seen["ratios"]) == ({"exact", "faiss lists"} if seen["leaves"] else set())
        assert bool(seen["leaves"]) == (kind == "8 dimensions")  # of so few clusters the others have too few in a group
        assert seen["of"] >= 90


def test_the_lists_that_the_tree_is_judged_by_find_as_many(monkeypatch):
    monkeypatch.setattr(impostors, "CLUSTERS", 6000)
    index = impostors.centres("8 dimensions")
    some = torch.arange(0, 6000, 11)
    found = impostors.lists(index)(some)
    assert impostors.recall_of(found, index.nearest_impostors(impostors.WANTED, some)) >= 0.98
    assert (index.centre_labels[found] != index.centre_labels[some, None]).all()


def test_nearest_clusters_by_the_tree_are_measured(monkeypatch):
    monkeypatch.setattr(impostors, "CLUSTERS", 9000)
    monkeypatch.setattr(evaluation, "QUERIES", 500)
    monkeypatch.setattr(evaluation, "NEIGHBOURS", 16)
    speed, recall = evaluation._by_tree("in groups", lambda what: None)
    assert speed.repeats == 5
    assert recall.ratio >= 98.5


def test_memory_that_was_freed_before_does_not_hide_what_the_work_takes():
    torch.ones(2**26)  # 256 MB, made and freed: a peak that the work below stays under
    _ = [torch.ones(2**12) for _ in range(2**14)][-1]  # as much in small pieces, which the allocator keeps for later
    assert 2**26 <= added_memory(lambda: torch.ones(2**25)) <= 2**28  # 128 MB
    assert added_memory(lambda: [torch.ones(2**12) for _ in range(2**13)]) >= 2**27
    assert added_memory(lambda: None) < 2**24


@pytest.mark.parametrize("which", ["knn", "retrieval"])
def test_evaluation_is_measured(monkeypatch, capsys, tmp_path, which):
    for name, value in {"REFERENCES": 6000, "QUERIES": 20, "CLASSES": 5}.items():
        monkeypatch.setattr(evaluation, name, value)
    x, labels = evaluation.references()
    again = torch.randint(5, (6000,), generator=torch.Generator().manual_seed(1))
    assert torch.equal(labels, again)  # as the child makes them
    np.save(tmp_path / "x.npy", x.numpy())
    evaluation._child(which, str(tmp_path))
    seen = json.loads(capsys.readouterr().out)
    assert seen["bytes"] >= 0
    assert float(seen["result"].split()[1]) < 0.05 if which == "knn" else float(seen["result"].split()[1]) > 0.2
