"""Pair verification, against the definitions and scikit-learn."""

import pytest
import torch
from sklearn.metrics import roc_auc_score, roc_curve

from magnet.errors import UserError
from magnet.evaluation import errors as module
from magnet.evaluation.errors import verification


@pytest.fixture
def points():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 6
    return torch.randn(90, 3, generator=generator) + labels[:, None], labels


def every_pair(points, labels):
    pairs = torch.combinations(torch.arange(len(labels)))
    distances = (points[pairs[:, 0]] - points[pairs[:, 1]]).norm(dim=1)
    return distances, labels[pairs[:, 0]] == labels[pairs[:, 1]]


def test_the_area_is_that_of_scikit_learn(points):
    distances, same = every_pair(*points)
    found = verification(*points)
    assert found["auc"] == pytest.approx(roc_auc_score(same, -distances))
    assert found["pairs"] == {"same": int(same.sum()), "different": int((~same).sum())}


def test_a_threshold_accepts_no_more_false_pairs_than_it_may_and_the_next_higher_one_would(points):
    distances, same = every_pair(*points)
    for row in verification(*points, rates=[0.2, 0.05, 0.01], unit=2.0)["at"]:
        accepted = distances < 2 * row["threshold"]
        assert float(accepted[~same].double().mean()) == pytest.approx(row["false_accept"])
        assert float(accepted[same].double().mean()) == pytest.approx(row["true_accept"])
        assert row["false_accept"] <= row["rate"] < row["false_accept"] + 1 / int((~same).sum())


def test_the_equal_error_lies_on_the_curve_of_scikit_learn(points):
    distances, same = every_pair(*points)
    accepts, recognised, _ = roc_curve(same, -distances)
    best = min(abs(a - (1 - r)) for a, r in zip(accepts, recognised, strict=True))
    error = verification(*points)["equal_error"]
    assert any(
        abs((a + 1 - r) / 2 - error) < 1e-9 and abs(a - 1 + r) <= best + 0.01
        for a, r in zip(accepts, recognised, strict=True)
    )


def test_a_sample_of_many_pairs_is_close_to_all_of_them(points, monkeypatch):
    everything = verification(*points)
    monkeypatch.setattr(module, "MOST_PAIRS", 3000)
    sampled = verification(*points)
    assert sampled["pairs"]["same"] == 3000
    assert sampled["auc"] == pytest.approx(everything["auc"], abs=0.02)
    assert sampled == verification(*points)


def test_a_rate_that_rests_on_a_handful_of_pairs_is_left_out(points):
    assert [row["rate"] for row in verification(*points, rates=[0.01, 0.0001])["at"]] == [0.01]


def test_one_class_has_no_pairs_to_tell_apart(points):
    assert verification(points[0], torch.zeros(90, dtype=torch.long)) == {}
    assert verification(points[0], torch.arange(90)) == {}


def test_a_rate_that_is_no_share_is_refused(points):
    with pytest.raises(UserError, match=r"a false-accept rate is 1\.5"):
        verification(*points, rates=[1.5])
