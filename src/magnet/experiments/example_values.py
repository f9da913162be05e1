"""What each example adds to the mean attribute precision, so that it can be resampled."""

from typing import Literal

import torch
from torch import Tensor

from magnet.neighbours import nearest_of_chunk

ROWS = 512  # queries at a time


def example_values(
    representations: Tensor,
    attributes: Tensor,
    labels: Tensor,
    *,
    sizes: tuple[int, ...],
    scope: Literal["all", "others", "class"] = "all",
) -> Tensor:
    """Values (n, S) whose mean is the precision of `magnet.evaluation.concentration` at S neighbourhood sizes.

    The precision P = 1/A sum_a p_a is a mean of ratios p_a = sum_i f_ia / n_a (f_ia: the fraction of the neighbours of
    i that have a too), and their denominators change as well when examples are resampled. To first order example i
    moves it by 1/A sum_a (f_ia - p_a) / n_a. The values v_i = P + n/A sum_a (f_ia - p_a) / n_a have the mean P, and
    the mean of resampled v_i moves as P does.

    Args:
        representations: (n, d).
        attributes: (n, A), 1, 0, or nan for unknown.
        labels: (n,) classes.
        sizes: the neighbourhood sizes, ascending.
        scope: neighbours are all examples, those of other classes, or those of the own class.
    """
    known, has = ~attributes.isnan(), attributes == 1
    told = known.any(dim=1).nonzero().squeeze(1)  # nothing is known of the others: they are nobody's neighbours
    parts = [told[labels[told] == c] for c in labels[told].unique()] if scope == "class" else [told]
    found = [_fractions(representations, known, has, part, labels, sizes, scope) for part in parts]
    who, what, fractions = (torch.cat(pieces) for pieces in zip(*found, strict=True))
    speaks = fractions.isfinite()
    shape = attributes.shape[1], len(sizes)
    counts = torch.zeros(shape, dtype=torch.double).index_add_(0, what, speaks.double())
    means = torch.zeros(shape, dtype=torch.double).index_add_(0, what, fractions.nan_to_num(0.0)) / counts
    spoken = counts[:, 0] > 0  # an attribute counts if it can be spoken of at every size
    moved = ((fractions - means[what]) / counts[what]).masked_fill(~speaks | ~spoken[what, None], 0.0)
    values = torch.zeros(len(attributes), len(sizes), dtype=torch.double).index_add_(0, who, moved)
    return (means[spoken].mean(dim=0) + values * len(told) / spoken.sum())[told]


def _fractions(
    representations: Tensor,
    known: Tensor,
    has: Tensor,
    part: Tensor,
    labels: Tensor,
    sizes: tuple[int, ...],
    scope: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of an example of a part (p,) and an attribute that it has (p,), and the fractions (p, S); nan: unknown."""
    space, known, has = representations[part], known[part], has[part]
    # A neighbour of the query's own group is none: the group is its class, or the example alone.
    group = labels[part] if scope == "others" else torch.arange(len(part))
    counted = has
    if scope == "class":  # where all others or none of the class have it, there is nothing to order
        others = has.sum(0) - has.long()
        counted = has & (others > 0) & (others < known.sum(0) - known.long())
    ends = torch.tensor(sizes).clamp_max(len(part)) - 1
    pairs = []
    for rows in torch.arange(len(part)).split(ROWS):
        distances, ids = nearest_of_chunk(space[rows], space, sizes[-1], group[rows], group)
        who, what = counted[rows].nonzero(as_tuple=True)
        near, real = ids[who], distances[who].isfinite()
        seen = (known[near, what[:, None]] & real).cumsum(1)[:, ends]
        shared = (has[near, what[:, None]] & real).cumsum(1)[:, ends]
        pairs.append((part[rows[who]], what, shared.double() / seen))
    who, what, fractions = (torch.cat(pieces) for pieces in zip(*pairs, strict=True))
    return who, what, fractions
