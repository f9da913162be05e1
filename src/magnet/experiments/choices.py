"""What the maps point at: clusters and attributes picked by rules, not by eye."""

import numpy as np

from magnet.data.attributes import Attributes
from magnet.index import ClusterIndex

CLUSTERS = (
    "Red arrows: the two clusters furthest apart of each of the four classes whose clusters lie furthest apart, "
    "or the largest clusters where classes have one each, and the four test examples closest to them."
)
ATTRIBUTES = (
    "Attributes: of those that at most half of the examples have, the one that varies most within classes "
    "(between classes, where whole classes were annotated), and the next that is correlated with it by less than 0.5."
)


def choose_clusters(index: ClusterIndex, pairs: int = 4) -> list[int]:
    """Up to 2 * pairs clusters: see CLUSTERS. Those smaller than half the mean of their class are left out."""
    found = []
    for label in index.centre_labels.unique().tolist():
        own = (index.centre_labels == label).nonzero().squeeze(1)
        own = own[index.sizes[own] >= index.sizes[own].float().mean() / 2]
        apart = (index.centres[own, None] - index.centres[None, own]).norm(dim=2)
        a, b = divmod(int(apart.argmax()), len(own))
        if a != b:
            found.append((float(apart[a, b]), int(own[a]), int(own[b])))
    found.sort(key=lambda pair: -pair[0])
    chosen = [cluster for _, *pair in found[:pairs] for cluster in pair]
    for cluster in index.sizes.argsort(descending=True, stable=True).tolist():
        if len(chosen) < 2 * pairs and cluster not in chosen:
            chosen.append(cluster)
    return chosen


def choose_attributes(attributes: Attributes, labels: np.ndarray, count: int = 2) -> list[int]:
    """Up to ``count`` attributes: see ATTRIBUTES. Labels (n,) are of the same examples; unknown values don't count."""
    values = attributes.values
    known = ~np.isnan(values)
    has = np.where(known, values, 0)
    share = has.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    score = share * (1 - share)
    if attributes.level == "image":
        score = np.zeros(values.shape[1])
        for label in np.unique(labels):
            own = labels == label
            rate = has[own].sum(axis=0) / np.maximum(known[own].sum(axis=0), 1)
            score += own.mean() * rate * (1 - rate)
    chosen: list[int] = []
    for a in np.argsort(-score, kind="stable").tolist():
        if len(chosen) < count and score[a] > 0 and share[a] <= 0.5 and all(_related(has, a, b) < 0.5 for b in chosen):
            chosen.append(a)
    return chosen


def _related(has: np.ndarray, a: int, b: int) -> float:
    deviations = has[:, [a, b]] - has[:, [a, b]].mean(axis=0)
    scale = np.sqrt((deviations**2).sum(axis=0)).prod()
    return abs(float(deviations[:, 0] @ deviations[:, 1] / scale)) if scale else 1.0
