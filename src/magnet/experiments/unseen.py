"""Retrieval among classes that were never trained on: the protocol that metric learning is usually reported by.

The first half of the classes, in their order, is trained on with all its examples; the second half is searched, each
of its examples among all others (CUB-200-2011: classes 1 to 100, then 101 to 200). Settings are chosen by the same
question asked of the first half alone: trained on two thirds of its classes, a trial is judged by MAP@R among the
others. The second half is not looked at before the end. What suits classes to come is less training and more shrinkage
than suits the classes that are trained on, so that every method has trials of both.
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
from magnet.experiments.search import SeededTrial, chosen, searched_space, settings_table
from magnet.neighbours import nearest
from magnet.training.config import TrainConfig
from magnet.training.search import Space, draw
from magnet.training.workbench import complete, prepare

HALF = "first half of the classes"
SPACE: Space = {"shrinkage": (0.4, 0.7, 0.9), "epochs": (1, 3, 10)}  # of every method, beside its own
COLUMNS = {"recall@1": "R@1", "recall@8": "R@8", "map@r": "MAP@R", "nmi": "NMI"}
NEAR = 8
EVERY = 3  # every third class of the first half chooses the settings


def run(lab: Lab) -> Outcome:
    """Train every row on half of the classes, and search the other half."""
    lab.expect(len(lab.methods) * (lab.trials * (lab.settings is None) + lab.seeds))
    if len(lab.data.classes) < 12:
        raise UserError(f"{lab.data.spec} has {len(lab.data.classes)} classes: half of them must be six or more")
    data, held = halved(lab.data)
    truth = data.labels[data.indices("test")]
    values: dict[str, dict[str, list[float | None]]] = {}
    settings = {}
    for row in lab.methods:
        best = _best(lab, row, held)
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
    return Outcome(
        [table, settings_table("Settings, chosen by classes of the first half", settings)], values=dict(values)
    )


def halved(data: Dataset) -> tuple[Dataset, Dataset]:
    """The data with the second half of the classes as its test part; and the first half alone, with every third class
    of it as the test part.
    """
    labels, half = data.labels.numpy(), len(data.classes) // 2
    whole, held = copy.copy(data), copy.copy(data)
    whole.split = np.where(labels < half, PARTS["train"], PARTS["test"]).astype(data.split.dtype)
    third = np.where(labels % EVERY == EVERY - 1, PARTS["test"], PARTS["train"])
    held.split = np.where(labels < half, third, len(PARTS)).astype(data.split.dtype)  # the second half in no part
    return whole, held


def _best(lab: Lab, row: str, held: Dataset) -> TrainConfig:
    """The settings of the trial with the highest MAP@R among the classes held out, or the given settings."""
    if lab.settings is not None:
        return lab.best(row, held, HALF)
    base, fixed = lab.started(row, held), lab.fixed_for(row)
    space = searched_space(base, fixed)
    if base.start == "whitened":
        space |= {name: values for name, values in SPACE.items() if name not in fixed}
    truth = held.labels[held.indices("test")]
    ranked = []
    for number in range(lab.trials):  # the first is what the start suggests
        config = replace(base, **draw(SeededTrial(base.seed, number), space)) if number else base
        run = lab.train(config, held)
        ranked.append((-1.0 if run is None else retrieval(of_test_part(run), truth)["map@r"], -number, config))
    best: TrainConfig = max(ranked, key=lambda trial: trial[:2])[2]
    lab.chosen.setdefault(HALF, {})[row] = [chosen(best, fixed)]
    return best


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
