import pytest
import torch

from magnet.evaluation.calibration import calibration_error


def naive(confidence, correct, bins):
    total = 0.0
    for b in range(bins):
        inside = [i for i, c in enumerate(confidence.tolist()) if b / bins < c <= (b + 1) / bins or (b == 0 and c == 0)]
        if inside:
            accuracy = sum(bool(correct[i]) for i in inside) / len(inside)
            mean = sum(float(confidence[i]) for i in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(accuracy - mean)
    return total


def test_is_the_naive_computation():
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(500, generator=generator, dtype=torch.double)
    correct = torch.rand(500, generator=generator) < 0.5
    for bins in (1, 10, 15):
        assert calibration_error(confidence, correct, bins) == pytest.approx(naive(confidence, correct, bins))


def test_certain_and_right_is_calibrated_and_certain_and_wrong_is_not():
    assert calibration_error(torch.ones(4), torch.ones(4, dtype=torch.bool)) == 0
    assert calibration_error(torch.ones(4), torch.zeros(4, dtype=torch.bool)) == 1


def test_over_and_underconfidence_in_different_bins_do_not_cancel():
    confidence = torch.tensor([0.2, 0.8])
    assert calibration_error(confidence, torch.tensor([True, False])) == pytest.approx(0.8)
