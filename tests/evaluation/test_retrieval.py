import pytest
import torch

from magnet.evaluation import errors as module
from magnet.evaluation.errors import retrieval


def naive(queries, labels, references=None, reference_labels=None):
    among = references is None
    if among:
        references, reference_labels = queries, labels
    firsts, precisions = [], []
    for i, (query, label) in enumerate(zip(queries, labels, strict=True)):
        order = (references - query).norm(dim=1).argsort().tolist()
        if among:
            order.remove(i)
        hits = [bool(reference_labels[j] == label) for j in order]
        r = sum(hits)
        if r == 0:
            continue
        firsts.append(hits[0])
        precisions.append(sum(sum(hits[: k + 1]) / (k + 1) for k in range(r) if hits[k]) / r)
    return {"recall@1": sum(firsts) / len(firsts), "map@r": sum(precisions) / len(precisions)}


@pytest.fixture
def points():
    generator = torch.Generator().manual_seed(0)
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate((1, 2, 9, 20, 28))])
    return torch.randn(60, 3, generator=generator) + labels[:, None] / 2, labels


def test_among_themselves_is_the_naive_computation(points):
    assert retrieval(*points) == pytest.approx(naive(*points), abs=1e-6)


def test_against_references_is_the_naive_computation(points):
    queries, labels = points[0][::3], points[1][::3]
    assert retrieval(queries, labels, *points) == pytest.approx(naive(queries, labels, *points), abs=1e-6)


def test_small_chunks_change_nothing(points, monkeypatch):
    whole = retrieval(*points)
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 200)
    assert retrieval(*points) == pytest.approx(whole, abs=1e-9)


def test_a_worked_example():
    # On a line: a b a a. R = 2 for each a. For the first: b a, hits 0 1, AP = (1/2)/2; the middle one ranks a, b.
    queries = torch.tensor([[0.0], [1.0], [2.5], [3.0]])
    labels = torch.tensor([0, 1, 0, 0])
    result = retrieval(queries, labels)
    assert result["recall@1"] == pytest.approx(2 / 3)
    assert result["map@r"] == pytest.approx((1 / 4 + 1 / 2 + 1 / 2) / 3)


def test_equal_points_never_find_themselves():
    queries = torch.zeros(6, 2)
    assert retrieval(queries, torch.zeros(6, dtype=torch.long)) == pytest.approx({"recall@1": 1.0, "map@r": 1.0})


def test_queries_alone_in_their_class_are_left_out():
    queries = torch.tensor([[0.0], [1.0], [5.0], [9.0]])
    assert retrieval(queries, torch.arange(4)) == {"recall@1": None, "map@r": None}
    assert retrieval(queries, torch.tensor([0, 0, 1, 2]))["recall@1"] == 1
