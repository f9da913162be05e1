"""Where everything lies on a map, of a figure or of the explorer: examples by t-SNE, cluster centres among them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from magnet.errors import UserError
from magnet.neighbours import nearest

CLOSEST = 10  # representations that place a centre
FAR = 0.03  # of the side of a map: further apart, points are of different groups
MOST = 50_000  # representations that t-SNE lays out; with more it takes hours
FEW = 3000  # points below which exact neighbours and Barnes-Hut are quicker than approximations and interpolation
EARLY, LATE = 250, 500  # iterations from scratch, with groups pulled together and without
EARLY_ONWARDS, LATE_ONWARDS = 150, 250  # from another map
Positions = tuple[np.ndarray, np.ndarray]  # of examples (n, 2) and of centres (J, 2)
Report = Callable[[int, int], None]  # told how much is done, of how much


def lay_out(
    representations: np.ndarray,
    centres: np.ndarray,
    *,
    start: np.ndarray | None = None,
    seed: int = 0,
    report: Report | None = None,
) -> Positions:
    """Positions (n, 2) and (J, 2) of representations (n, d) and cluster centres (J, d); the same for the same seed.

    t-SNE sees the representations alone: centres know the classes, and would pull the examples of a class together.
    A centre is put at the median place of the representations closest to it. Of more than MOST representations, a
    sample is laid out, and the others are put between the three of it that are closest to them.

    Args:
        start: (n, 2) where the examples lie on another map. This one then begins there, in fewer iterations, and is
            turned so that the two can be compared.
        report: told how many iterations are done, of how many, then how many representations are placed.
    """
    points = representations.astype(np.float64)
    some = np.arange(len(points))
    if len(points) > MOST:
        some = np.sort(np.random.default_rng(seed).permutation(len(points))[:MOST])
    if start is None:
        laid = _from_scratch(points[some], seed, report)
    else:
        laid = _onwards(points[some], start[some], seed, report)
    placed = laid
    if len(some) < len(points):
        placed = place_between(torch.from_numpy(points), torch.from_numpy(points[some]), laid, report)
        placed[some] = laid
    closest = nearest(torch.from_numpy(centres).double(), torch.from_numpy(points), CLOSEST)[1]
    return placed, np.median(placed[closest.numpy()], axis=1)


def place_between(points: Tensor, known: Tensor, laid: np.ndarray, report: Report | None = None) -> np.ndarray:
    """Places (n, 2) of points (n, d) between the three known points (m, d) nearest to them, whose places are (m, 2).

    The nearer the closer; one of the three that the map has far from the nearest of them has no say, or many would lie
    in the empty middle between groups.
    """
    squared, near = nearest(points, known, 3, report)
    corners = laid[near.numpy()]
    share = 1 / np.sqrt(squared.double().numpy()).clip(1e-9)
    apart = np.linalg.norm(corners - corners[:, :1], axis=2)
    share[apart > FAR * float(np.ptp(laid, axis=0).max())] = 0
    return np.asarray((corners * (share / share.sum(axis=1, keepdims=True))[..., None]).sum(axis=1))


def _from_scratch(points: np.ndarray, seed: int, report: Report | None) -> np.ndarray:
    settings = _settings(points) | {"early_exaggeration_iter": EARLY, "n_iter": LATE}
    return np.asarray(_tsne().TSNE(**settings, random_state=seed, callbacks=_told(report, EARLY + LATE)).fit(points))


def _onwards(points: np.ndarray, start: np.ndarray, seed: int, report: Report | None) -> np.ndarray:
    settings = _settings(points)
    near = _tsne().affinity.PerplexityBasedNN(
        points, perplexity=settings["perplexity"], method=settings["neighbors"], random_state=seed
    )
    placed = _tsne().TSNEEmbedding(
        start.astype(np.float64), near, random_state=seed, negative_gradient_method=settings["negative_gradient_method"]
    )
    # The exaggeration of a map from scratch, and long enough, so that groups which this space does not have dissolve:
    # with 80 iterations at 6, classes of the start were still seen in pure noise.
    told = _told(report, EARLY_ONWARDS + LATE_ONWARDS)
    placed.optimize(EARLY_ONWARDS, exaggeration=12, momentum=0.5, inplace=True, callbacks=told)
    placed.optimize(LATE_ONWARDS, momentum=0.8, inplace=True, callbacks=told)
    return _turn(np.asarray(placed), start)


def _turn(placed: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Rotate or mirror a map (n, 2) so that its points are nearest to the points of another map (Procrustes).

    And enlarge it to the same spread: t-SNE gives a map of fewer points, or of fewer iterations, another size.
    """
    middle = placed.mean(axis=0)
    there = onto - onto.mean(axis=0)
    u, _, v = np.linalg.svd((placed - middle).T @ there)
    larger = np.linalg.norm(there) / max(float(np.linalg.norm(placed - middle)), 1e-12)
    return np.asarray(larger * (placed - middle) @ (u @ v) + onto.mean(axis=0))


def _told(report: Report | None, total: int) -> Callable[[int, float, np.ndarray], None] | None:
    """What openTSNE calls after each fifty iterations, in both phases."""
    if report is None:
        return None
    done = 0

    def tell(iteration: int, error: float, embedding: np.ndarray) -> None:
        nonlocal done
        done += 50
        report(done, total)

    return tell


def _settings(points: np.ndarray) -> dict[str, Any]:
    few = len(points) < FEW
    return {
        "perplexity": max(1, min(30, (len(points) - 1) // 3)),
        "neighbors": "exact" if few else "auto",
        "negative_gradient_method": "bh" if few else "fft",
    }


def _tsne() -> Any:
    try:
        import openTSNE
        import openTSNE.affinity
    except ImportError as error:
        raise UserError("maps need openTSNE: pip install 'magnet-loss[plots,explore]'") from error
    return openTSNE
