"""Maps of the moments of a run: the last by t-SNE from scratch, each earlier one from the one after it."""

from typing import Any

import numpy as np
import torch

from magnet.errors import UserError
from magnet.report.explorer.moments import Moment

FEW = 3000  # points below which Barnes-Hut is quicker than interpolation, and fewer iterations are enough
Positions = tuple[np.ndarray, np.ndarray]  # of examples (m, 2) and centres (J, 2)


def lay_out_moments(moments: list[Moment], *, seed: int = 0) -> list[Positions]:
    """Positions of the examples and centres of each moment.

    A moment starts where its examples lie in the map of the next one, so that consecutive maps can be compared: what
    moves has moved in the space as well. The last one must show every example that the others show.
    """
    maps = [_from_scratch(moments[-1], seed)]
    for earlier, later in zip(moments[-2::-1], moments[:0:-1], strict=True):
        at = np.full((int(later.shown.max()) + 1, 2), np.nan)
        at[later.shown.numpy()] = maps[-1][0]
        maps.append(_onwards(earlier, at[earlier.shown.numpy()], seed))
    return maps[::-1]


def _from_scratch(moment: Moment, seed: int) -> Positions:
    points, n = _points(moment), len(moment.shown)
    iterations = {"early_exaggeration_iter": 150, "n_iter": 350} if len(points) < FEW else {}
    placed = np.asarray(_tsne().TSNE(**_settings(points), **iterations, random_state=seed).fit(points))
    return placed[:n], placed[n:]


def _onwards(moment: Moment, start: np.ndarray, seed: int) -> Positions:
    """From where the examples (m, 2) are, in a third of the iterations."""
    clusters, n = moment.clusters.numpy(), len(start)
    members = np.bincount(clusters, minlength=len(moment.index))[:, None]
    sums = np.stack([np.bincount(clusters, start[:, i], minlength=len(members)) for i in (0, 1)], axis=1)
    # A centre starts in the middle of its members, or of everything if none of them is shown.
    centres = np.where(members > 0, sums / np.maximum(members, 1), start.mean(axis=0))
    points, settings = _points(moment), _settings(_points(moment))
    near = _tsne().affinity.PerplexityBasedNN(
        points, perplexity=settings["perplexity"], method=settings["neighbors"], random_state=seed
    )
    placed = _tsne().TSNEEmbedding(
        np.concatenate([start, centres]), near, random_state=seed,
        negative_gradient_method=settings["negative_gradient_method"],
    )  # fmt: skip
    placed.optimize(80, exaggeration=6, momentum=0.5, inplace=True)  # what has no hold in this space comes loose
    placed.optimize(170, momentum=0.8, inplace=True)
    return _turn(np.asarray(placed), start, n)


def _turn(placed: np.ndarray, onto: np.ndarray, n: int) -> Positions:
    """Rotate or mirror a map so that its first n points are nearest to where they started (Procrustes)."""
    middle = placed[:n].mean(axis=0)
    u, _, v = np.linalg.svd((placed[:n] - middle).T @ (onto - onto.mean(axis=0)))
    turned = (placed - middle) @ (u @ v) + onto.mean(axis=0)
    return turned[:n], turned[n:]


def _points(moment: Moment) -> np.ndarray:
    return torch.cat([moment.representations, moment.index.centres]).double().numpy()


def _settings(points: np.ndarray) -> dict[str, Any]:
    few = len(points) < FEW
    return {
        "perplexity": min(30, (len(points) - 1) // 3),
        "neighbors": "exact" if few else "auto",
        "negative_gradient_method": "bh" if few else "fft",
    }


def _tsne() -> Any:
    try:
        import openTSNE
        import openTSNE.affinity
    except ImportError as error:
        raise UserError("the explorer needs openTSNE: pip install 'magnet[explore]'") from error
    return openTSNE
