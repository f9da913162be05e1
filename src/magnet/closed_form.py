"""The Magnet objective of a batch, and its gradient in closed form.

Between a row's own mean m_c and an impostor's m_j, |r - m_c|^2 cancels: with s_j = 2 (r - m_c).m_j - |m_j - m_c|^2,

    |r - m_c|^2 - |r - m_j|^2 = s_j - s_c        so that        loss(r) = { alpha + log sum_j exp(f (s_j - s_c)) }_+

where f = scaling / (2 sigma^2). Nothing in s_j is as large as |m_j|^2, so that clusters which overlap far from the mean
of the batch keep their digits. Autograd's gradient of the batch objective is a hundred small operations, which cost as
much as a small network; written out it is a fifth of them. `terms` is the one place where the objective is computed.
`Terms` gives it the gradient, and tests hold that against autograd's.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from magnet.checks import reads_are_free
from magnet.membership import Batch
from magnet.neighbours import squared_distances

Number = Any  # a tensor () or, where nobody has to wait for it, a float: arithmetic with floats costs next to nothing


class Options(NamedTuple):
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
    means: Tensor  # (J, d) of the clusters, around that of the batch
    centred: Tensor  # (B, d) the rows, around the mean of the batch
    offsets: Tensor  # (B, d) from the own mean
    scores: Tensor  # (B, J) s
    shares: Tensor  # (B, J) of the impostors in the sum of exp(f s)


def terms(r: Tensor, batch: Batch, options: Options, variance: Tensor | None, *, floats: bool = False) -> Parts:
    """The objective (section 3.2) of representations r (B, d), not in half precision.

    With ``floats`` the variance is one, and autograd does not see it.
    """
    member, average, hidden, further = batch
    # Everything is invariant to translation; in a centred batch, products lose no digits.
    r = r - r.detach().mean(dim=0)
    means = average @ r
    offsets = torch.addmm(r, member, means, alpha=-1)
    estimate = _number(_squares(offsets), floats) / max(len(r) - 1, 1)
    if variance is None:
        spread = _number(_squares(r.detach()), floats) / len(r)
        used = _at_least(estimate, rounding_level(spread, r.dtype))
    else:
        used = _number(variance, floats)
    factor = options.scaling / 2 / used
    apart = squared_distances(means).to(r.dtype)  # (J, J)
    scores = torch.addmm(member @ apart, offsets, means.T, beta=-1, alpha=2)
    scaled = scores * factor
    # A finite stand-in for -inf: a row without impostors has a loss and a gradient of zero, not NaN.
    logits = scaled.masked_fill(hidden, torch.finfo(r.dtype).min / 4)
    shares = torch.softmax(logits, dim=1)
    # logsumexp(logits): the largest share, which is never small, is exp(largest logit - logsumexp).
    others = logits.amax(dim=1) - shares.amax(dim=1).log()
    gap = others - (scaled * member).sum(dim=1) + options.alpha
    if options.leave_one_out:
        gap = gap + (factor * further) * offsets.square().sum(dim=1)
    per_example = torch.relu(gap)
    return Parts(per_example.mean(), per_example, used, estimate, means, r, offsets, scores, shares)


def rounding_level(spread: Number, dtype: torch.dtype) -> Number:
    """The smallest variance told apart from zero, from the mean |r|^2 of a centred batch.

    A row is some units in the last place from its mean, even where it should sit on it.
    """
    info = torch.finfo(dtype)
    return _at_least((32 * info.eps) ** 2 * spread, 2**20 * info.tiny)


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
        parts = terms(r, batch, options, variance, floats=reads_are_free(r))
        ctx.save_for_backward(r, variance, *batch, *(part if isinstance(part, Tensor) else None for part in parts))
        ctx.floats, ctx.options = (parts.variance, parts.estimate), options
        ctx.set_materialize_grads(False)
        return parts.loss, parts.per_example, torch.as_tensor(parts.variance, dtype=r.dtype)

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor | None, d_each: Tensor | None, d_variance: Tensor | None) -> Any:
        """Gradients of the representations and of a variance that was given."""
        r, given, *kept = ctx.saved_tensors
        batch, parts = Batch(*kept[:4]), Parts(*kept[4:])
        with full_precision(r):
            if torch.is_grad_enabled():  # somebody is going to differentiate the gradient
                return _differentiable(r, batch, ctx.options, given, [d_loss, d_each, d_variance])
            floats = parts.variance is None
            if floats:
                parts = parts._replace(variance=ctx.floats[0], estimate=ctx.floats[1])
            upstream = 0.0 if d_loss is None else _number(d_loss, floats) / len(r)
            if d_each is not None:
                upstream = upstream + d_each
            outside = 0.0 if d_variance is None else _number(d_variance, floats)
            found = _gradient(parts, batch, ctx.options, upstream, outside, given is not None)
            return found[0], None, None, None if given is None else torch.as_tensor(found[1], dtype=r.dtype)


def _gradient(
    parts: Parts, batch: Batch, options: Options, upstream: Number | Tensor, d_variance: Number, given: bool
) -> tuple[Tensor, Number]:
    """The gradient (B, d) of the representations, and that of the variance; ``upstream``: of per_example."""
    _, losses, variance, estimate, means, centred, offsets, scores, shares = parts
    member, average, _, further = batch
    floats = isinstance(variance, float)
    # Of the scores: f times the share of each impostor in the logsumexp, less the own cluster.
    active = losses.sign() * (upstream * (options.scaling / 2 / variance))
    of_scores = (shares - member).mul_(active.unsqueeze(1))
    of_factor = _number(of_scores.flatten().dot(scores.flatten()), floats)  # times f
    # Half of that of the means, and of the rows with the means held still: s_j - s_c = |r - m_c|^2 - |r - m_j|^2.
    of_means = torch.addmm(of_scores.sum(dim=0).unsqueeze(1) * means, of_scores.T, centred, beta=-1)
    pull: Number = 0.0  # on the |offset|^2 of each row
    if options.leave_one_out:
        pull = active * further
        of_means.addmm_((member * pull.unsqueeze(1)).T, offsets, alpha=-1)
        of_factor = of_factor + _number(pull.dot(offsets.square().sum(dim=1)), floats)
        pull = pull.unsqueeze(1)
    of_variance = d_variance - of_factor / variance
    if not given:  # unless held up, the variance is the mean |offset|^2; offsets sum up to zero in every cluster
        pull = of_variance * (estimate == variance) / max(len(losses) - 1, 1) + pull
    of_rows = offsets * (2 * pull)
    of_rows.addmm_(of_scores, means, alpha=2)
    of_rows.addmm_(average.T, of_means, alpha=2)  # rows are members of their means too
    return of_rows, of_variance


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


def _number(x: Tensor, floats: bool) -> Number:
    """A tensor () as it is, or the float in it."""
    return x.item() if floats else x


def _at_least(x: Number, least: Number) -> Number:
    return x.clamp(min=least) if isinstance(x, Tensor) else max(x, least)


def _squares(x: Tensor) -> Tensor:
    """The sum of all squares ()."""
    x = x.flatten()
    return x.dot(x)
