"""The gradient of the batch objective, written out.

Autograd's gradient of `magnet.objective.terms` is a hundred small operations, which cost as much as a small network;
written out it is a fifth of them. Tests hold it against autograd's.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

Number = Any  # a tensor () or, where nobody has to wait for it, a float: arithmetic with floats costs next to nothing


class Membership(NamedTuple):
    """Who belongs where: B rows, J clusters."""

    member: Tensor  # (B, J) 1 where row i was drawn from cluster j, else 0
    average: Tensor  # (J, B) the weights of the rows in the means of the clusters
    hidden: Tensor  # (B, J) bool: whether cluster j is no impostor to row i
    further: Tensor  # (B,) by how much |r - mean of the others|^2 exceeds |r - mean|^2, relative to it


class Constants(NamedTuple):
    """The numbers of the objective."""

    alpha: float
    scaling: float
    leave_one_out: bool


class Parts(NamedTuple):
    """What the objective is made of. The first three are its results."""

    loss: Tensor  # ()
    per_example: Tensor  # (B,)
    variance: Number
    estimate: Number  # the batch's own variance, which `variance` is unless that was given or held up
    means: Tensor  # (J, d) of the clusters, around the mean of the batch
    centred: Tensor  # (B, d) the rows, around the mean of the batch
    offsets: Tensor  # (B, d) from the own mean
    scores: Tensor  # (B, J) s
    shares: Tensor  # (B, J) of the impostors in the sum of exp(f s)


def gradient(
    parts: Parts, batch: Membership, options: Constants, upstream: Number | Tensor, d_variance: Number, given: bool
) -> tuple[Tensor, Number]:
    """Gradients for the representations (B, d) and for the variance; ``upstream`` is the gradient for per_example."""
    _, losses, variance, estimate, means, centred, offsets, scores, shares = parts
    member, average, _, further = batch
    floats = isinstance(variance, float)
    # Of the scores: f times the share of each impostor in the logsumexp, less the own cluster.
    active = losses.sign() * (upstream * (options.scaling / 2 / variance))
    of_scores = (shares - member).mul_(active.unsqueeze(1))
    of_factor = number(of_scores.flatten().dot(scores.flatten()), floats)  # times f
    # Half the gradient of the means, and of the rows with the means held still: s_j - s_c = |r - m_c|^2 - |r - m_j|^2.
    of_means = torch.addmm(of_scores.sum(dim=0).unsqueeze(1) * means, of_scores.T, centred, beta=-1)
    pull: Number = 0.0  # on the |offset|^2 of each row
    if options.leave_one_out:
        pull = active * further
        of_means.addmm_((member * pull.unsqueeze(1)).T, offsets, alpha=-1)
        of_factor = of_factor + number(pull.dot(offsets.square().sum(dim=1)), floats)
        pull = pull.unsqueeze(1)
    of_variance = d_variance - of_factor / variance
    if not given:  # unless held up, the variance is the mean |offset|^2; offsets sum up to zero in every cluster
        pull = of_variance * (estimate == variance) / max(len(losses) - 1, 1) + pull
    of_rows = offsets * (2 * pull)
    of_rows.addmm_(of_scores, means, alpha=2)
    of_rows.addmm_(average.T, of_means, alpha=2)  # rows are members of their means too
    return of_rows, of_variance


def number(x: Tensor, floats: bool) -> Number:
    """A tensor () as it is, or the float in it."""
    return x.item() if floats else x
