from types import SimpleNamespace

import numpy as np
import pytest

from magnet.report.summary.figures import CURVES, Series, draw_curve, series, smooth, standard_error

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


@pytest.mark.parametrize("name", ["loss", "active"])
def test_of_a_single_point_a_sentence_is_written_and_no_curve_is_drawn(name):
    curve = next(one for one in CURVES if one.name == name)
    runs = [
        SimpleNamespace(
            name="short", journal=[{"kind": "train", "step": 6, "loss": 0.8512, "active": 0.66}], findings=None,
            config=SimpleNamespace(method="magnet"),
        )
    ]  # fmt: skip
    shown = {"loss": "0.851", "active": "66.0 %"}[name]
    assert draw_curve(curve, runs) == f"{curve.title} was noted once, which makes no curve: short {shown} at step 6."


def test_a_share_that_rounding_took_past_one_has_no_standard_error():
    assert standard_error(1 + 2**-52, 10) == 0
    assert standard_error(0.5, 25) == pytest.approx(0.1)
