import numpy as np
import pytest

from magnet.experiments.outcome import paired_interval, relative_interval


def test_the_mean_is_the_plain_difference_and_lies_inside() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 200)) < 0.2, rng.random((3, 200)) < 0.3
    found = paired_interval(a, b)
    assert found.mean == pytest.approx(a.mean() - b.mean())
    assert found.low < found.mean < found.high
    assert relative_interval(a, b).mean == pytest.approx(1 - a.mean() / b.mean())


def test_one_repetition_agrees_with_the_normal_approximation() -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(0.3, 1.0, (1, 400))
    b = a - rng.normal(0.2, 0.5, (1, 400))  # paired: what both share cancels
    found = paired_interval(a, b, draws=4000)
    error = 1.96 * (a - b).std(ddof=1) / 20
    assert found.high - found.mean == pytest.approx(error, rel=0.1)
    assert found.mean - found.low == pytest.approx(error, rel=0.1)


def test_pairing_makes_a_small_constant_difference_sure() -> None:
    b = np.random.default_rng(2).random((3, 500))
    assert paired_interval(b - 0.01, b).excludes_zero
    assert not paired_interval(b, b).excludes_zero


def test_repetitions_that_disagree_widen_the_interval() -> None:
    b = np.full((4, 1000), 0.5)
    a = b + np.array([[-0.2], [-0.2], [0.2], [0.2]])
    found = paired_interval(a, b)
    assert found.high - found.low > 0.2


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"\(1, 3\) and \(1, 4\)"):
        paired_interval(np.zeros(3), np.zeros(4))


def test_two_that_make_no_mistake_are_equal():
    none = np.zeros((2, 50))
    assert tuple(relative_interval(none, none)) == (0, 0, 0)
