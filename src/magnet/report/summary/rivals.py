"""The impostor clusters that come closest to a class: where its errors are made."""

from typing import Any

import torch

from magnet.index import ClusterIndex


def rivals(
    index: ClusterIndex, label: int, classes: list[str], sigma: float, *, count: int = 3
) -> list[dict[str, Any]]:
    """The nearest pairs of a cluster of a class and an impostor cluster, nearest first, each impostor once.

    Returns:
        For each: ``class``, ``cluster`` and ``size`` of the impostor, ``own`` and ``own_size`` of the class's own
        cluster, and the ``distance`` of the two centres in units of ``sigma``.
    """
    own = (index.centre_labels == label).nonzero().squeeze(1)
    if not len(own):
        return []
    # One of the `count` nearest impostors is among the `count` nearest of the own cluster that it is nearest to.
    table = index.nearest_impostors(count, own)
    apart = torch.linalg.vector_norm(index.centres[own][:, None] - index.centres[table.clamp_min(0)], dim=2)
    pairs = sorted(
        (float(apart[row, place]), int(own[row]), int(impostor))
        for row in range(len(own))
        for place, impostor in enumerate(table[row].tolist())
        if impostor >= 0
    )
    nearest: dict[int, dict[str, Any]] = {}
    for distance, cluster, impostor in pairs:
        nearest.setdefault(
            impostor,
            {
                "class": classes[int(index.centre_labels[impostor])],
                "cluster": impostor,
                "size": int(index.sizes[impostor]),
                "own": cluster,
                "own_size": int(index.sizes[cluster]),
                "distance": distance / sigma,
            },
        )
    return list(nearest.values())[:count]
