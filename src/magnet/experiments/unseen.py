"""Retrieval among classes that were never trained on: the protocol that metric learning is usually reported by.

The first half of the classes, in their order, is trained on with all its examples; the second half is searched, each
of its examples among all others (CUB-200-2011: classes 1 to 100, then 101 to 200). Settings are chosen by a fifth of
the examples of the first half: the second is not looked at before the end.
"""

import copy
from dataclasses import replace

import numpy as np
import torch
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor

from magnet.clustering import kmeans_per_class
from magnet.data import Dataset
from magnet.data.listings import PARTS
from magnet.errors import UserError
from magnet.evaluation.errors import retrieval
from magnet.experiments.cache import of_test_part
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import DIVERGED, Outcome, Table, mean_of, pretty, spread
from magnet.experiments.search import settings_table
from magnet.neighbours import nearest
from magnet.training.workbench import complete, prepare
from magnet.votes import stratified_folds

HALF = "first half of the classes"
COLUMNS = {"recall@1": "R@1", "recall@8": "R@8", "map@r": "MAP@R", "nmi": "NMI"}
NEAR = 8
FOLDS = 5  # one of them chooses the settings


def run(lab: Lab) -> Outcome:
    """Train every row on half of the classes, and search the other half."""
    lab.expect(len(lab.methods) * (lab.tries + lab.seeds))
    if len(lab.data.classes) < 4:
        raise UserError(f"{lab.data.spec} has {len(lab.data.classes)} classes: two halves need four or more")
    data, held = halved(lab.data, lab.configure("magnet").seed)
    truth = data.labels[data.indices("test")]
    values: dict[str, dict[str, list[float | None]]] = {}
    settings = {}
    for row in lab.methods:
        best = lab.best_on(row, held, HALF)
        runs = [lab.train(config, data) for config in lab.seeded(best)]
        found = [None if run is None else ranked_among_others(of_test_part(run), truth) for run in runs]
        values[row] = {name: [None if one is None else one[name] for one in found] for name in COLUMNS}
        settings[row] = lab.chosen[HALF][row]
    if data.kind == "vectors":
        for name, vectors in _untrained(lab, data).items():
            values[name] = {column: [value] for column, value in ranked_among_others(vectors, truth).items()}
    rows = [
        [pretty(row) if row in lab.methods else row, *(_cell(found[column]) for column in COLUMNS)]
        for row, found in values.items()
    ]
    table = Table(
        f"{data.name}: {len(truth):,} examples of {len(truth.unique())} classes that were not trained on, in %",
        ["method", *COLUMNS.values()],
        rows,
        f"{mean_of(lab.seeds).capitalize()}; larger is better. R@n: one of the n nearest others is of the same class; "
        "MAP@R: mean average precision at R; NMI: of as many clusters as there are classes.",
    )
    return Outcome([table, settings_table("Settings, chosen on validation data", settings)], values=dict(values))


def halved(data: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """The data with the second half of the classes as its test part, and the same with validation examples."""
    seen = (data.labels < len(data.classes) // 2).numpy()
    fold = np.full(len(seen), -1)
    fold[seen] = stratified_folds(data.labels[torch.from_numpy(seen)], FOLDS, seed).numpy()
    whole, held = copy.copy(data), copy.copy(data)
    whole.split = np.where(seen, PARTS["train"], PARTS["test"]).astype(data.split.dtype)
    held.split = np.where(seen & (fold == 0), PARTS["validation"], whole.split).astype(data.split.dtype)
    return whole, held


def ranked_among_others(representations: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Every column of the table, for representations (n, d) with labels (n,), each searched among the others.

    >>> points = torch.tensor([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> ranked_among_others(points, torch.tensor([0, 0, 0, 1, 1, 1]))
    {'recall@1': 1.0, 'recall@8': 1.0, 'map@r': 1.0, 'nmi': 1.0}
    """
    _, ids = nearest(representations, representations, min(NEAR + 1, len(labels)))
    near = (labels[ids] == labels[:, None]) & (ids != torch.arange(len(labels))[:, None])
    ranked = retrieval(representations, labels)
    together = torch.zeros_like(labels)  # K-means over all of them, as if they were one class
    clusters = kmeans_per_class(representations, together, len(labels.unique()), seed=0, restarts=1).assignments
    nmi = float(normalized_mutual_info_score(labels.numpy(), clusters.numpy()))
    return {
        "recall@1": ranked["recall@1"], "recall@8": float(near.any(dim=1).double().mean()), "map@r": ranked["map@r"],
        "nmi": nmi,
    }  # fmt: skip


def _untrained(lab: Lab, data: Dataset) -> dict[str, Tensor]:
    """The vectors of the test part as they are, and as the whitened start of the training part has them."""
    vectors = data.batch(data.indices("test"))
    found = {"features": vectors}
    config = lab.configure("magnet")
    if config.start == "whitened":  # the start alone: settings and length of a training do not matter
        start = prepare(complete(replace(config, epochs=1), data), data).start
        assert start is not None
        found["the start alone"] = start(vectors.double()).float()
    return found


def _cell(found: list[float | None]) -> str:
    return DIVERGED if None in found else spread(found)
