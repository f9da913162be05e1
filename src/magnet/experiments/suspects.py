"""Are planted wrong labels found? Magnet's suspects beside cleanlab, on the training part of feature vectors.

A share of the training labels is replaced by other classes, drawn evenly. As many examples are then suspected as were
planted, and counted is how many of them are planted ones: precision at the number planted.

cleanlab scores labels by given probabilities. Those of its guides are used: a logistic regression, cross-validated in
as many folds as Magnet's votes, and tuned by its log-loss on the labels that the planting left.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from magnet.errors import UserError
from magnet.evaluation.suspects import FOLDS, doubt_labels
from magnet.experiments.lab import Lab
from magnet.experiments.logistic import C_VALUES, CommonScaler, logistic, tuned_logistic
from magnet.experiments.outcome import Outcome, Table, difference, mean_of, paired_interval, spread
from magnet.files import read_json, replacing
from magnet.training.config import REVISION
from magnet.votes import Examples

RATES = (0.05, 0.1)
SCORES = ("self_confidence", "normalized_margin")
Array = NDArray[Any]


def run(lab: Lab) -> Outcome:
    """Plant, search and count, with each seed; what is counted is kept, so that a stopped experiment goes on."""
    if lab.data.kind != "vectors":
        raise UserError(f"planted labels are searched among vectors; {lab.data.name} holds {lab.data.kind}")
    if lab.linear:
        _cleanlab()
    train = lab.data.indices("train")
    X, y = lab.data.batch(train), lab.data.labels[train].numpy()
    first = lab.configure("magnet").seed
    keep = partial(_kept, lab.out / "plantings", json.dumps([REVISION, FOLDS, C_VALUES, lab.data.digest.to_dict()]))
    found: list[dict[str, list[list[bool]]]] = [{} for _ in RATES]  # by name, which planted labels each seed found
    values: dict[str, Any] = {}
    if lab.linear:
        values["logistic"] = keep("logistic", partial(_tuned, X, plant(y, RATES[0], first)[0], first))
    for seed in range(first, first + lab.seeds):
        for rate, by_name in zip(RATES, found, strict=True):
            planted = plant(y, rate, seed)
            rows = keep(f"magnet-{seed}-{rate:g}", partial(_by_magnet, X, *planted, seed))
            if lab.linear:
                scaler = StandardScaler() if values["logistic"]["standardised"] else CommonScaler()
                model = logistic(scaler, values["logistic"]["C"])
                rows |= keep(f"cleanlab-{seed}-{rate:g}", partial(_by_cleanlab, model, X.numpy(), *planted, seed))
            for name, those in rows.items():
                by_name.setdefault(name, []).append(those)
    values |= {f"{rate:g}": _measures(by_name) for rate, by_name in zip(RATES, found, strict=True)}
    return Outcome([_table(lab, values, list(found[0]), len(y))], values=values)


def _kept(folder: Path, key: str, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What was made under this key before, or is made now and kept."""
    path = folder / f"{name}.json"
    with suppress(OSError, ValueError, KeyError):
        known: dict[str, Any] = read_json(path)
        if known.pop("key") == key:
            return known
    made = make()
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        draft.write_text(json.dumps({"key": key} | made), encoding="utf-8")
    return made


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


def suspected(quality: Array, planted: Array) -> Array:
    """Which of the planted rows (m,) are among the m of the lowest quality (n,): their mean is the precision.

    >>> suspected(np.array([0.9, 0.2, 0.8, 0.1]), planted=np.array([2, 3]))
    array([False,  True])
    """
    worst = np.argsort(quality, kind="stable")[: len(planted)]
    return np.isin(planted, worst)


def _by_magnet(X: Tensor, given: Array, planted: Array, seed: int) -> dict[str, Any]:
    loss = doubt_labels(X, torch.from_numpy(given), seed=seed).loss
    return {"magnet": suspected(-loss.numpy(), planted).tolist()}


def _by_cleanlab(model: Pipeline, X: Array, given: Array, planted: Array, seed: int) -> dict[str, Any]:
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    votes = cross_val_predict(model, X, given, cv=folds, method="predict_proba")
    scorer = _cleanlab()
    return {score: suspected(scorer(given, votes, method=score), planted).tolist() for score in SCORES}


def _measures(found: dict[str, list[list[bool]]]) -> dict[str, Any]:
    """The precision of each seed, and how much higher Magnet's is, over planted labels and seeds."""
    rows = {name: np.array(seeds) for name, seeds in found.items()}
    measures: dict[str, Any] = {name: seeds.mean(axis=1).tolist() for name, seeds in rows.items()}
    others = [name for name in rows if name != "magnet"]
    return measures | {"difference": {name: paired_interval(rows["magnet"], rows[name]) for name in others}}


def _tuned(X: Tensor, y: Array, seed: int) -> dict[str, Any]:
    """The settings of the logistic regression."""
    model = tuned_logistic(Examples(X, torch.from_numpy(y)), loss="log-loss", seed=seed)
    return {"C": model["fit"].C, "standardised": not isinstance(model["scale"], CommonScaler)}


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
    rows, by_rate = [], [values[f"{rate:g}"] for rate in RATES]
    for name in names:
        ahead = (difference(found["difference"][name]) if name != "magnet" else "" for found in by_rate)
        rows.append([titles[name], *(spread(found[name]) for found in by_rate), *ahead])
    about = ""
    if "logistic" in values:
        scaled = "each feature standardised" if values["logistic"]["standardised"] else "features scaled alike"
        about = f" cleanlab: a logistic regression, C = {values['logistic']['C']:.2g}, {scaled}."
    return Table(
        f"{lab.data.name}: {examples:,} training examples, precision at the number planted, in %",
        ["", *(f"{rate:.0%} planted" for rate in RATES), *(f"Magnet minus this, {rate:.0%}" for rate in RATES)],
        rows,
        f"{mean_of(lab.seeds).capitalize()}.{about} In brackets: 95 % interval, paired bootstrap over planted labels "
        "and seeds; * where it excludes zero.",
    )
