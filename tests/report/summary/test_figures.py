import numpy as np

from magnet.report.summary.figures import Series, series, smooth

JOURNAL = [
    {"kind": "train", "step": 20, "loss": 2.0, "sigma": None},
    {"kind": "refresh", "step": 20, "churn": 0.5},
    {"kind": "train", "step": 40, "loss": float("nan")},
    {"kind": "train", "step": 60, "loss": 1},
    {"kind": "train", "step": 80, "loss": "high"},
]


def test_a_series_holds_the_finite_numbers_of_its_kind():
    line = series(JOURNAL, "train", "loss")
    assert (line.steps.tolist(), line.values.tolist()) == ([20, 60], [2, 1])
    assert len(series(JOURNAL, "train", "sigma").steps) == 0
    assert series(JOURNAL, "refresh", "churn").values.tolist() == [0.5]


def test_the_moving_mean_is_the_naive_one():
    line = Series(np.arange(100.0), np.random.default_rng(0).normal(size=100))
    mean = smooth(line)
    assert mean is not None
    expected = [line.values[max(0, i - 5) : i + 6].mean() for i in range(100)]
    np.testing.assert_allclose(mean.values, expected)
    assert smooth(Series(line.steps[:11], line.values[:11])) is None
