"""MagnetClassifier without any settings, beside a tuned logistic regression, on the test part of feature vectors.

The classifier is fitted with each seed on the classes, once without every fourth class (how well `novelty` tells those
from the others, and the error once `extend` was given their training examples), and on random pairs of classes, merged
(the error on the merged labels, and that of kNC on the classes which these labels hide, in the space of the start and
in Magnet's). The logistic regression is tuned by cross-validation of the training part; "in the start" it gets the
features as the closed-form start of `magnet.start` represents them, with the power and the shrinkage that
MagnetClassifier chose, whitened within classes.
"""

import time
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from magnet.data import Dataset, merge_classes
from magnet.errors import UserError
from magnet.estimator import MagnetClassifier, NearestClustersClassifier
from magnet.evaluation.errors import calibration_error
from magnet.experiments.lab import Lab
from magnet.experiments.logistic import Space, tuned_logistic
from magnet.experiments.outcome import Outcome, Table, mean_of, spread
from magnet.start import Start, StartSettings
from magnet.votes import Examples

Array = NDArray[Any]
COLUMNS = {
    "error": "error", "means": "with means", "ece": "ECE", "refused": "refused", "novelty": "novelty AUC",
    "extended": "extended",
}  # fmt: skip
PAIRS = {
    "merged": "merged", "merged_means": "with means", "merged_logistic": "LR", "merged_in_start": "LR, start",
    "hidden_start": "hidden, start", "hidden": "hidden, Magnet",
}  # fmt: skip


def run(lab: Lab) -> Outcome:
    """Fit and test with each seed; the logistic regressions only where linear models are asked for."""
    if lab.data.kind != "vectors":
        raise UserError(f"MagnetClassifier takes vectors; {lab.data.name} holds {lab.data.kind}")
    first = lab.configure("magnet").seed
    values: dict[str, Any] = {name: [] for name in (*COLUMNS, *PAIRS, "cpu_seconds", "chosen")}
    for seed in range(first, first + lab.seeds):
        for name, found in _on_classes(lab.data, seed).items():
            values[name].append(found)
    for seed in range(first, first + lab.pairings):
        for name, found in _on_pairs(merge_classes(lab.data, seed), seed, linear=lab.linear).items():
            values[name].append(found)
    if lab.linear:
        X, y, X_test, y_test = _parts(lab.data)
        start = partial(_start, MagnetClassifier(random_state=first).fit(X, y))
        for name, space in (("logistic", None), ("logistic_in_start", start)):
            values[name], values[f"{name}_ece"] = _logistic_quality(X, y, X_test, y_test, space)
    return Outcome([_errors(lab, values), _pairs(lab, values)], values=values)


def _parts(data: Dataset) -> tuple[Array, Array, Array, Array]:
    """X (n, d) and y (n,) of the training part, then of the test part."""
    train, test = data.indices("train"), data.indices("test")
    X, y, X_test, y_test = data.batch(train), data.labels[train], data.batch(test), data.labels[test]
    return X.numpy(), y.numpy(), X_test.numpy(), y_test.numpy()


def _on_classes(data: Dataset, seed: int) -> dict[str, Any]:
    X, y, X_test, y_test = _parts(data)
    begin = time.process_time()
    model = MagnetClassifier(random_state=seed).fit(X, y)
    seconds = time.process_time() - begin
    error, ece = _quality(model, X_test, y_test)
    unseen = model.classes_[3::4]
    new, new_test = np.isin(y, unseen), np.isin(y_test, unseen)
    grown = MagnetClassifier(random_state=seed).fit(X[~new], y[~new])
    novelty = float(roc_auc_score(new_test, grown.novelty(X_test)))
    return {
        "error": error,
        "means": _error_with_means(model, X_test, y_test),
        "ece": ece,
        "refused": float(model.is_novel(X_test).mean()),
        "novelty": novelty,
        "extended": _quality(grown.extend(X[new], y[new]), X_test, y_test)[0],
        "cpu_seconds": seconds,
        "chosen": f"power {model.power_:g}, K = {model.n_clusters_}, shrinkage {model.shrinkage_:g}, "
        f"pull {model.pull_}",
    }


def _on_pairs(merged: Dataset, seed: int, *, linear: bool) -> dict[str, float]:
    X, y, X_test, y_test = _parts(merged)
    assert merged.fine_labels is not None
    fine = merged.fine_labels.numpy()
    hidden, hidden_test = fine[merged.indices("train")], fine[merged.indices("test")]
    model = MagnetClassifier(random_state=seed).fit(X, y)
    start = _start(model, Examples(torch.tensor(X), torch.tensor(y)))
    found = {"merged": _quality(model, X_test, y_test)[0], "merged_means": _error_with_means(model, X_test, y_test)}
    if linear:
        found["merged_logistic"], _ = _logistic_quality(X, y, X_test, y_test)
        found["merged_in_start"], _ = _logistic_quality(X, y, X_test, y_test, partial(_start, model))
    for name, space in (("hidden_start", partial(_represented, start)), ("hidden", model.transform)):
        rule = NearestClustersClassifier(random_state=seed).fit(space(X), hidden)
        found[name] = _quality(rule, space(X_test), hidden_test)[0]
    return found


def _start(model: MagnetClassifier, examples: Examples) -> Start:
    """The start with the settings that a fitted model chose, whitened within the classes of these examples."""
    settings = StartSettings(
        model.power_, model.standardize_, model.shrinkage_, 1, model.kernel_width_, model.unit_length_
    )
    return settings.fit(examples, min(512, len(examples.x)), seed=0)


def _represented(start: Start, X: Array) -> Array:
    return start(torch.tensor(X).double()).numpy()


def _logistic_quality(
    X: Array, y: Array, X_test: Array, y_test: Array, space: Space | None = None
) -> tuple[float, float]:
    """Error and expected calibration error of a tuned logistic regression, in a space that is fitted to X and y."""
    examples = Examples(torch.tensor(X), torch.tensor(y))
    model = tuned_logistic(examples, space=space)
    if space is not None:
        start = space(examples)
        X, X_test = _represented(start, X), _represented(start, X_test)
    return _quality(model.fit(X, y), X_test, y_test)


def _quality(model: Any, X: Array, y: Array) -> tuple[float, float]:
    """Error and expected calibration error."""
    proba = model.predict_proba(X)
    right = model.classes_[proba.argmax(axis=1)] == y
    return float(1 - right.mean()), calibration_error(torch.tensor(proba.max(axis=1)), torch.tensor(right))


def _error_with_means(model: MagnetClassifier, X: Array, y: Array) -> float:
    """The error of the same model when the means of its clusters vote, not the refined centres."""
    refined, model.centre_shifts_ = model.centre_shifts_, np.zeros_like(model.centre_shifts_)
    error, _ = _quality(model, X, y)
    model.centre_shifts_ = refined
    return error


def _errors(lab: Lab, values: dict[str, Any]) -> Table:
    rows = [["MagnetClassifier", *(spread(values[name]) for name in COLUMNS)]]
    for name, shown in (("logistic", "logistic regression"), ("logistic_in_start", "the same, in the start")):
        if name in values:
            rows.append([shown, spread([values[name]]), "", spread([values[f"{name}_ece"]]), "", "", ""])
    seconds = float(np.mean(values["cpu_seconds"]))
    return Table(
        f"{lab.data.name}: {len(lab.data.indices('test')):,} test examples, in %",
        ["", *COLUMNS.values()],
        rows,
        f"{mean_of(lab.seeds).capitalize()}; a fit takes {seconds:.0f} s of a processor core. Chosen with the first "
        f"seed: {values['chosen'][0]}. With means: the means of clusters vote, not refined centres. ECE: expected "
        "calibration error. Refused: test examples said to be novel. Novelty AUC and extended: trained without every "
        "fourth class.",
    )


def _pairs(lab: Lab, values: dict[str, Any]) -> Table:
    names = [name for name in PAIRS if values[name]]
    return Table(
        "Trained on classes merged in random pairs: error in %",
        ["", *(PAIRS[name] for name in names)],
        [["MagnetClassifier", *(spread(values[name]) for name in names)]],
        f"{lab.pairings} pairing{'s' * (lab.pairings > 1)}. LR: a tuned logistic regression on the merged labels, on "
        "the features and in the start. Hidden: kNC on the classes that the pairs hide, in the start and in Magnet's "
        "space.",
    )
