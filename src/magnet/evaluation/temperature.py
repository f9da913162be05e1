"""Temperature scaling: one number that makes probabilities mean what they say (Guo et al., 2017)."""

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

FLOOR = 1e-30  # a probability of zero, for logarithms
RANGE = (1 / 16, 64.0)  # where the temperature is looked for


def temper(probabilities: Tensor, temperature: float) -> Tensor:
    """``p^(1/T)``, normalised (n, C): the ranking of the classes stays, their certainty changes."""
    return torch.softmax(probabilities.clamp_min(FLOOR).log() / temperature, dim=1)


def fit_temperature(probabilities: Tensor, columns: Tensor) -> float:
    """The temperature with the least log-loss.

    One more mistake is imagined, a typical example of which the strongest other class is the true one, so that
    examples without a single mistake do not ask for infinite certainty.

    Args:
        probabilities: (n, C) of examples that the classifier was not made of.
        columns: (n,) the column of each one's class.
    """
    logs = probabilities.double().clamp_min(FLOOR).log()
    rival = logs.scatter(1, columns[:, None], -torch.inf).argmax(dim=1, keepdim=True)

    def loss(log_temperature: float) -> float:
        scaled = torch.log_softmax(logs / math.exp(log_temperature), dim=1)
        return -float(scaled.gather(1, columns[:, None]).sum() + scaled.gather(1, rival).mean())

    bounds = (math.log(RANGE[0]), math.log(RANGE[1]))
    return math.exp(float(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x))
