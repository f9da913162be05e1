"""The terms of the Magnet objective of a batch, and their gradient in closed form.

Autograd's own gradient of these terms runs through a hundred small operations, which on a small network cost as much
as the network. `Terms` says the same in a quarter of them. `terms` is the one place where the objective itself is
computed; tests hold the gradient against autograd's through it.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """Who belongs where: B rows, J clusters."""

    member: Tensor  # (B, J) whether row i was drawn from cluster j
    visible: Tensor  # (B, J) whether cluster j is an impostor to row i


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
    member: Tensor  # (B, J) as numbers
    size: Tensor  # (J,) of the clusters
    means: Tensor  # (J, d) of the clusters, around that of the batch
    centred: Tensor  # (B, d) the rows, around the mean of the batch
    offsets: Tensor  # (B, d) from the own mean
    own: Tensor  # (B,) squared distance to the own mean, or to that of the others with leave-one-out
    distances: Tensor  # (B, J) squared
    logits: Tensor  # (B, J) -distance scaling / (2 variance) to impostors, very low elsewhere


def terms(r: Tensor, batch: Batch, options: Options, variance: Tensor | None) -> Parts:
    """The objective (section 3.2) of representations r (B, d), not in half precision."""
    # Everything is invariant to translation; a centred batch keeps the expanded squares below accurate.
    r = r - r.detach().mean(dim=0)
    member = batch.member.to(r.dtype)
    size = member.sum(dim=0).clamp_min(1)
    means = (member.T @ r) / size.unsqueeze(1)
    offsets = torch.addmm(r, member, means, alpha=-1)
    own = offsets.square().sum(dim=1)
    norms = r.square().sum(dim=1)
    estimate = own.sum() / max(len(r) - 1, 1)
    if variance is None:
        variance = torch.maximum(estimate, rounding_level(norms))
    if options.leave_one_out:
        own = own * (member @ _without_itself(size))
    squares = norms.unsqueeze(1) + means.square().sum(dim=1)
    distances = torch.addmm(squares, r, means.T, alpha=-2).clamp_min(0)
    per_example, logits = hinge(own, distances, batch.visible, options.alpha, options.scaling / 2 / variance)
    return Parts(
        per_example.mean(), per_example, variance, estimate, member, size, means, r, offsets, own, distances, logits
    )


def hinge(own: Tensor, distances: Tensor, visible: Tensor, alpha: float, factor: Tensor) -> tuple[Tensor, Tensor]:
    """{alpha + factor own + logsumexp_visible(-factor distances)}_+: (B,) from (B,), (B, J) and (B, J) bool.

    Returns:
        (B,), and what the logsumexp is of (B, J).
    """
    # A finite stand-in for -inf keeps the gradient of an empty sum at zero instead of NaN, and the hinge at zero.
    logits = torch.where(visible, distances * -factor, torch.finfo(distances.dtype).min / 4)
    return torch.relu(factor * own + torch.logsumexp(logits, dim=1) + alpha), logits


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """No autocast inside, at no cost where there is none."""
    kind = x.device.type
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def rounding_level(norms: Tensor) -> Tensor:
    """The smallest variance told apart from zero: machine precision times the spread of rows with norms^2 (B,)."""
    info = torch.finfo(norms.dtype)
    return (info.eps * norms.detach().mean()).clamp_min(info.tiny / info.eps)


def _without_itself(size: Tensor) -> Tensor:
    """r - mean of the others = (r - mean) n / (n - 1); the square of that factor (J,), 1 for a cluster of one."""
    return torch.where(size > 1, size / (size - 1).clamp_min(1), 1.0).square()


class Terms(torch.autograd.Function):
    """(loss, per_example, variance) of `terms`, with its gradient written out."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, batch: Batch, options: Options, variance: Tensor | None) -> Any:
        """The objective; what the gradient needs is kept."""
        parts = terms(r, batch, options, variance)
        ctx.save_for_backward(r, variance, batch.member, batch.visible, *parts[1:])
        ctx.options = options
        ctx.set_materialize_grads(False)
        return parts[:3]

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor | None, d_each: Tensor | None, d_variance: Tensor | None) -> Any:
        """Gradients of the representations and of a variance that was given."""
        r, given, member, visible, *parts = ctx.saved_tensors
        with full_precision(r):
            if torch.is_grad_enabled():  # somebody is going to differentiate the gradient
                return _differentiable(r, Batch(member, visible), ctx.options, given, [d_loss, d_each, d_variance])
            upstream = r.new_zeros(()) if d_loss is None else d_loss / len(r)
            if d_each is not None:
                upstream = upstream + d_each
            return _gradient(Parts(r.new_empty(()), *parts), upstream, d_variance, ctx.options, given is not None)


def _gradient(
    parts: Parts, upstream: Tensor, d_variance: Tensor | None, options: Options, given: bool
) -> tuple[Tensor, None, None, Tensor | None]:
    """The gradient (B, d) of the representations and that of a given variance (); ``upstream``: of per_example."""
    _, losses, variance, estimate, member, size, means, centred, offsets, own, distances, logits = parts
    # Write x_i = y_i + m_i for a row, its offset and its own mean. The loss grows with factor * own_i by active_i,
    # and falls with factor * |x_i - m_j|^2 by active_i times the share of j in the logsumexp.
    active = (losses > 0) * upstream
    pull = active * (options.scaling / 2 / variance)
    push = pull.unsqueeze(1) * torch.softmax(logits, dim=1)
    d_sigma = (push.flatten().dot(distances.flatten()) - pull.dot(own)) / variance
    if d_variance is not None:
        d_sigma = d_sigma + d_variance
    away = pull  # what pushes sum up to in a row
    if options.leave_one_out:
        pull = pull * (member @ _without_itself(size))
    if not given:  # unless held up, the variance is the mean of the |y_i|^2
        pull = pull + d_sigma * (estimate == variance) / max(len(losses) - 1, 1)
    # Half the gradient of the means, then of the rows, which are members of their means too.
    of_means = torch.addmm(push.sum(dim=0).unsqueeze(1) * means, push.T, centred, beta=-1)
    of_means.addmm_((member * pull.unsqueeze(1)).T, offsets, alpha=-1)
    of_rows = offsets * (2 * (pull - away)).unsqueeze(1)
    of_rows.addmm_(push - member * away.unsqueeze(1), means, alpha=2)
    of_rows.addmm_(member, of_means / size.unsqueeze(1), alpha=2)
    return of_rows, None, None, d_sigma if given else None


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
