"""K-means++ and Lloyd's iterations of a block: G classes, R restarts of each, in batched products.

A centre is the mean of some points of its class, and is held as who they are: ones and zeros (n,), and one over their
number. All that is needed of it are its products with the points. In a class with fewer points than dimensions those
come from the products of the points with each other, made once.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

# Below this share of |x|^2 the expanded |x|^2 + |mu|^2 - 2 x mu has lost digits, and differences are taken instead.
BLURRED = 1e-3


class Block(NamedTuple):
    """The clusters of G classes; the clusters of a class are ordered by size, the largest first."""

    centres: Tensor  # (G, K, d)
    active: Tensor  # (G, K) bool; the active ones come first
    assignments: Tensor  # (G, n)
    inertia: Tensor  # (G,) float64
    iterations: int


class Points(NamedTuple):
    """The points of G classes, each class around its mean. Padding is zeros: it adds nothing to any sum."""

    rows: Tensor  # (G, n, d)
    real: Tensor  # (G, n) bool, False for padding
    sizes: Tensor  # (G,) how many are real
    others: Tensor  # (G, n, n) the products of the points, if n <= d; else (G, d, n), the rows again: transposed
    norms: Tensor  # (G, n) squared
    padded: bool  # whether there is any padding


def points_of(rows: Tensor, real: Tensor) -> Points:
    """From rows (G, n, d) that are zero where ``real`` (G, n) is False."""
    sizes, padded = real.sum(dim=1), not bool(real.all())
    if rows.shape[1] <= rows.shape[2]:
        products = rows @ rows.transpose(1, 2)
        return Points(rows, real, sizes, products, products.diagonal(dim1=1, dim2=2).contiguous(), padded)
    norms = torch.linalg.vector_norm(rows, dim=2).square_()
    # Turned as one matrix, which takes a sixth of the time that a stack of large ones takes.
    turned = rows.flatten(0, 1).t().contiguous().view(rows.shape[2], *rows.shape[:2]).transpose(0, 1)
    return Points(rows, real, sizes, turned, norms, padded)


def _multiplied(x: Points) -> bool:
    """Whether the products of the points with each other are there."""
    return x.others.shape[1] == x.rows.shape[1]


def _only(x: Points, some: Tensor) -> Points:
    """The points of some of the classes (ids); rows that the products stand for are not copied."""
    rows = x.rows if _multiplied(x) else x.rows.index_select(0, some)
    real, sizes = x.real.index_select(0, some), x.sizes.index_select(0, some)
    return Points(rows, real, sizes, x.others.index_select(0, some), x.norms.index_select(0, some), x.padded)


def cluster_block(
    rows: Tensor,
    real: Tensor,
    wanted: Tensor,
    trials: Tensor,
    draws: Tensor,
    max_iterations: int,
) -> Block:
    """The best of R K-means++ starts, chosen for each class by itself.

    Args:
        rows: (G, n, d) the points of G classes, each class around its mean; zero where they are padding.
        real: (G, n) bool, False for padding.
        wanted: (G,) clusters of each class.
        trials: (G,) the points that are tried for each next centre.
        draws: (G, R, K, T) random numbers in [0, 1), for as many centres and trials as any class has.
        max_iterations: of Lloyd's algorithm.
    """
    x = points_of(rows, real)
    member, active = _plus_plus(x, wanted, trials, draws)
    member, scores, iterations = lloyd(x, member, active, max_iterations)
    own = scores.add_(x.norms[:, None]).masked_fill_(~real[:, None], 0)
    inertia = own.sum(dim=2, dtype=torch.float64)
    # The first of those that differ by rounding only: they are the same clusters in another order.
    good = inertia <= inertia.amin(dim=1, keepdim=True) + 1e-6 * x.norms.sum(dim=1, keepdim=True)
    best = torch.arange(len(rows), device=rows.device) * draws.shape[1] + good.to(torch.int8).argmax(dim=1)
    own, member = own.flatten(0, 1).index_select(0, best), member.flatten(0, 1).index_select(0, best)
    # Largest cluster first, so that ids do not depend on the order of the draws, and empty ones last.
    counts, rank = member.sum(dim=2).sort(dim=1, descending=True, stable=True)
    rank += torch.arange(len(rows), device=rows.device)[:, None] * rank.shape[1]
    member = member.flatten(0, 1).index_select(0, rank.flatten()).view_as(member)
    assignments = (torch.arange(rank.shape[1], device=rows.device, dtype=rows.dtype) @ member).long()
    means = (member @ rows).mul_(counts.clamp_min(1).reciprocal()[..., None])
    g, i = (own < BLURRED * x.norms).nonzero().unbind(1)
    own[g, i] = (rows[g, i] - means[g, assignments[g, i]]).square_().sum(dim=1)
    return Block(means, counts > 0, assignments, own.sum(dim=1, dtype=torch.float64), iterations)


def _plus_plus(x: Points, wanted: Tensor, trials: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Greedy K-means++: the point of each centre (G, R, K, n), and which centres are used (G, R, K).

    Each next centre is the best of a few points drawn in proportion to their squared distance from the centres so
    far. A class that has no point left at a distance gets no further centre.
    """
    groups, n, _ = x.rows.shape
    _, restarts, most, _ = draws.shape
    member = x.rows.new_zeros(groups, restarts, most, n)
    active = torch.zeros(groups, restarts, most, dtype=torch.bool, device=x.rows.device)
    starts = torch.arange(groups, device=x.rows.device)[:, None, None] * n
    slots = torch.arange(groups * restarts, device=x.rows.device)
    real = x.real[:, None].to(x.rows.dtype)
    distance = real.expand(-1, restarts, -1)  # the first centre: uniform over the points of the class
    near = BLURRED * x.norms[:, None]
    # A class has its own number of trials, whoever stands beside it.
    unasked = torch.arange(draws.shape[3], device=draws.device) >= trials[:, None, None]
    for k in range(most):
        mass = distance.cumsum(dim=2, dtype=torch.float64)
        # Of the points with mass, the first whose cumulated mass exceeds the draw.
        wish = (draws[:, :, k] if k > 0 else draws[:, :, 0, :1]) * mass[..., -1:]
        drawn = torch.searchsorted(mass, wish, right=True).clamp_max_(n - 1)  # (G, R, T)
        reached = _distances(x, starts + drawn)
        if k > 0:
            potential = torch.minimum(reached, distance[:, :, None]).sum(dim=3).masked_fill_(unasked, math.inf)
            best = potential.argmin(dim=2, keepdim=True)
            drawn = drawn.gather(2, best)
            best = best.flatten() + slots * reached.shape[2]
            reached = reached.flatten(0, 2).index_select(0, best).view(groups, restarts, n)
        else:
            reached = reached.squeeze(2).mul_(real)
        reached.scatter_(2, drawn, math.inf)
        close = reached < near
        if bool(close.any()):  # exact where it is small: a duplicate of a centre is at a distance of zero
            g, r, i = close.nonzero().unbind(1)
            reached[g, r, i] = (x.rows[g, i] - x.rows[g, drawn[g, r, 0]]).square_().sum(dim=1)
        reached.scatter_(2, drawn, 0.0)
        # A mass of zero means that all points of the class sit on centres already.
        use = (distance.gather(2, drawn) > 0) & (wanted[:, None, None] > k)
        used = int(use.sum())
        if used == 0:
            break
        closer = torch.minimum(reached, distance) if k > 0 else reached
        distance = closer if used == len(slots) else torch.where(use, closer, distance)
        member[:, :, k].scatter_(2, drawn, use.to(member.dtype))
        active[:, :, k] = use.squeeze(2)
    return member, active


def lloyd(x: Points, member: Tensor, active: Tensor, max_iterations: int) -> tuple[Tensor, Tensor, int]:
    """Lloyd's iterations until no point changes its centre.

    An emptied cluster restarts at the worst-served point of its class.

    Args:
        x: the points.
        member: (G, R, K, n) ones for the points whose mean each centre is at first; it is overwritten.
        active: (G, R, K) bool, which centres are used.
        max_iterations: after which it ends in any case.

    Returns:
        The members of the clusters (G, R, K, n) as ones and zeros, the squared distance of each point to its own mean
        less its norm (G, R, n), and how many iterations the slowest class took.
    """
    groups, restarts, _, n = member.shape
    members, own = torch.empty_like(member).flatten(0, 1), member.new_empty(groups * restarts, n)
    live = torch.arange(len(own), device=own.device).view(groups, restarts)  # those still under way
    share = member.sum(dim=3).clamp_min(1).reciprocal()
    rows, least, iteration = x.rows, own, 0
    held = member  # whose means the centres are: the members, but for centres that were put elsewhere
    for iteration in range(max_iterations + 1):
        before = member
        member, counts, least = _nearest(x, _scores(x, held, share, active))
        moved = torch.ne(member, before, out=before).flatten(2).amax(dim=2) > 0  # (G, R)
        held, share = member, counts.clamp_min(1).reciprocal()
        empty = active & (counts == 0)
        if bool(empty.any()):
            held, active = member.clone(), active.clone()
            for g, r in empty.any(dim=2).nonzero().tolist():
                _refill(rows[live[g, r] // restarts], held[g, r], share[g, r], active[g, r], empty[g, r])
                moved[g, r] = True
        if not bool(moved.any()):
            break
        if iteration == max_iterations:  # the means are newer than the scores
            least = (_scores(x, member, share, counts >= 0) * member).sum(dim=2)
            break
        of_class = moved.sum(dim=1)
        some, most = of_class.nonzero().squeeze(1), int(of_class.max())
        if 4 * len(some) > 3 * len(live) and most == live.shape[1]:
            continue
        # Go on with the classes that moved alone, and with as many of their restarts as moved in any of them.
        members[live.flatten()], own[live.flatten()] = member.flatten(0, 1), least.flatten(0, 1)
        x = _only(x, some) if len(some) < len(live) else x
        places = moved.byte().argsort(dim=1, descending=True, stable=True)[:, :most] + (
            torch.arange(len(live), device=live.device)[:, None] * live.shape[1]
        )
        places = places.index_select(0, some).flatten()
        live, share, active = _at(live, places, most), _at(share, places, most), _at(active, places, most)
        member, held = _at(member, places, most), _at(held, places, most)
    members[live.flatten()], own[live.flatten()] = member.flatten(0, 1), least.flatten(0, 1)
    return members.unflatten(0, (groups, restarts)), own.view(groups, restarts, n), iteration


def _at(part: Tensor, places: Tensor, most: int) -> Tensor:
    """Some of the restarts (G, R, ...) of some classes: (g, most, ...)."""
    chosen: Tensor = part.flatten(0, 1).index_select(0, places).unflatten(0, (-1, most))
    return chosen


def _scores(x: Points, member: Tensor, share: Tensor, active: Tensor) -> Tensor:
    """``|mu|^2 - 2 x mu``, the squared distance less the point's norm, (G, R, K, n), to the means mu of members."""
    flat, share, active = member.flatten(1, 2), share.flatten(1)[..., None], active.flatten(1)[..., None]
    if _multiplied(x):
        products = flat @ x.others
        bias = (flat * products).sum(dim=2, keepdim=True).mul_(share.square()).masked_fill_(~active, math.inf)
        return torch.addcmul(bias, products, share, value=-2).view_as(member)
    centres = (flat @ x.rows).mul_(share)
    bias = torch.linalg.vector_norm(centres, dim=2, keepdim=True).square_().masked_fill_(~active, math.inf)
    return torch.baddbmm(bias, centres, x.others, alpha=-2).view_as(member)


def _nearest(x: Points, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One for the nearest centre of each point, zero for the others (G, R, K, n), and the number of ones (G, R, K).

    Of equally near centres it is the first. The third is its score (G, R, n), NaN for padding.
    """
    least = scores.amin(dim=2, keepdim=True)
    if x.padded:
        least.masked_fill_(~x.real[:, None, None], math.nan)  # which equals nothing: padding belongs nowhere
    # An argmin would take many times as long as a minimum and a comparison.
    member = torch.eq(scores, least, out=torch.empty_like(scores))
    counts = member.sum(dim=3)
    if bool((counts.sum(dim=2) != x.sizes[:, None]).any()):
        member *= member.cumsum(dim=2) == 1
        counts = member.sum(dim=3)
    return member, counts, least.squeeze(2)


def _distances(x: Points, ids: Tensor) -> Tensor:
    """Squared distances (G, R, T, n) of some points of each class, (G, R, T) ids into all rows, to all of it."""
    flat = ids.flatten()
    norms = x.norms.flatten()[flat].view(len(ids), -1, 1) + x.norms[:, None]
    if _multiplied(x):
        products = x.others.flatten(0, 1).index_select(0, flat).view_as(norms)
        return norms.sub_(products, alpha=2).view(*ids.shape, -1)
    picked = x.rows.flatten(0, 1).index_select(0, flat).view(len(ids), -1, x.rows.shape[2])
    return torch.baddbmm(norms, picked, x.others, alpha=-2).view(*ids.shape, -1)


def _refill(points: Tensor, member: Tensor, share: Tensor, active: Tensor, empty: Tensor) -> None:
    """Put the empty ones of K centres of a class at its worst-served points (n, d).

    Where every point sits on its centre there is nothing to gain: those centres are given up.
    """
    own = (points - member.T @ ((member @ points) * share[:, None])).square_().sum(dim=1)  # zero for padding
    places = empty.nonzero().squeeze(1)
    worst = own.argsort(descending=True, stable=True)[: len(places)]
    worst = worst[own[worst] > 0]
    active[places] = False
    active[places[: len(worst)]] = True
    member[places[: len(worst)], worst] = 1.0
