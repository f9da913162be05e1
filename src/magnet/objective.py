"""The Magnet objective: two pure functions on tensors, then one thin module that remembers the variance.

For a representation r of cluster mu(r) and class C(r), with s the scaling,

    loss(r) = { alpha + s |r - mu(r)|^2 / (2 sigma^2)
                + log sum_{mu : C(mu) != C(r)} exp(-s |r - mu|^2 / (2 sigma^2)) }_+

which is the paper's -log of a ratio, written so that it neither overflows nor saturates. `magnet_loss` takes the
clusters from a batch (the stochastic objective, section 3.2), `magnet_objective` from a whole index (equation 4).

In a batch, |r - m_c|^2 cancels between a row's own mean m_c and an impostor's m_j: with f = s / (2 sigma^2) and
s_j = 2 (r - m_c).m_j - |m_j - m_c|^2,

    |r - m_c|^2 - |r - m_j|^2 = s_j - s_c        so that        loss(r) = { alpha + log sum_j exp(f (s_j - s_c)) }_+

Nothing in s_j is as large as |m_j|^2, so that clusters which overlap far from the mean of the batch keep their digits.
`terms` is the one place where this is computed; its gradient is written out in `magnet._gradient`.
"""

import math
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from magnet._gradient import Constants, Membership, Number, Parts, gradient, number
from magnet.errors import RangeError
from magnet.neighbours import (
    LARGEST,
    SIZES,
    at_least_float32,
    check_ids,
    check_number,
    check_positive,
    check_representations,
    check_variance,
    check_whole,
    reads_are_free,
    squared_distances,
)

OwnMean = Literal["batch", "leave-one-out"]


class MagnetOutput(NamedTuple):
    """What the objective (section 3.2) gives: its mean (), the loss of each example (B,) and the variance used ().

    >>> MagnetOutput(torch.tensor(0.5), torch.tensor([0.0, 1.0]), torch.tensor(2.0)).per_example
    tensor([0., 1.])
    """

    loss: Tensor
    per_example: Tensor
    variance: Tensor


def magnet_loss(
    representations: Tensor,
    clusters: Tensor,
    labels: Tensor,
    *,
    alpha: float = 1.0,
    scaling: float = 1.0,
    own_mean: OwnMean = "batch",
    variance: Tensor | float | None = None,
    neighbourhoods: Tensor | None = None,
) -> MagnetOutput:
    """The stochastic Magnet objective of a batch of sampled clusters (section 3.2).

    Cluster means are means over the batch, the variance is ``sum |r - mean|^2 / (B - 1)`` over the whole batch, and
    gradients flow through both. Only clusters of other classes stand in a denominator. A row without any impostor
    cluster in its neighbourhood has a loss of zero.

    If every row sits on its cluster's mean the variance is zero. It is then held at rounding level relative to the
    spread of the batch (float32: 1e-11 of it), so that the loss goes to its limit: 0 for clusters apart from each
    other, ``alpha + log(number of impostor clusters)`` where all representations are one point.

    Args:
        representations: (B, d). Half precision is computed in float32, also under autocast. In float32 no entry may
            exceed 1e15, nor all be below 1e-12 (an error on the CPU, where a look costs nothing).
        clusters: (B,) id of the cluster that each row was drawn from. Clusters may differ in size.
        labels: (B,) class of each row; the rows of a cluster share it.
        alpha: the gap, in units of the normalised distance.
        scaling: factor on the normalised squared distances, own and impostor alike (the paper's "global scaling").
        own_mean: "batch" (the paper), or "leave-one-out": the mean of the row's cluster without the row itself;
            a cluster of one row falls back to the batch mean. The variance is taken around batch means either way.
        variance: used instead of the batch's own estimate.
        neighbourhoods: (B,) rows of different neighbourhoods do not see each other's clusters. None: one
            neighbourhood. The variance is estimated over all of them together.

    Returns:
        (loss, per_example, variance), with shapes (), (B,) and ().

    Examples:
        Two clusters of two classes, at 0.5 and 4.5. The rows between them are nearer to the other class than the gap
        allows; with the batch's own variance, 1/3, the clusters are far apart.

        >>> r, clusters = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
        >>> magnet_loss(r, clusters, labels=clusters, variance=8.0).per_example
        tensor([0.0000, 0.2500, 0.2500, 0.0000])
        >>> magnet_loss(r, clusters, labels=clusters).variance
        tensor(0.3333)
    """
    check_representations(representations, finite=False)
    clusters = check_ids(clusters, len(representations), "clusters")
    labels = check_ids(labels, len(representations), "labels")
    if neighbourhoods is not None:
        neighbourhoods = check_ids(neighbourhoods, len(representations), "neighbourhoods")
    _check_options(alpha, scaling, own_mean, variance)
    r = at_least_float32(representations)
    if variance is not None:
        variance = _as_variance(variance, r)
    batch = membership(clusters, labels, neighbourhoods, r.dtype)
    options = Constants(alpha, scaling, own_mean == "leave-one-out")
    with _full_precision(r):
        # A compiler makes its own gradient, and torch.func its own kind of it.
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            output = MagnetOutput(*terms(r, batch, options, variance)[:3])
        else:
            output = MagnetOutput(*_Terms.apply(r, batch, options, variance))  # type: ignore[no-untyped-call]
    if reads_are_free(r):  # a closer look, where a look is free
        used = output.variance.item()
        if not (math.isfinite(output.loss.item()) and SIZES[r.dtype][0] ** 2 < used < math.inf):
            check_representations(representations, whole=True)
            _check_finite(output)
    return output if variance is None else output._replace(variance=variance)


def magnet_objective(
    representations: Tensor,
    assignments: Tensor,
    centres: Tensor | None,
    centre_labels: Tensor,
    *,
    alpha: float = 1.0,
    scaling: float = 1.0,
    variance: Tensor | float | None = None,
    chunk: int = 4096,
) -> MagnetOutput:
    """The full-set objective (section 3.1, equation 4) of N representations over an index of J clusters.

    Args:
        representations: (N, d).
        assignments: (N,) the cluster of each, an id into the centres.
        centres: (J, d), or None for the means of the members, with gradients through them. A cluster without members
            then has no mean, and is an impostor to nobody: as in `magnet_loss`, only the clusters that occur count.
        centre_labels: (J,) the class of each cluster.
        alpha: the gap.
        scaling: factor on the normalised squared distances.
        variance: used instead of ``sum |r - mu(r)|^2 / (N - 1)``.
        chunk: rows whose distances to all centres are held at a time.

    Returns:
        (loss, per_example, variance), with shapes (), (N,) and ().

    Examples:
        >>> r, labels = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
        >>> magnet_objective(r, labels, torch.tensor([[0.5], [4.5]]), torch.tensor([0, 1]), variance=8.0).loss
        tensor(0.1250)
    """
    check_representations(representations, whole=True)
    assignments = check_ids(assignments, len(representations), "assignments")
    if centres is not None:
        check_representations(centres, "centres")
    centre_labels = check_ids(centre_labels, None if centres is None else len(centres), "centre_labels", "centres")
    _check_options(alpha, scaling, "batch", variance)
    chunk = check_whole(chunk, "chunk", 1)
    r = at_least_float32(representations)
    count = len(centre_labels)
    if reads_are_free(assignments):
        least, most = (int(end) for end in assignments.aminmax())
        if not 0 <= least <= most < count:
            raise ValueError(f"assignments must lie in 0..{count - 1}; found {least}..{most}")
    labels = centre_labels[assignments]
    present = labels if centres is None else centre_labels
    if reads_are_free(present) and bool((present == present[0]).all()):
        raise ValueError(
            f"the {'clusters that have members' if centres is None else 'centres'} are of one class only "
            f"(label {int(present[0])}), and the objective sets a cluster against those of other classes"
        )
    if centres is not None and centres.shape != (count, r.shape[1]):
        raise ValueError(f"centres must have shape {(count, r.shape[1])}; found {tuple(centres.shape)}")
    with torch.autocast(r.device.type, enabled=False):
        origin = r.detach().mean(dim=0)
        r = r - origin
        visible = torch.ones_like(centre_labels, dtype=torch.bool)
        if centres is None:
            size = torch.bincount(assignments, minlength=count)
            mu = r.new_zeros(count, r.shape[1]).index_add(0, assignments, r) / size.clamp_min(1)[:, None]
            visible = size > 0
        else:
            mu = centres.to(r) - origin
        own = (r - mu[assignments]).square().sum(dim=1)
        if variance is None:
            variance = torch.maximum(
                own.sum() / max(len(r) - 1, 1), _rounding_level(r.detach().square().sum(dim=1).mean(), r.dtype)
            )
        variance = _as_variance(variance, r)
        per_example = torch.cat(
            [
                _hinge(
                    (own[rows, None] - squared_distances(r[rows], mu)).to(r.dtype),
                    (labels[rows, None] != centre_labels) & visible,
                    alpha,
                    scaling / 2 / variance,
                )
                for rows in torch.arange(len(r), device=r.device).split(chunk)
            ]
        )
        output = MagnetOutput(per_example.mean(), per_example, variance)
    if reads_are_free(r):
        _check_finite(output)
    return output


def terms(r: Tensor, batch: Membership, options: Constants, variance: Tensor | None, *, floats: bool = False) -> Parts:
    """The objective (section 3.2) of representations r (B, d), not in half precision.

    With ``floats`` the variance is one, and autograd does not see it.
    """
    member, average, hidden, further = batch
    # Everything is invariant to translation; in a centred batch, products lose no digits.
    r = r - r.detach().mean(dim=0)
    means = average @ r
    offsets = torch.addmm(r, member, means, alpha=-1)
    estimate = number(_squares(offsets), floats) / max(len(r) - 1, 1)
    if variance is None:
        spread = number(_squares(r.detach()), floats) / len(r)
        used = _at_least(estimate, _rounding_level(spread, r.dtype))
    else:
        used = number(variance, floats)
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


class MagnetLoss(nn.Module):
    """`magnet_loss` as a module that keeps the running variance for k-nearest-cluster evaluation (section 3.3).

    In training mode each batch's variance enters an exponential average, ``decay`` old and ``1 - decay`` new,
    corrected for its start so that the first batches count in full.

    >>> loss = MagnetLoss(alpha=1.0)
    >>> r, clusters = torch.tensor([[0.0], [1.0], [4.0], [5.0]], requires_grad=True), torch.tensor([0, 0, 1, 1])
    >>> loss(r, clusters, clusters).loss.backward()
    >>> loss.variance
    tensor(0.3333)
    """

    def __init__(
        self, alpha: float = 1.0, scaling: float = 1.0, own_mean: OwnMean = "batch", *, decay: float = 0.99
    ) -> None:
        super().__init__()
        _check_options(alpha, scaling, own_mean, None)
        if not 0 <= check_number(decay, "decay") < 1:
            raise ValueError(f"decay must be in [0, 1); found {decay}")
        self.alpha, self.scaling, self.own_mean, self.decay = alpha, scaling, own_mean, decay
        self.average: Tensor
        self.weight: Tensor
        self.register_buffer("average", torch.zeros(()))
        self.register_buffer("weight", torch.zeros(()))
        self.register_load_state_dict_pre_hook(_check_average)  # type: ignore[no-untyped-call]

    @property
    def variance(self) -> Tensor | None:
        """The running variance (), or None before the first training batch."""
        return self.average / self.weight if bool(self.weight > 0) else None

    def forward(
        self, representations: Tensor, clusters: Tensor, labels: Tensor, neighbourhoods: Tensor | None = None
    ) -> MagnetOutput:
        """The objective of a batch; see `magnet_loss` for the arguments."""
        output = magnet_loss(
            representations,
            clusters,
            labels,
            alpha=self.alpha,
            scaling=self.scaling,
            own_mean=self.own_mean,
            neighbourhoods=neighbourhoods,
        )
        if self.training:
            self.average.lerp_(output.variance.detach().to(self.average), 1 - self.decay)
            self.weight.lerp_(torch.ones_like(self.weight), 1 - self.decay)
        return output

    def extra_repr(self) -> str:
        """What ``print(module)`` shows."""
        return f"alpha={self.alpha}, scaling={self.scaling}, own_mean={self.own_mean!r}"


def _check_average(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Refuse a running variance that is none, in a state to be loaded; torch's last argument collects what is wrong."""
    found = {name: state.get(prefix + name) for name in ("average", "weight")}
    known = {k: v for k, v in found.items() if isinstance(v, Tensor) and v.device.type != "meta"}
    for name, value in known.items():
        if not bool((value.isfinite() & (value >= 0)).all()):
            rest[-1].append(f"{prefix}{name} must be finite and >= 0; found {value}")
    if len(known) == 2 and all(value.numel() == 1 for value in known.values()):
        average, weight = known.values()
        if weight > 0 and not (average / weight).isfinite():
            rest[-1].append(f"{prefix}average over {prefix}weight must be finite; found {average} / {weight}")


class _Terms(torch.autograd.Function):
    """(loss, per_example, variance) of `terms`, with the gradient written out."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, batch: Membership, options: Constants, variance: Tensor | None) -> Any:
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
        batch, parts = Membership(*kept[:4]), Parts(*kept[4:])
        with _full_precision(r):
            if torch.is_grad_enabled():  # somebody is going to differentiate the gradient
                return _differentiable(r, batch, ctx.options, given, [d_loss, d_each, d_variance])
            floats = parts.variance is None
            if floats:
                parts = parts._replace(variance=ctx.floats[0], estimate=ctx.floats[1])
            upstream = 0.0 if d_loss is None else number(d_loss, floats) / len(r)
            if d_each is not None:
                upstream = upstream + d_each
            outside = 0.0 if d_variance is None else number(d_variance, floats)
            found = gradient(parts, batch, ctx.options, upstream, outside, given is not None)
            return found[0], None, None, None if given is None else torch.as_tensor(found[1], dtype=r.dtype)


def _differentiable(
    r: Tensor, batch: Membership, options: Constants, given: Tensor | None, upstream: list[Tensor | None]
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


def _rounding_level(spread: Number, dtype: torch.dtype) -> Number:
    """The smallest variance told apart from zero, from the mean |r|^2 of a centred batch.

    A row is some units in the last place from its mean, even where it should sit on it.
    """
    info = torch.finfo(dtype)
    return _at_least((32 * info.eps) ** 2 * spread, 2**20 * info.tiny)


def _at_least(x: Number, least: Number) -> Number:
    return x.clamp(min=least) if isinstance(x, Tensor) else max(x, least)


def _squares(x: Tensor) -> Tensor:
    """The sum of all squares ()."""
    x = x.flatten()
    return x.dot(x)


def _full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """No autocast inside, at no cost where there is none."""
    kind = x.device.type
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def _hinge(closer: Tensor, visible: Tensor, alpha: float, factor: Tensor) -> Tensor:
    """{alpha + logsumexp_visible(factor closer)}_+: (B,) from |r - own|^2 - |r - other|^2 (B, J) and (B, J) bool."""
    # A finite stand-in for -inf keeps the gradient of an empty sum at zero instead of NaN.
    logits = torch.where(visible, factor * closer, torch.finfo(closer.dtype).min / 4)
    return torch.relu(alpha + torch.logsumexp(logits, dim=1))


def _as_variance(variance: Tensor | float, r: Tensor) -> Tensor:
    """A variance that was given, () of the type of r."""
    found = torch.as_tensor(variance, dtype=r.dtype, device=r.device).reshape(())
    if reads_are_free(found) and not 0 < found.item() < math.inf:
        raise ValueError(f"variance must be positive and finite as {r.dtype}; found {float(variance):.3g}")
    return found


def _check_finite(output: MagnetOutput) -> None:
    """Raise where the losses of finite representations are not finite: a variance was given that is too small."""
    if not math.isfinite(output.loss.item()):
        raise RangeError(
            f"squared distances over a variance of {output.variance.item():.3g} overflow, and the loss is "
            f"{output.loss.item()}: give a variance of the size of the squared distances, or a smaller scaling"
        )


def _check_options(alpha: float, scaling: float, own_mean: str, variance: Tensor | float | None) -> None:
    check_number(alpha, "alpha", -LARGEST, LARGEST)
    check_positive(scaling, "scaling")
    check_variance(variance)
    if not isinstance(own_mean, str) or own_mean not in ("batch", "leave-one-out"):
        raise ValueError(f'own_mean must be "batch" or "leave-one-out"; found {own_mean!r}')


def membership(clusters: Tensor, labels: Tensor, neighbourhoods: Tensor | None, dtype: torch.dtype) -> Membership:
    """The clusters of a batch, from the cluster, the class and the neighbourhood (B,) of each row.

    Where values can be looked at, J is the number of clusters, and it is an error if a cluster holds two classes or the
    batch only one. Elsewhere no shape may depend on the data, so that this compiles to one graph and never waits for a
    device: every row has a column, and those that are not the first of their cluster stay empty.
    """
    if reads_are_free(clusters) and reads_are_free(labels):
        return _packed(clusters, labels, neighbourhoods, dtype)
    together = clusters.unsqueeze(1) == clusters
    hidden = labels.unsqueeze(1) == labels
    if neighbourhoods is not None:
        near = neighbourhoods.unsqueeze(1) == neighbourhoods
        together, hidden = together & near, hidden | ~near
    first = together.to(torch.int8).argmax(dim=1) == torch.arange(len(clusters), device=clusters.device)
    member = (together & first).to(dtype)
    size = member.sum(dim=0).clamp_min(1)
    return Membership(member, (member / size).T, hidden | ~first, member @ _further(size))


def _packed(clusters: Tensor, labels: Tensor, neighbourhoods: Tensor | None, dtype: torch.dtype) -> Membership:
    ids, classes = clusters.tolist(), labels.tolist()
    _check_classes(ids, classes)
    # The same cluster in two neighbourhoods is two clusters.
    places: Sequence[Hashable] = ids
    if neighbourhoods is not None:
        places = list(zip(ids, neighbourhoods.tolist(), strict=True))
    columns: dict[Hashable, int] = {}
    column = [columns.setdefault(place, len(columns)) for place in places]
    class_of = dict(zip(column, classes, strict=True))
    member, average, further = _columns(tuple(column), dtype)
    hidden = labels.unsqueeze(1) == labels.new_tensor(list(class_of.values()))
    if neighbourhoods is not None:
        row_of = dict(zip(column, range(len(column)), strict=True))
        hidden |= neighbourhoods.unsqueeze(1) != neighbourhoods[list(row_of.values())]
    return Membership(member, average, hidden, further)


@lru_cache(maxsize=16)  # batches of M clusters with D examples each all look the same
def _columns(column: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Member, average and further, from the column (B,) of each row. They are kept and shared: not to be changed."""
    with torch.inference_mode(False):  # else they would be of no use in training afterwards
        member = torch.eye(max(column) + 1, dtype=dtype, device="cpu")[list(column)]
        size = member.sum(dim=0)
        return member, (member / size).T.contiguous(), member @ _further(size)


def _further(size: Tensor) -> Tensor:
    """`Membership.further` for clusters of that many rows (J,): r - mean of the others = (r - mean) n / (n - 1).

    A cluster of one has no others: it keeps its mean, and this is 0.
    """
    return torch.where(size > 1, size / (size - 1).clamp_min(1), 1.0).square() - 1


def _check_classes(clusters: list[int], classes: list[int]) -> None:
    pairs = set(zip(clusters, classes, strict=True))
    if len(pairs) > len(set(clusters)):
        raise ValueError("a cluster holds rows of two classes; clusters belong to one class: check the ids given")
    if len(set(classes)) == 1:
        raise ValueError(
            f"the batch holds one class only (label {classes[0]}), and the objective sets a cluster against "
            "those of other classes: draw batches with NeighbourhoodSampler"
        )
