"""kNC and soft kNN equal the paper's equation, in any number of chunks and at any lengthscale."""

import numpy as np
import pytest
import torch

import naive
from magnet import ClusterIndex, NearestClusters, SoftNeighbours
from watching import Watch


def data(n=120, classes=4, d=3, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=g)
    labels[:classes] = torch.arange(classes)
    return torch.randn(n, d, generator=g, dtype=dtype) + labels[:, None], labels * 5 - 3


@pytest.fixture(scope="module")
def index():
    return ClusterIndex.fit(*data(), 6)


QUERIES = data(n=25, seed=1)[0]


@pytest.mark.parametrize("neighbours", [1, 5, 24, 128])
@pytest.mark.parametrize("scaling", [1.0, 3.5])
@pytest.mark.parametrize("variance", [None, 0.4])
def test_knc_equals_a_naive_computation(index, neighbours, scaling, variance):
    knc = NearestClusters(index, neighbours, variance=variance, scaling=scaling)
    used = float(index.variance) if variance is None else variance
    expected = naive.soft_vote_table(QUERIES, index.centres, index.centre_labels, neighbours, used, scaling)
    np.testing.assert_allclose(knc.predict_proba(QUERIES), expected, rtol=1e-9, atol=1e-12)
    assert knc.classes.tolist() == [-3, 2, 7, 12]
    assert torch.equal(knc.predict(QUERIES), knc.classes[torch.tensor(expected.argmax(axis=1))])


@pytest.mark.parametrize("neighbours", [1, 10, 1000])
def test_soft_knn_equals_a_naive_computation(neighbours):
    x, labels = data()
    knn = SoftNeighbours(x, labels, neighbours, variance=0.8, scaling=2.0)
    expected = naive.soft_vote_table(QUERIES, x, labels, neighbours, 0.8, 2.0)
    np.testing.assert_allclose(knn.predict_proba(QUERIES), expected, rtol=1e-9, atol=1e-12)


def test_128_neighbours_vote_unless_told_otherwise():
    x, labels = data(n=300)
    found = SoftNeighbours(x, labels, variance=50.0).predict_proba(QUERIES)
    np.testing.assert_allclose(found, naive.soft_vote_table(QUERIES, x, labels, 128, 50.0), rtol=1e-9)


@pytest.mark.parametrize("neighbours", [3, 40, 128])
def test_knc_with_one_cluster_an_example_equals_soft_knn(neighbours):
    x, labels = data()
    index = ClusterIndex.fit(x, labels, len(x))
    assert len(index) == len(x)
    knc = NearestClusters(index, neighbours, variance=0.6, scaling=1.5)
    knn = SoftNeighbours(x, labels, neighbours, variance=0.6, scaling=1.5)
    torch.testing.assert_close(knc.predict_proba(QUERIES), knn.predict_proba(QUERIES))
    assert torch.equal(knc.predict(QUERIES), knn.predict(QUERIES))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_probabilities_sum_to_one(index, dtype):
    for variance in (1e-30, 1e-3, 1.0, 1e10):
        p = NearestClusters(index, 7, variance=variance).predict_proba(QUERIES.to(dtype))
        assert (p >= 0).all()
        torch.testing.assert_close(p.sum(dim=1), torch.ones(len(p), dtype=p.dtype))


def test_log_probabilities_are_the_logarithms_of_the_probabilities(index, monkeypatch):
    for elements in (2**22, 1, 40):
        monkeypatch.setattr("magnet.classify.TALLY_ELEMENTS", elements)
        for neighbours in (1, 5, 24):
            knc = NearestClusters(index, neighbours, variance=0.4)
            p, logs = knc.predict_proba(QUERIES), knc.predict_log_proba(QUERIES)
            torch.testing.assert_close(logs.exp(), p.double())
            assert torch.equal(logs.isinf(), p == 0)


@pytest.mark.parametrize("elements", [1, 40, 10_000])
def test_chunks_change_nothing(index, monkeypatch, elements):
    x, labels = data()
    models = [NearestClusters(index, 5), SoftNeighbours(x, labels, 9, variance=1.0)]
    expected = [(m.predict_proba(QUERIES), m.predict(QUERIES), *m.nearest(QUERIES)) for m in models]
    monkeypatch.setattr("magnet.neighbours.CHUNK_ELEMENTS", elements)
    for model, (proba, labels_, votes, ids) in zip(models, expected, strict=True):
        torch.testing.assert_close(model.predict_proba(QUERIES), proba)
        assert torch.equal(model.predict(QUERIES), labels_)
        torch.testing.assert_close(model.nearest(QUERIES)[0], votes)
        assert torch.equal(model.nearest(QUERIES)[1], ids)


def test_memory_is_bounded_whatever_the_number_of_queries(index, monkeypatch):
    x, labels = data(n=500)
    knn = SoftNeighbours(x, labels, 9, variance=1.0)
    monkeypatch.setattr("magnet.neighbours.CHUNK_ELEMENTS", 3000)
    with Watch() as watch:
        knn.predict(data(n=700, seed=2)[0])
    assert sum(watch.products()) == 500 * 700
    assert max(watch.products()) <= 3000


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variance", [1e-12, 1e-37, 1e-300])
def test_a_tiny_variance_gives_a_hard_vote_of_the_nearest(dtype, variance):
    x, labels = data(dtype=dtype)
    queries = torch.cat([QUERIES.to(dtype), x[:5], torch.full((1, 3), 300.0, dtype=dtype)])
    p = SoftNeighbours(x, labels, variance=variance, scaling=10.0).predict_proba(queries)
    distances = np.array([[naive.squared_distance(q, r) for r in x] for q in queries])
    hard = p.new_zeros(p.shape)
    hard[torch.arange(len(p)), (labels[torch.tensor(distances.argmin(axis=1))] + 3) // 5] = 1
    torch.testing.assert_close(p, hard)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scaling", [1.0, 10.0])
def test_an_index_of_zero_variance_votes_hard_and_not_nan(dtype, scaling):
    x = torch.tensor([[0.0, 0], [10, 0], [0, 10], [10, 10]], dtype=dtype)
    index = ClusterIndex.fit(x, torch.tensor([0, 0, 1, 1]), 2)
    assert index.variance == 0
    queries = torch.tensor([[40.0, 3], [40, 8], [0, 10]], dtype=dtype)
    knc = NearestClusters(index, scaling=scaling)
    assert knc.predict_proba(queries).tolist() == [[1, 0], [0, 1], [0, 1]]


def test_nearest_gives_similarities_in_falling_order(index):
    votes, ids = NearestClusters(index, 6).nearest(QUERIES)
    assert votes.shape == ids.shape == (25, 6)
    assert (votes.diff(dim=1) <= 0).all()
    for query, row in zip(QUERIES, ids.tolist(), strict=True):
        assert row == sorted(range(len(index)), key=lambda j: naive.squared_distance(query, index.centres[j]))[:6]


def test_float32_far_from_the_origin_and_under_autocast_gives_the_same_votes(index):
    expected = NearestClusters(index).predict_proba(QUERIES)
    far = ClusterIndex(index.centres.float() + 1e3, index.centre_labels, index.assignments, index.variance)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = NearestClusters(far).predict_proba(QUERIES.float() + 1e3)
    torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=2e-3)


def test_invariant_to_a_common_scale_if_the_variance_follows(index):
    x, labels = data()
    p = SoftNeighbours(x, labels, 9, variance=0.7).predict_proba(QUERIES)
    q = SoftNeighbours(x * 100, labels, 9, variance=0.7e4).predict_proba(QUERIES * 100)
    torch.testing.assert_close(p, q)


def test_refined_centres_minimise_the_log_loss_with_the_pull():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    r = torch.tensor(np.eye(3, 4)[labels] + rng.normal(size=(90, 4)))
    index = ClusterIndex.fit(r, torch.tensor(labels), 2, seed=0)
    weights = torch.tensor(rng.uniform(0.5, 2, len(index)))
    rule = NearestClusters(index, variance=1.3, scaling=2.0, weights=weights)
    pull, factor = 0.2, 2.0 / (2 * 1.3)

    def naive(centres):
        loss = pull * factor * ((centres - index.centres.numpy()) ** 2).sum() / len(centres)
        for x, label in zip(r.numpy(), labels, strict=True):
            votes = [
                w * np.exp(-factor * ((x - mu) ** 2).sum()) for w, mu in zip(weights.numpy(), centres, strict=True)
            ]
            own = sum(v for v, c in zip(votes, index.centre_labels.tolist(), strict=True) if c == label)
            loss -= np.log(own / sum(votes)) / len(r)
        return loss

    refined = rule.refined(r, torch.tensor(labels), pull=pull, iterations=200)
    best = refined.references.numpy()
    assert naive(best) < naive(index.centres.numpy()) - 0.01
    for _ in range(20):  # no step in any direction goes further down
        step = rng.normal(size=best.shape)
        assert naive(best + 1e-3 * step) > naive(best) - 1e-8
    assert torch.equal(rule.references, index.centres), "the rule itself stays as it was"


def test_with_a_strong_pull_refined_centres_are_the_means():
    r = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(40) % 2
    rule = NearestClusters(ClusterIndex.fit(r, labels, 2, seed=0))
    torch.testing.assert_close(rule.refined(r, labels, pull=1e9).references, rule.references, atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="no cluster"):
        rule.refined(r, labels + 5, pull=1.0)
