"""Which classes a run takes for which, with pictures of the mistakes and of what each class looks like."""

from typing import Any

import numpy as np
import torch
from scipy.cluster.hierarchy import leaves_list, linkage
from torch import Tensor

from magnet.data import Dataset
from magnet.index import ClusterIndex
from magnet.report.pictures import data_uri, photographs, square_side, squares, webp
from magnet.runs.calibrate import class_scores
from magnet.runs.run import Run

MOST_CLASSES = 60  # in a matrix, and with exemplars: those that are confused most
MOST_PAIRS = 12  # with pictures
MISTAKES, BESIDE = 4, 3  # pictures of a pair: mistakes, and exemplars of either class
EXEMPLARS = 6  # of a class
SIDE = 112  # of a picture


def confusion_findings(run: Run) -> dict[str, Any]:
    """What is taken for what on the test part, under the rule that the method is judged by, as plain values.

    Returns:
        ``classes``: ids of the classes shown, similar ones side by side; ``n`` test examples of each class of the
        data; ``cells``: [label, prediction, count], the diagonal too; ``pairs``: the most frequent mistakes with
        pictures (``label``, ``taken``, ``n``, ``mistakes``); ``exemplars``: pictures by class id, as text; ``small``
        whether pictures have few pixels. Pictures are data addresses; of data that is no pictures there are none.
    """
    rows = run.data.indices("test")
    labels = run.data.labels[rows]
    scores, classes = class_scores(run, run.part("test", test=True), run.rule("knc"), run.rule("knn"))[
        run.learner.method.classifier
    ]
    predicted = classes[scores.argmax(dim=1)]
    matrix = torch.zeros(len(run.classes), len(run.classes), dtype=torch.long)
    matrix.index_put_((labels, predicted), torch.ones_like(labels), accumulate=True)
    shown = order_by_similarity(run.references, run.labels, confused_most(matrix))
    pairs = worst_pairs(matrix)
    exemplars = {label: nearest_to_centres(run.references, run.index, label) for label in shown}
    wrong_by_score = scores.amax(dim=1).argsort(descending=True)  # the surest mistakes first
    mistakes = [
        rows[[i for i in wrong_by_score.tolist() if labels[i] == a and predicted[i] == b][:MISTAKES]].tolist()
        for a, b, _ in pairs
    ]
    train = run.train
    drawn = [i for some in mistakes for i in some] + [int(train[i]) for some in exemplars.values() for i in some]
    uris = _pictures(run.data, drawn)
    return {
        "classes": shown,
        "n": matrix.sum(dim=1).tolist(),
        "cells": [[a, b, int(matrix[a, b])] for a, b in matrix.nonzero().tolist()],
        "pairs": [
            {"label": a, "taken": b, "n": n, "mistakes": [uris[i] for i in some if i in uris]}
            for (a, b, n), some in zip(pairs, mistakes, strict=True)
        ],
        "exemplars": {
            str(label): [uris[i] for i in train[places].tolist() if i in uris] for label, places in exemplars.items()
        },
        "small": run.data.kind == "vectors" or 0 < run.data.stored_side < SIDE // 2,
    }


def confused_most(matrix: Tensor) -> list[int]:
    """The classes (at most MOST_CLASSES) that take part in most mistakes of a confusion matrix (C, C)."""
    mistakes = matrix - matrix.diag().diag()
    return (mistakes.sum(dim=0) + mistakes.sum(dim=1)).argsort(descending=True, stable=True)[:MOST_CLASSES].tolist()


def worst_pairs(matrix: Tensor) -> list[tuple[int, int, int]]:
    """The most frequent mistakes of a confusion matrix (C, C): label, prediction, count.

    >>> worst_pairs(torch.tensor([[5, 1, 0], [3, 2, 0], [0, 0, 4]]))
    [(1, 0, 3), (0, 1, 1)]
    """
    mistakes = matrix - matrix.diag().diag()
    found = [(a, b, int(mistakes[a, b])) for a, b in mistakes.nonzero().tolist()]
    return sorted(found, key=lambda pair: -pair[2])[:MOST_PAIRS]


def order_by_similarity(representations: Tensor, labels: Tensor, classes: list[int]) -> list[int]:
    """Classes so that those with near means of representations (N, d) stand side by side; those without any last."""
    known = [label for label in classes if bool((labels == label).any())]
    if len(known) > 2:
        means = torch.stack([representations[labels == label].double().mean(dim=0) for label in known])
        known = [known[i] for i in leaves_list(linkage(means.numpy(), "average", optimal_ordering=True))]
    return known + [label for label in classes if label not in known]


def nearest_to_centres(representations: Tensor, index: ClusterIndex, label: int) -> list[int]:
    """Training examples that show a class: the nearest to each of its centres, the largest cluster first, in turns."""
    clusters = (index.centre_labels == label).nonzero()[:, 0]
    turns = []
    for cluster in clusters[index.sizes[clusters].argsort(descending=True, stable=True)].tolist():
        members = index.members(cluster)
        distances = (representations[members] - index.centres[cluster]).square().sum(dim=1)
        turns.append(members[distances.argsort()[:EXEMPLARS]].tolist())
    mixed = [some[turn] for turn in range(EXEMPLARS) for some in turns if turn < len(some)]
    return mixed[:EXEMPLARS]


def _pictures(data: Dataset, rows: list[int]) -> dict[int, str]:
    """Pictures of examples, by id, as data addresses; none of tables."""
    unique = np.array(sorted(set(rows)), dtype=np.int64)
    side = square_side(data)
    if data.kind == "images":
        drawn = photographs(data, unique, min(SIDE, data.stored_side or SIDE))
        return {int(row): data_uri(webp(picture)) for row, picture in zip(unique, drawn, strict=True)}
    if not side or not len(unique):
        return {}
    pixels = squares(data, unique).reshape(-1, side, side)
    return {int(row): data_uri(webp(picture, 100)) for row, picture in zip(unique, pixels, strict=True)}
