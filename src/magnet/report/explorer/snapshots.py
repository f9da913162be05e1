"""Moments of a run: its examples among its clusters, at the step that was evaluated and at each refresh kept."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from magnet.errors import UserError
from magnet.files import read_tensors
from magnet.index import LAYOUT, ClusterIndex
from magnet.neighbours import nearest
from magnet.report.explorer.examples import Predictions, log_loss
from magnet.report.layout import Positions, Report, lay_out
from magnet.runs.run import Run

ROWS = 1024  # of distances to all centres at a time
REFRESH = {**LAYOUT, "representations": "float N d"}  # what the file of a kept refresh holds


@dataclass(frozen=True)
class Moment:
    """m of the examples that are shown, and all clusters, at one step. Distances are in sigma."""

    step: int
    evaluated: bool  # whether it is the checkpoint that was evaluated, rather than a refresh that was kept
    shown: Tensor  # (m,) which of the shown examples
    representations: Tensor  # (m, d)
    index: ClusterIndex
    sigma: float
    probabilities: Tensor  # (m, C)
    loss: Tensor  # (m,) -log of the probability of the label
    clusters: Tensor  # (m,) the cluster of its class that an example is in; -1: its class has none
    own: Tensor  # (m,) distance to its centre
    impostor: Tensor  # (m,) the nearest cluster of another class
    impostor_distance: Tensor  # (m,)


def evaluated_moment(run: Run, found: Predictions, labels: Tensor) -> Moment:
    """The checkpoint that was evaluated, with all n examples that are shown; labels (n,)."""
    sigma = run.rule("knc").variance ** 0.5
    shown = torch.arange(len(labels))
    placed = place_in_clusters(found.representations, labels, found.place, run.index, sigma)
    return Moment(
        run.step, True, shown, found.representations, run.index, sigma, found.probabilities, found.loss, *placed
    )


def kept_moments(run: Run, labels: Tensor, place: Tensor) -> list[Moment]:
    """The refreshes kept in a run folder, in order, with those of the n shown examples that were trained on.

    Probabilities are those of kNC over the clusters of the refresh, with the votes of the run. The refresh at the step
    that was evaluated is left out: `evaluated_moment` shows it with all examples.

    Args:
        run: an opened run.
        labels: (n,) classes of the shown examples.
        place: (n,) their ids into the training part, or -1.
    """
    shown = (place >= 0).nonzero()[:, 0]
    found = []
    for file in sorted((run.folder / "refreshes").glob("step-*.safetensors")):
        number = file.stem.removeprefix("step-")
        if not number.isdecimal() or int(number) == run.step:
            continue
        try:
            tensors = read_tensors(file, REFRESH).tensors
            everything = tensors.pop("representations").float()
            index = ClusterIndex.of_tensors(tensors)
            rows = everything[place[shown]]
        except (OSError, ValueError, IndexError) as error:
            raise UserError(f"{file} cannot be read as a refresh ({error}): remove it to explore without it") from error
        rule = run.rules_of(index, everything, run.labels)[0]
        votes = rows.new_zeros(len(rows), len(run.classes))
        votes[:, rule.classes] = rule.predict_proba(rows).to(votes.dtype)
        sigma = max(float(index.variance) ** 0.5, torch.finfo(torch.float32).tiny)
        placed = place_in_clusters(rows, labels[shown], place[shown], index, sigma)
        loss = log_loss(votes, labels[shown])
        found.append(Moment(int(number), False, shown, rows, index, sigma, votes, loss, *placed))
    return found


def place_in_clusters(
    representations: Tensor, labels: Tensor, place: Tensor, index: ClusterIndex, sigma: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Put m examples into the clusters of an index.

    Args:
        representations: (m, d).
        labels: (m,) their classes.
        place: (m,) ids into what the index was made of, which keep their cluster; -1: the nearest of the own class.
        index: the clusters.
        sigma: the unit of distances.

    Returns:
        For each example (m,) its cluster, or -1 where its class has none; the distance to its centre; the nearest
        cluster of another class; and the distance to that.
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
    return torch.cat(clusters), torch.cat(own), torch.cat(impostor), torch.cat(far)


def near_each_other(representations: Tensor, count: int, report: Report | None = None) -> tuple[Tensor, Tensor]:
    """Squared distances and ids (n, k) of the nearest of n representations (n, d) among themselves, without itself."""
    squared, ids = nearest(representations, representations, count + 1, report)
    itself = ids == torch.arange(len(ids))[:, None]
    itself[~itself.any(dim=1), -1] = True  # many duplicates can push an example off its own list
    return squared[~itself].view(len(ids), -1), ids[~itself].view(len(ids), -1)


def lay_out_moments(moments: list[Moment], *, seed: int = 0, report: Report | None = None) -> list[Positions]:
    """Positions of the examples and centres of each moment, one of which must show all examples: the evaluated one.

    The evaluated moment is laid out first. Every other one starts where its examples lie in the map next to it on the
    way there, so that consecutive maps can be compared: what moves has moved in the space as well.
    """
    first = next(i for i, m in enumerate(moments) if m.evaluated)
    maps: dict[int, Positions] = {}
    for i in [*range(first, -1, -1), *range(first + 1, len(moments))]:
        moment, start = moments[i], None
        if i != first:
            known = i + 1 if i < first else i - 1
            at = np.full((int(moments[known].shown.max()) + 1, 2), np.nan)
            at[moments[known].shown.numpy()] = maps[known][0]
            start = at[moment.shown.numpy()]
        centres = moment.index.centres.numpy()
        maps[i] = lay_out(moment.representations.numpy(), centres, start=start, seed=seed, report=report)
    return [maps[i] for i in range(len(moments))]
