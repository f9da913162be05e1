"""Nearly exact impostors among very many centres, by an inverted file of faiss."""

import torch
from torch import Tensor

from magnet.errors import UserError
from magnet.neighbours import nearest_of_chunk, split_rows

SAMPLE = 1024  # centres that are also searched exactly, to see how many lists must be looked into
RECALL = 0.995  # of the sample's impostors: a little above what is promised, since it is a sample
WORTH = 16  # one list in so many, at most: with more of them, products of whole blocks are faster
QUERIES = 2**14  # searched at a time


def impostors_by_lists(centres: Tensor, labels: Tensor, rows: Tensor, m: int, *, seed: int = 0) -> Tensor | None:
    """The ``m`` nearest centres of other classes, nearest first, or None where exact search is as fast.

    The centres are sorted into lists by K-means, and only the lists nearest to a query are looked into: as many as it
    takes to find 99.5 % of the impostors of a sample that is searched exactly. In data without structure that is most
    of them; then there is nothing to be won.

    Args:
        centres: (J, d).
        labels: (J,) their classes.
        rows: (n,) the queries, ids of centres.
        m: impostors wanted.
        seed: the same seed gives the same answer.

    Returns:
        (n, m) ids, -1 where the lists held fewer; or None.
    """
    try:
        import faiss
    except ImportError as error:
        raise UserError(
            f"exact=False needs faiss, which cannot be imported ({error}): pip install faiss-cpu, or search exactly"
        ) from error
    own = int(torch.unique(labels, return_counts=True)[1].max())  # that may stand before an impostor
    if m + own > len(centres) // 8:
        return None
    points, labels = centres.detach().float().cpu().contiguous(), labels.cpu()
    lists = max(1, int(2 * len(points) ** 0.5))
    file = faiss.IndexIVFFlat(faiss.IndexFlatL2(points.shape[1]), points.shape[1], lists)
    file.cp.seed, file.cp.niter = seed + 1, 10
    file.cp.min_points_per_centroid, file.cp.max_points_per_centroid = 1, 64
    file.train(points.numpy())
    file.add(points.numpy())

    def search(queries: Tensor) -> Tensor:
        near = torch.from_numpy(file.search(points[queries].numpy(), m + own)[1])
        other = (near >= 0) & (labels[near] != labels[queries, None])
        first = (~other).to(torch.int8).argsort(dim=1, stable=True)[:, :m]  # impostors to the front, in their order
        return near.gather(1, first).masked_fill_(~other.gather(1, first), -1)

    drawn = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    # The impostors alone: a query's own class is nearer and found more easily, and would make the recall look better.
    true = torch.cat(
        [nearest_of_chunk(points[q], points, m, labels[q], labels)[1] for q in split_rows(drawn, len(points))]
    )
    file.nprobe = 4
    while file.nprobe <= lists // WORTH:
        if float((search(drawn)[:, :, None] == true[:, None]).any(dim=1).double().mean()) >= RECALL:
            return torch.cat([search(part) for part in rows.cpu().split(QUERIES)]).to(rows.device)
        file.nprobe *= 2
    return None
