"""The Magnet objective of a batch, and its gradient in closed form.

Between a row's own mean m_c and an impostor's m_j, |r|^2 cancels: with s_j = 2 r.m_j - |m_j|^2,

    |r - m_c|^2 - |r - m_j|^2 = s_j - s_c        so that        loss(r) = { alpha + log sum_j exp(f (s_j - s_c)) }_+

where f = scaling / (2 sigma^2). Autograd's gradient of the batch objective is a hundred small operations, which cost as
much as a small network; written out it is a third of them. `terms` is the one place where the objective is computed.
`Terms` gives it the gradient, and tests hold that against autograd's.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from magnet.membership import Batch


class Options(NamedTuple):
    """The numbers of the objective."""

    alpha: float
    scaling: float
    leave_one_out: bool


class Parts(NamedTuple):
    """What the objective is made of. The first three are its results."""

    loss: Tensor  # ()
    per_example: Tensor  # (B,)
    variance: Tensor  # ()
    estimate: Tensor  # () the batch's own variance, which `variance` is unless that was given or held up
    means: Tensor  # (J, d) of the clusters, around that of the batch
    centred: Tensor  # (B, d) the rows, around the mean of the batch
    offsets: Tensor  # (B, d) from the own mean
    scores: Tensor  # (B, J) s
    logits: Tensor  # (B, J) f s of impostors, very low elsewhere


def terms(r: Tensor, batch: Batch, options: Options, variance: Tensor | None) -> Parts:
    """The objective (section 3.2) of representations r (B, d), not in half precision."""
    member, visible, size = batch
    # Everything is invariant to translation; in a centred batch, products lose no digits.
    r = r - r.detach().mean(dim=0)
    means = (member.T @ r) / size.unsqueeze(1)
    offsets = torch.addmm(r, member, means, alpha=-1)
    estimate = _squares(offsets) / max(len(r) - 1, 1)
    if variance is None:
        variance = torch.maximum(estimate, rounding_level(_squares(r.detach()) / len(r)))
    factor = options.scaling / 2 / variance
    scores = torch.addmm(means.square().sum(dim=1), r, means.T, beta=-1, alpha=2)
    scaled = scores * factor
    # A finite stand-in for -inf: a row without impostors has a loss and a gradient of zero, not NaN.
    logits = torch.where(visible, scaled, torch.finfo(r.dtype).min / 4)
    gap = torch.logsumexp(logits, dim=1) - (scaled * member).sum(dim=1) + options.alpha
    if options.leave_one_out:
        gap = gap + factor * (member @ _further(size)) * offsets.square().sum(dim=1)
    per_example = torch.relu(gap)
    return Parts(per_example.mean(), per_example, variance, estimate, means, r, offsets, scores, logits)


def rounding_level(spread: Tensor) -> Tensor:
    """The smallest variance told apart from zero: machine precision times the mean |r|^2 () of a centred batch."""
    info = torch.finfo(spread.dtype)
    return (info.eps * spread).clamp_min(info.tiny / info.eps)


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """No autocast inside, at no cost where there is none."""
    kind = x.device.type
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


class Terms(torch.autograd.Function):
    """(loss, per_example, variance) of `terms`, with the gradient written out."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, batch: Batch, options: Options, variance: Tensor | None) -> Any:
        """The objective; what the gradient needs is kept."""
        parts = terms(r, batch, options, variance)
        ctx.save_for_backward(r, variance, *batch, *parts[1:])
        ctx.options = options
        ctx.set_materialize_grads(False)
        return parts[:3]

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor | None, d_each: Tensor | None, d_variance: Tensor | None) -> Any:
        """Gradients of the representations and of a variance that was given."""
        r, given, member, visible, size, *parts = ctx.saved_tensors
        batch = Batch(member, visible, size)
        with full_precision(r):
            if torch.is_grad_enabled():  # somebody is going to differentiate the gradient
                return _differentiable(r, batch, ctx.options, given, [d_loss, d_each, d_variance])
            upstream = r.new_zeros(()) if d_loss is None else d_loss / len(r)
            if d_each is not None:
                upstream = upstream + d_each
            kept = Parts(r.new_empty(0), *parts)
            return _gradient(kept, batch, ctx.options, upstream, d_variance, given is not None)


def _gradient(
    parts: Parts, batch: Batch, options: Options, upstream: Tensor, d_variance: Tensor | None, given: bool
) -> tuple[Tensor, None, None, Tensor | None]:
    """The gradient (B, d) of the representations and that of a given variance (); ``upstream``: of per_example."""
    _, losses, variance, estimate, means, centred, offsets, scores, logits = parts
    member, _, size = batch
    # Of the scores: f times the share of each impostor in the logsumexp, less the own cluster.
    active = (losses > 0) * upstream * (options.scaling / 2 / variance)
    of_scores = (torch.softmax(logits, dim=1) - member) * active.unsqueeze(1)
    of_factor = of_scores.flatten().dot(scores.flatten())  # times f
    # Half of that of the means, and of the rows with the means held still: s_j = 2 r.m_j - |m_j|^2.
    of_means = torch.addmm(of_scores.sum(dim=0).unsqueeze(1) * means, of_scores.T, centred, beta=-1)
    pull: Tensor | float = 0.0  # on the |offset|^2 of each row
    if options.leave_one_out:
        pull = active * (member @ _further(size))
        of_means.addmm_((member * pull.unsqueeze(1)).T, offsets, alpha=-1)
        of_factor = of_factor + pull.dot(offsets.square().sum(dim=1))
        pull = pull.unsqueeze(1)
    of_variance = -of_factor / variance if d_variance is None else d_variance - of_factor / variance
    if not given:  # unless held up, the variance is the mean |offset|^2; offsets sum up to zero in every cluster
        pull = of_variance * (estimate == variance) / max(len(losses) - 1, 1) + pull
    of_rows = offsets * (2 * pull)
    of_rows.addmm_(of_scores, means, alpha=2)
    of_rows.addmm_(member, of_means / size.unsqueeze(1), alpha=2)  # rows are members of their means too
    return of_rows, None, None, of_variance if given else None


def _differentiable(
    r: Tensor, batch: Batch, options: Options, given: Tensor | None, upstream: list[Tensor | None]
) -> tuple[Tensor | None, None, None, Tensor | None]:
    """The same gradients by autograd, which can be differentiated again."""
    outputs = terms(r, batch, options, given)[:3]
    pairs = [(x, dx) for x, dx in zip(outputs, upstream, strict=True) if dx is not None and x.requires_grad]
    inputs = [x for x in (r, given) if x is not None and x.requires_grad]
    found = torch.autograd.grad(
        [x for x, _ in pairs], inputs, [dx for _, dx in pairs], create_graph=True, allow_unused=True
    )
    gradients = {id(x): dx for x, dx in zip(inputs, found, strict=True)}
    return gradients.get(id(r)), None, None, gradients.get(id(given))


def _squares(x: Tensor) -> Tensor:
    """The sum of all squares ()."""
    x = x.flatten()
    return x.dot(x)


def _further(size: Tensor) -> Tensor:
    """By how much |r - mean of the others|^2 exceeds |r - mean|^2, relative to it (J,); 0 for a cluster of one.

    r - mean of the others = (r - mean) n / (n - 1).
    """
    return torch.where(size > 1, size / (size - 1).clamp_min(1), 1.0).square() - 1
