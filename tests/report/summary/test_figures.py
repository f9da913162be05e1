from itertools import pairwise

import numpy as np

from magnet.report.summary.figures import Series, series, smooth, thin

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


def test_a_thinned_line_keeps_means_and_every_point_counts():
    line = Series(np.arange(1003.0), np.random.default_rng(0).normal(size=1003))
    short = thin(line, 100)
    assert len(short.steps) == 100
    cuts = np.linspace(0, 1003, 101).astype(int)
    expected = [line.values[a:b].mean() for a, b in pairwise(cuts)]
    np.testing.assert_allclose(short.values, expected)
    assert thin(line, 2000) is line


def test_the_moving_mean_is_the_naive_one():
    line = Series(np.arange(100.0), np.random.default_rng(0).normal(size=100))
    mean = smooth(line)
    assert mean is not None
    expected = [line.values[max(0, i - 2) : i + 3].mean() for i in range(100)]
    np.testing.assert_allclose(mean.values, expected)
    assert smooth(Series(line.steps[:20], line.values[:20])) is None
