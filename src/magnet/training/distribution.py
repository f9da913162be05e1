"""What ranks tell each other: the index without the representations, and the losses of their batches."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from magnet.clustering import kmeans_per_class
from magnet.index import ClusterIndex


def gather_rows(rows: Tensor, world_size: int) -> Tensor:
    """The rows of all ranks, one rank after the other; their numbers may differ."""
    if world_size == 1:
        return rows
    home = rows.device
    if dist.get_backend() == "nccl":  # which moves tensors between GPUs only
        rows = rows.cuda()
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(world_size)]
    dist.all_gather(counts, count)
    most = int(torch.cat(counts).max())
    padded = rows.new_zeros((most, *rows.shape[1:]))
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(world_size)]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(n)] for part, n in zip(parts, counts, strict=True)]).to(home)


def anyone(flag: bool, world_size: int) -> bool:
    """Whether the flag is up on any rank."""
    return bool(gather_rows(torch.tensor([int(flag)]), world_size).any())


def share_buffers(module: nn.Module, world_size: int) -> None:
    """Give all ranks the buffers of rank 0: what a rank adds to a running average is its own."""
    if world_size > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, 0)


def share_classes(labels: Tensor, world_size: int) -> Tensor:
    """The rank (N,) that embeds and clusters each example: whole classes, about as many examples for each rank."""
    classes, class_of, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    owner = torch.zeros(len(classes), dtype=torch.long)
    load = [0] * world_size
    for c in sizes.argsort(descending=True, stable=True).tolist():
        rank = load.index(min(load))
        owner[c] = rank
        load[rank] += int(sizes[c])
    return owner[class_of]


def shared_index(
    representations: Tensor, places: Tensor, labels: Tensor, clusters_per_class: int, seed: int, world_size: int
) -> ClusterIndex:
    """The index of the whole training set; each rank clusters the classes that it holds.

    Args:
        representations: (n, d) of this rank's examples; they stay on this rank.
        places: (n,) where those stand among all N training examples.
        labels: (N,) classes of all training examples.
        clusters_per_class: K.
        seed: of K-means.
        world_size: how many ranks take part.
    """
    if world_size == 1:
        return ClusterIndex.fit(representations, labels[places], clusters_per_class, seed=seed)
    own = kmeans_per_class(representations, labels[places], clusters_per_class, seed=seed)
    counts = gather_rows(torch.tensor([len(own.centres)]), world_size)
    rank = dist.get_rank()
    centres = gather_rows(own.centres, world_size)
    centre_labels = gather_rows(own.centre_labels, world_size)
    assignments = gather_rows(own.assignments + int(counts[:rank].sum()), world_size)
    inertia = gather_rows(own.inertia[None], world_size).sum()
    everyone = gather_rows(places, world_size)
    # As a single process would have it: centres ordered by class.
    by_class = centre_labels.argsort(stable=True)
    final = torch.empty_like(assignments)
    final[everyone] = by_class.argsort()[assignments]
    variance = inertia / (len(labels) - 1)
    return ClusterIndex(centres[by_class], centre_labels[by_class], final, variance, own.iterations)
