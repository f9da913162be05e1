"""Calibration: whether probabilities mean what they say, and the temperature that makes them (Guo et al., 2017)."""

import math
from typing import NamedTuple

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from magnet.evaluation.errors import FLOOR, LEAST, log_losses

RANGE = (1 / 16, 64.0)  # where the temperature is looked for
FOLDS = 5  # of the examples that are held out in turn
MANY = 5000  # examples above which one fold is enough


class Tempered(NamedTuple):
    """A temperature, and the cross-validated log-losses by which it was kept or not."""

    temperature: float  # 1 where a fitted one is not seen to help
    log_loss: float  # of the probabilities as they are
    log_loss_tempered: float  # with temperatures fitted to the other folds


def calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> float:
    """Expected calibration error: how far confidence is from accuracy, on average (Guo et al., 2017).

    ``sum_b n_b / n |accuracy_b - confidence_b|`` over bins of equal width, ((b - 1) / B, b / B].

    Args:
        confidence: (n,) the probability of the predicted class, in [0, 1].
        correct: (n,) whether the prediction was right.
        bins: B.

    >>> calibration_error(torch.tensor([0.75, 0.75, 0.5, 0.5]), torch.tensor([True, True, True, False]))
    0.125
    """
    confidence = confidence.double()
    place = (confidence * bins).ceil().long().clamp(1, bins) - 1
    gaps = torch.zeros(bins, dtype=torch.double).scatter_add_(0, place, correct.double() - confidence)
    return float(gaps.abs().sum() / len(confidence))


def temper(probabilities: Tensor, temperature: float) -> Tensor:
    """``p^(1/T)``, normalised (n, C): the ranking of the classes stays, their certainty changes."""
    return torch.softmax(probabilities.clamp_min(FLOOR).log() / temperature, dim=1)


def choose_temperature(probabilities: Tensor, columns: Tensor) -> Tempered:
    """The fitted temperature if it helps on examples that it was not fitted to, else 1.

    One number fitted to a few dozen examples of a well-calibrated classifier is mostly their noise. So temperatures are
    fitted without one fold of the examples at a time and judged on that fold. The temperature of all examples is kept
    if the mean log-loss falls by more than its standard error.

    Args:
        probabilities: (n, C) of examples that the classifier was not made of.
        columns: (n,) the column of each example's class.
    """
    classes = torch.arange(probabilities.shape[1])
    fold = torch.randperm(len(columns), generator=torch.Generator().manual_seed(0)) % FOLDS
    before, after = [torch.empty(0, dtype=torch.float64)], [torch.empty(0, dtype=torch.float64)]
    for number in range(FOLDS if len(columns) <= MANY else 1):
        out = fold == number
        if not out.any() or out.all():
            continue
        held, truth = probabilities[out].double(), columns[out]
        temperature = fit_temperature(probabilities[~out], columns[~out])
        before.append(log_losses(held, classes, truth))
        after.append(log_losses(temper(held, temperature), classes, truth))
    raw, tempered = torch.cat(before), torch.cat(after)
    gain = raw - tempered
    helps = len(gain) > 1 and float(gain.mean()) > float(gain.std()) / math.sqrt(len(gain))
    return Tempered(
        fit_temperature(probabilities, columns) if helps else 1.0, float(raw.mean()), float(tempered.mean())
    )


def fit_temperature(probabilities: Tensor, columns: Tensor) -> float:
    """The temperature with the least log-loss.

    One more mistake is imagined, a typical example of which the strongest other class is the true one, so that
    examples without a single mistake do not ask for infinite certainty.

    Args:
        probabilities: (n, C) of examples that the classifier was not made of.
        columns: (n,) the column of the class of each example.
    """
    logs = probabilities.double().clamp_min(FLOOR).log()
    rival = logs.scatter(1, columns[:, None], -torch.inf).argmax(dim=1, keepdim=True)

    def loss(log_temperature: float) -> float:
        scaled = torch.log_softmax(logs / math.exp(log_temperature), dim=1).clamp_min(math.log(LEAST))
        return -float(scaled.gather(1, columns[:, None]).sum() + scaled.gather(1, rival).mean())

    bounds = (math.log(RANGE[0]), math.log(RANGE[1]))
    return math.exp(float(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x))
