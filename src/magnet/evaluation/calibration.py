"""Calibration: whether probabilities mean what they say."""

import torch
from torch import Tensor


def calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> float:
    """Expected calibration error: how far confidence is from accuracy, on average (Guo et al., 2017).

    ``sum_b n_b / n |accuracy_b - confidence_b|`` over bins of equal width, ((b - 1) / B, b / B].

    Args:
        confidence: (n,) the probability of the predicted class, in [0, 1].
        correct: (n,) whether the prediction was right.
        bins: B.
    """
    confidence = confidence.double()
    place = (confidence * bins).ceil().long().clamp(1, bins) - 1
    gaps = torch.zeros(bins, dtype=torch.double).scatter_add_(0, place, correct.double() - confidence)
    return float(gaps.abs().sum() / len(confidence))
