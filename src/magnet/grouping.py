"""Tables as long as the data, by class or cluster, without sorting all of it at once."""

import torch
from torch import Tensor

BLOCK = 2**18  # ids that are sorted at a time


def distinct(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The labels that occur (C,) in rising order, the place of each label among them (N,), and their numbers (C,).

    What ``torch.unique`` with inverse and counts gives. Labels that are ids 0..C-1 already, as most are, are their own
    places: then nothing is made that is as long as the data.
    """
    least, most = (int(label) for label in labels.aminmax())
    if least < 0 or most >= max(2 * len(labels), BLOCK):  # counts of all ids up to the largest would take more
        classes, places, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
        return classes, places, sizes
    counts = torch.bincount(labels)
    found = counts.nonzero().squeeze(1)
    if len(found) == len(counts):
        return found.to(labels.dtype), labels.long(), counts
    return found.to(labels.dtype), ((counts > 0).cumsum(0) - 1)[labels.long()], counts[found]


def order_by_group(groups: Tensor, sizes: Tensor) -> Tensor:
    """``groups.argsort(stable=True)``, block by block: one sort of all would hold four more tables as long.

    Args:
        groups: (N,) the group of each row, 0..J-1.
        sizes: (J,) rows in each group.

    Returns:
        (N,) the rows, group by group, ascending within each; four bytes each where that is enough.
    """
    kind = torch.int32 if len(groups) < 2**31 else torch.long
    if _rising(groups):  # group by group already, as folders are listed
        return torch.arange(len(groups), dtype=kind, device=groups.device)
    order = torch.empty(len(groups), dtype=kind, device=groups.device)
    free = sizes.cumsum(0) - sizes  # where the next row of each group goes
    block = max(BLOCK, len(sizes))
    for start in range(0, len(groups), block):
        ordered, rows = groups[start : start + block].sort(stable=True)
        counts = torch.bincount(ordered, minlength=len(sizes))
        shift = free - (counts.cumsum(0) - counts)  # from the place within the sorted block
        order[shift[ordered] + torch.arange(len(rows), device=rows.device)] = (rows + start).to(kind)
        free += counts
    return order


def _rising(groups: Tensor) -> bool:
    """Whether no group comes before the one ahead of it; looks no further than it must, a block at a time."""
    blocks = zip(groups[:-1].split(BLOCK), groups[1:].split(BLOCK), strict=True)
    return all(bool((before <= after).all()) for before, after in blocks)
