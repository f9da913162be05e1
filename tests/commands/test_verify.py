"""magnet verify, and the pairs in magnet evaluate."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

X, Y = load_digits(return_X_y=True)


@pytest.fixture
def rows(tmp_path):
    """Files of single digits, scaled as the run knows them."""

    def save(name, *places):
        np.save(tmp_path / f"{name}.npy", (X[list(places)] / 16).astype(np.float32))
        return tmp_path / f"{name}.npy"

    return save


def test_two_zeros_are_the_same_and_a_one_is_another(magnet, digits_run, rows):
    zeros, mixed = np.flatnonzero(Y == 0)[:2], (np.flatnonzero(Y == 0)[0], np.flatnonzero(Y == 1)[3])
    found = magnet("verify", digits_run, rows("a", zeros[0], mixed[0]), rows("b", zeros[1], mixed[1]), "--json")
    assert [pair["same"] for pair in found["pairs"]] == [True, False]
    assert found["part"] == "test"
    assert found["false_accept"] <= 0.01 < found["true_accept"]
    stricter = magnet("verify", digits_run, rows("a", 0), rows("b", 1), "--false-accepts", "0.001", "--json")
    assert stricter["threshold"] < found["threshold"]
    assert "sigma apart" in magnet("verify", digits_run, rows("a", 0), rows("b", 1))


def test_what_cannot_be_compared_is_said(complaint, digits_run, rows):
    one, two = rows("one", 0), rows("two", 0, 1)
    assert "compared in pairs" in complaint("verify", digits_run, one, two)
    assert "must be a share between 0 and 1" in complaint("verify", digits_run, one, one, "--false-accepts", "2")
    assert "too few pairs for a threshold" in complaint("verify", digits_run, one, one, "--false-accepts", "0.0000001")


def test_evaluate_has_the_curve_and_the_thresholds(magnet, digits_run):
    found = magnet("evaluate", digits_run, "--json")["verification"]
    assert 0.8 < found["auc"] < 1
    assert [row["rate"] for row in found["at"]] == [0.1, 0.01, 0.001]
    assert [point[0] for point in found["roc"]] == sorted(point[0] for point in found["roc"])
    assert "area under the ROC curve" in magnet("evaluate", digits_run)


def test_a_run_on_coarse_labels_is_judged_by_the_fine_ones(magnet, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "x.npz", X=X / 16, y=Y // 2, fine=Y, test=rng.random(len(Y)) < 0.3)
    words = ("train", "--data", tmp_path / "x.npz", "--judge", "fine", "--steps", "30", "--clusters-per-class", "4")
    printed = magnet(*words, "--out", tmp_path / "run", "--quiet")
    assert "Judged by 10 other labels (fine), which were not trained on" in printed
    found = magnet("evaluate", tmp_path / "run", "--json")
    assert found["judge"]["classes"] == 10
    assert found["judge"]["knc"]["error"] < 0.15
    assert found["knc"]["error"] < found["judge"]["knc"]["error"] + 0.05
