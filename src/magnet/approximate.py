"""Nearly exact nearest rows among very many, by an inverted file of faiss."""

import importlib.util

import torch
from torch import Tensor

from magnet.neighbours import nearest

SAMPLE = 512  # queries that are also answered exactly, to see how many lists must be looked into
RECALL = 0.995  # of the sample's neighbours: a little above what is promised, since it is a sample


def available() -> bool:
    """Whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def nearest_by_lists(points: Tensor, rows: Tensor, count: int, *, seed: int = 0) -> Tensor | None:
    """The ``count`` nearest points of some of them, nearest first, or None where exact search is as fast.

    The points are sorted into lists by K-means, and only the lists nearest to a query are looked into: as many as it
    takes to find 99.5 % of the neighbours of a sample that is searched exactly. In data without structure that is most
    of them; then there is nothing to be won.

    Args:
        points: (J, d).
        rows: (n,) the queries, ids of points.
        count: neighbours wanted, the point itself among them.
        seed: the same seed gives the same answer.

    Returns:
        (n, count) ids, -1 where the lists held fewer; or None.
    """
    import faiss

    everyone = points.detach().float().cpu().contiguous()
    lists = max(1, int(2 * len(points) ** 0.5))
    file = faiss.IndexIVFFlat(faiss.IndexFlatL2(points.shape[1]), points.shape[1], lists)
    file.cp.seed, file.cp.niter = seed + 1, 10
    file.cp.min_points_per_centroid, file.cp.max_points_per_centroid = 1, 64
    file.train(everyone.numpy())
    file.add(everyone.numpy())

    drawn = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    true = nearest(everyone[drawn], everyone, count)[1]
    file.nprobe = 4
    while file.nprobe <= lists // 8:
        found = torch.from_numpy(file.search(everyone[drawn].numpy(), count)[1])
        if float((found[:, :, None] == true[:, None]).any(dim=2).double().mean()) >= RECALL:
            queries = everyone[rows.cpu()].numpy()
            return torch.from_numpy(file.search(queries, count)[1]).to(rows.device)
        file.nprobe *= 2
    return None
