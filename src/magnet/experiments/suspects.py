"""Are planted wrong labels found? Magnet's suspects beside cleanlab, on the training part of feature vectors.

A share of the training labels is replaced by other classes, drawn evenly. As many examples are then suspected as were
planted, and counted is how many of them are planted ones: precision at the number planted.

cleanlab scores labels by given probabilities. Those of its guides are used: a logistic regression, cross-validated in
as many folds as Magnet's votes. Its C, and whether features are standardised, are those with the least log-loss on a
fifth of the training part, with the labels that the planting left.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from magnet.errors import UserError
from magnet.evaluation.suspects import FOLDS, doubt_labels
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import Outcome, Table, mean_of, spread

RATES = (0.05, 0.1)
C_VALUES = (0.01, 0.1, 1.0)
SCORES = ("self_confidence", "normalized_margin")
Array = NDArray[Any]


def run(lab: Lab) -> Outcome:
    """Plant, search and count, with each seed."""
    if lab.data.kind != "vectors":
        raise UserError(f"planted labels are searched among vectors; {lab.data.name} holds {lab.data.kind}")
    scorer = _cleanlab() if lab.linear else None
    train = lab.data.indices("train")
    X, y = lab.data.batch(train), lab.data.labels[train]
    first = lab.configure("magnet").seed
    names = ["magnet", *(SCORES if scorer else ())]
    values: dict[str, Any] = {f"{rate:g}": {name: [] for name in names} for rate in RATES}
    model: Pipeline | None = None
    for seed in range(first, first + lab.seeds):
        for rate in RATES:
            given, planted = plant(y.numpy(), rate, seed)
            found = values[f"{rate:g}"]
            doubts = doubt_labels(X, torch.from_numpy(given), seed=seed)
            found["magnet"].append(precision(-doubts.loss.numpy(), planted))
            if scorer is not None:
                model = _tuned(X.numpy(), given, seed) if model is None else model
                folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
                votes = cross_val_predict(model, X.numpy(), given, cv=folds, method="predict_proba")
                for score in SCORES:
                    found[score].append(precision(scorer(given, votes, method=score), planted))
    if model is not None:
        values["logistic"] = {"C": model["fit"].C, "standardised": "scale" in model.named_steps}
    return Outcome([_table(lab, values, names, len(y))], values=values)


def plant(labels: Array, rate: float, seed: int) -> tuple[Array, Array]:
    """Labels (n,) of which a share is replaced by other classes, evenly drawn; and the rows replaced.

    >>> given, rows = plant(np.arange(100) % 4, 0.05, seed=0)
    >>> len(rows), bool((given[rows] != rows % 4).all())
    (5, True)
    """
    rng = np.random.default_rng(seed)
    classes, count = int(labels.max()) + 1, round(rate * len(labels))
    rows = rng.choice(len(labels), count, replace=False)
    given = labels.copy()
    given[rows] = (labels[rows] + rng.integers(1, classes, count)) % classes
    return given, rows


def precision(quality: Array, planted: Array) -> float:
    """The share of planted rows among as many with the lowest quality (n,)."""
    worst = np.argsort(quality, kind="stable")[: len(planted)]
    return float(np.isin(worst, planted).mean())


def _tuned(X: Array, y: Array, seed: int) -> Pipeline:
    """The logistic regression with the least log-loss on a fifth of the examples, not fitted."""
    counts = np.bincount(y)
    X_part, X_held, y_part, y_held = train_test_split(
        X, y, test_size=0.2, stratify=y if counts[counts > 0].min() > 1 else None, random_state=seed
    )
    tried: list[tuple[float, int, Pipeline]] = []
    for C in C_VALUES:
        for steps in ([("scale", StandardScaler())], []):
            model = Pipeline([*steps, ("fit", LogisticRegression(C=C, max_iter=300))])
            votes = model.fit(X_part, y_part).predict_proba(X_held)
            known = np.isin(y_held, model["fit"].classes_)
            loss = log_loss(y_held[known], votes[known], labels=model["fit"].classes_)
            tried.append((loss, len(tried), model))
    return min(tried)[2]


def _cleanlab() -> Any:
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError as error:
        raise UserError(
            "the comparison needs cleanlab: pip install 'magnet-loss[cleanlab]'; or leave it out: --no-linear"
        ) from error
    return get_label_quality_scores


def _table(lab: Lab, values: dict[str, Any], names: list[str], examples: int) -> Table:
    titles = {
        "magnet": "Magnet",
        "self_confidence": "cleanlab, self-confidence",
        "normalized_margin": "cleanlab, margin",
    }
    rows = [[titles[name], *(spread(values[f"{rate:g}"][name]) for rate in RATES)] for name in names]
    about = ""
    if "logistic" in values:
        scaled = "standardised" if values["logistic"]["standardised"] else "as they are"
        about = f" cleanlab: a logistic regression, C = {values['logistic']['C']:g}, features {scaled}."
    return Table(
        f"{lab.data.name}: {examples:,} training examples, precision at the number planted, in %",
        ["", *(f"{rate:.0%} planted" for rate in RATES)],
        rows,
        f"{mean_of(lab.seeds).capitalize()}.{about}",
    )
