"""Moments: the clusters and the examples in them, at the end of a run and at the refreshes kept on its way."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from magnet.errors import UserError
from magnet.index import ClusterIndex
from magnet.report.layout import Positions, lay_out

ROWS = 1024  # of distances to all centres at a time
TENSORS = ("representations", "centres", "centre_labels", "assignments", "variance")


@dataclass(frozen=True)
class Moment:
    """m of the examples that are shown, and all clusters. Distances are in sigma."""

    step: int
    shown: Tensor  # (m,) which of the shown examples
    representations: Tensor  # (m, d)
    index: ClusterIndex
    sigma: float
    clusters: Tensor  # (m,) the cluster of its class that an example is in; -1: its class has none
    own: Tensor  # (m,) distance to its centre
    impostor: Tensor  # (m,) the nearest cluster of another class
    impostor_distance: Tensor  # (m,)


def moment(
    step: int, shown: Tensor, representations: Tensor, labels: Tensor, place: Tensor, index: ClusterIndex, sigma: float
) -> Moment:
    """Put m examples into the clusters of an index.

    Args:
        step: of the training.
        shown: (m,) which of the shown examples.
        representations: (m, d) at that step.
        labels: (m,) their classes.
        place: (m,) ids into what the index was made of, which keep their cluster; -1: the nearest of the own class.
        index: the clusters.
        sigma: the unit of distances.
    """
    clusters, own, impostor, far = [], [], [], []
    for r, y, p in zip(representations.split(ROWS), labels.split(ROWS), place.split(ROWS), strict=True):
        distances = torch.cdist(r, index.centres, compute_mode="donot_use_mm_for_euclid_dist") / sigma
        same = y[:, None] == index.centre_labels
        mine = distances.masked_fill(~same, torch.inf).min(dim=1).indices
        mine = torch.where(p >= 0, index.assignments[p], mine)
        clusters.append(torch.where(same.any(dim=1), mine, -1))
        own.append(distances.gather(1, mine[:, None])[:, 0])
        other = distances.masked_fill(same, torch.inf).min(dim=1)
        impostor.append(other.indices)
        far.append(other.values)
    return Moment(
        step, shown, representations, index, sigma,
        torch.cat(clusters), torch.cat(own), torch.cat(impostor), torch.cat(far),
    )  # fmt: skip


def kept_moments(folder: Path, before: int, labels: Tensor, place: Tensor) -> list[Moment]:
    """The refreshes kept in a run folder, in order, with those of the n shown examples that were trained on.

    Args:
        folder: the run.
        before: only earlier steps than this, the one of the checkpoint that is looked at.
        labels: (n,) classes of the shown examples.
        place: (n,) their ids into the training part, or -1.
    """
    shown = (place >= 0).nonzero()[:, 0]
    found = []
    for file in sorted((folder / "refreshes").glob("step-*.safetensors")):
        number = file.stem.removeprefix("step-")
        if not number.isdecimal() or int(number) >= before:
            continue
        try:
            with safe_open(file, framework="pt") as tensors:
                all_of_it, *parts = (tensors.get_tensor(name) for name in TENSORS)
            index = ClusterIndex(*parts)
            rows = all_of_it.float()[place[shown]]
        except (SafetensorError, OSError, ValueError, IndexError) as error:
            raise UserError(f"{file} cannot be read as a refresh ({error}): remove it to explore without it") from error
        if len(all_of_it) != len(index.assignments):
            raise UserError(f"{file} holds {len(all_of_it)} representations, but {len(index.assignments)} assignments")
        sigma = max(float(index.variance) ** 0.5, torch.finfo(torch.float32).tiny)
        found.append(moment(int(number), shown, rows, labels[shown], place[shown], index, sigma))
    return found


def lay_out_moments(moments: list[Moment], *, seed: int = 0) -> list[Positions]:
    """Positions of the examples and centres of each moment.

    A moment starts where its examples lie in the map of the next one, so that consecutive maps can be compared: what
    moves has moved in the space as well. The last one must show every example that the others show.
    """
    maps: list[Positions] = []
    later: Moment | None = None
    for m in reversed(moments):
        start = None
        if later is not None:
            at = np.full((int(later.shown.max()) + 1, 2), np.nan)
            at[later.shown.numpy()] = maps[-1][0]
            start = at[m.shown.numpy()]
        maps.append(lay_out(m.representations.numpy(), m.index.centres.numpy(), start=start, seed=seed))
        later = m
    return maps[::-1]
