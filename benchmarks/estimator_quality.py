"""MagnetClassifier with no settings, beside a tuned logistic regression, on the test part of digits and of given data.

    python benchmarks/estimator_quality.py                       # digits
    python benchmarks/estimator_quality.py FOLDER --sets pets cub   # and FOLDER/pets.npz, FOLDER/cub.npz

A file holds X, y and test (bool), the official test part. The logistic regression chooses C, and whether to
standardise, by three-fold cross-validation on the training part. The last columns are of a MagnetClassifier that was
trained without every fourth class: how well `novelty` tells those classes from the others (area under the ROC curve),
and the error over all classes once `extend` was given their training examples.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import magnet
from magnet.evaluation.calibration import calibration_error

HEADER = (
    "data",
    "error",
    "CPU seconds",
    "ECE",
    "refused",
    "LR error",
    "LR ECE",
    "LR C",
    "novelty AUC",
    "extended error",
)


def open_set(name: str, folder: Path | None):
    """X and y of the training part, then of the test part."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
        return X, y, X_test, y_test
    data = np.load(folder / f"{name}.npz")
    X, y, test = data["X"].astype(np.float32), data["y"], data["test"].astype(bool)
    return X[~test], y[~test], X[test], y[test]


def tuned_logistic_regression(X, y):
    model = Pipeline([("scale", StandardScaler()), ("fit", LogisticRegression(max_iter=1000))])
    grid = {"scale": [StandardScaler(), "passthrough"], "fit__C": [0.003, 0.01, 0.03, 0.1, 0.3, 1, 3]}
    return GridSearchCV(model, grid, cv=3).fit(X, y)


def quality(model, X, y):
    """Error and expected calibration error, in percent."""
    proba = model.predict_proba(X)
    right = model.classes_[proba.argmax(axis=1)] == y
    ece = calibration_error(torch.tensor(proba.max(axis=1)), torch.tensor(right))
    return 100 * (1 - right.mean()), 100 * ece


def measure(name: str, folder: Path | None, seed: int) -> list[str]:
    X, y, X_test, y_test = open_set(name, folder)
    started = time.process_time()
    model = magnet.MagnetClassifier(random_state=seed).fit(X, y)
    seconds = time.process_time() - started
    error, ece = quality(model, X_test, y_test)
    refused = 100 * model.is_novel(X_test).mean()

    logistic = tuned_logistic_regression(X, y)
    their_error, their_ece = quality(logistic, X_test, y_test)
    standardised = logistic.best_params_["scale"] != "passthrough"
    settings = f"{logistic.best_params_['fit__C']:g}{' standardised' if standardised else ''}"

    hidden = model.classes_[3::4]
    new, new_test = np.isin(y, hidden), np.isin(y_test, hidden)
    grown = magnet.MagnetClassifier(random_state=seed).fit(X[~new], y[~new])
    auc = 100 * roc_auc_score(new_test, grown.novelty(X_test))
    extended, _ = quality(grown.extend(X[new], y[new]), X_test, y_test)
    numbers = (error, seconds, ece, refused, their_error, their_ece)
    return [name, *(f"{n:.1f}" for n in numbers), settings, f"{auc:.1f}", f"{extended:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where NAME.npz files are")
    parser.add_argument("--sets", nargs="*", default=["pets", "cub"], help="names of files in the folder")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER), flush=True)
    for name in ["digits", *(arguments.sets if arguments.folder else [])]:
        print("| " + " | ".join(measure(name, arguments.folder, arguments.seed)) + " |", flush=True)


if __name__ == "__main__":
    main()
