"""MagnetClassifier with no settings, beside a tuned logistic regression, on the test part of digits and of given data.

    python benchmarks/estimator_quality.py                       # digits
    python benchmarks/estimator_quality.py FOLDER --sets pets cub   # and FOLDER/pets.npz, FOLDER/cub.npz
    python benchmarks/estimator_quality.py FOLDER --errors 0 1 2    # errors of MagnetClassifier alone, for three seeds
    python benchmarks/estimator_quality.py FOLDER --pairs 0 1 2     # trained on random pairs of classes

A file holds X, y and test (bool) or split (2: test), the official test part. The logistic regression chooses C, and
whether to standardise, by three-fold cross-validation on the training part; "in the start" it gets the features as the
closed-form start (`magnet.start`) represents them: power and shrinkage as the MagnetClassifier chose them, whitened
within classes.
The last columns are of a MagnetClassifier that was trained without every fourth class: how well `novelty` tells those
classes from the others (area under the ROC curve), and the error over all classes once `extend` was given their
training examples.

With --pairs N ... the classes are merged in random pairs (a pairing for each N, which is also the seed) and the models
see the merged labels only. Columns: the error on the merged labels; then, in the space of the start whitened within
the merged classes and in Magnet's, the error on the classes that the labels hid, by kNC (`NearestClustersClassifier`
with no settings) over their training examples.
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
from magnet.start import WithinClusters

HEADER = (
    "data", "error", "with means", "CPU seconds", "ECE", "refused", "LR error", "LR ECE", "LR C", "LR in the start",
    "novelty AUC", "extended error",
)  # fmt: skip
PAIRS_HEADER = (
    "data", "pairing", "K", "merged", "merged, with means", "merged, LR", "merged, LR in the start",
    "hidden, start", "hidden, Magnet",
)  # fmt: skip
ERRORS_HEADER = ("data", "seed", "error", "with means", "CPU seconds", "chosen")
C_VALUES = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3]


def open_set(name: str, folder: Path | None):
    """X and y of the training part, then of the test part."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
        return X, y, X_test, y_test
    data = np.load(folder / f"{name}.npz")
    X, y = data["X"].astype(np.float32), data["y"]
    test = data["test"].astype(bool) if "test" in data else data["split"] == 2
    return X[~test], y[~test], X[test], y[test]


def tuned_logistic_regression(X, y):
    model = Pipeline([("scale", StandardScaler()), ("fit", LogisticRegression(max_iter=300))])
    grid = {"scale": [StandardScaler(), "passthrough"], "fit__C": C_VALUES}
    return GridSearchCV(model, grid, cv=3).fit(X, y)


def started(model, X, y):
    """The start of a fitted model, whitened within the classes y, as a function of features."""
    labels = torch.tensor(np.unique(y, return_inverse=True)[1])
    spectrum = WithinClusters(torch.tensor(X).double(), labels, power=model.power_, standardize=model.standardize_)
    start = spectrum.start(model.shrinkage_, min(512, *X.shape))
    return lambda inputs: start(torch.tensor(inputs).double()).numpy()


def with_means(model, X, y):
    """The error in percent of the same model when the means of its clusters vote, not the refined centres."""
    refined, model.centre_shifts_ = model.centre_shifts_, np.zeros_like(model.centre_shifts_)
    error, _ = quality(model, X, y)
    model.centre_shifts_ = refined
    return error


def quality(model, X, y):
    """Error and expected calibration error, in percent."""
    proba = model.predict_proba(X)
    right = model.classes_[proba.argmax(axis=1)] == y
    ece = calibration_error(torch.tensor(proba.max(axis=1)), torch.tensor(right))
    return 100 * (1 - right.mean()), 100 * ece


def measure(name: str, folder: Path | None, seed: int) -> list[str]:
    X, y, X_test, y_test = open_set(name, folder)
    begin = time.process_time()
    model = magnet.MagnetClassifier(random_state=seed).fit(X, y)
    seconds = time.process_time() - begin
    error, ece = quality(model, X_test, y_test)
    refused = 100 * model.is_novel(X_test).mean()

    logistic = tuned_logistic_regression(X, y)
    their_error, their_ece = quality(logistic, X_test, y_test)
    standardised = logistic.best_params_["scale"] != "passthrough"
    settings = f"{logistic.best_params_['fit__C']:g}{' standardised' if standardised else ''}"
    start = started(model, X, y)
    in_start, _ = quality(tuned_logistic_regression(start(X), y), start(X_test), y_test)

    hidden = model.classes_[3::4]
    new, new_test = np.isin(y, hidden), np.isin(y_test, hidden)
    grown = magnet.MagnetClassifier(random_state=seed).fit(X[~new], y[~new])
    auc = 100 * roc_auc_score(new_test, grown.novelty(X_test))
    extended, _ = quality(grown.extend(X[new], y[new]), X_test, y_test)
    numbers = (error, with_means(model, X_test, y_test), seconds, ece, refused, their_error, their_ece)
    rest = (in_start, auc, extended)
    return [name, *(f"{n:.1f}" for n in numbers), settings, *(f"{n:.1f}" for n in rest)]


def measure_errors(name: str, folder: Path | None, seed: int) -> list[str]:
    """The error of MagnetClassifier, and what it chose."""
    X, y, X_test, y_test = open_set(name, folder)
    begin = time.process_time()
    model = magnet.MagnetClassifier(random_state=seed).fit(X, y)
    seconds = time.process_time() - begin
    chosen = f"power {model.power_:g}, K = {model.n_clusters_}, shrinkage {model.shrinkage_:g}, pull {model.pull_}"
    errors = (quality(model, X_test, y_test)[0], with_means(model, X_test, y_test))
    return [name, str(seed), *(f"{error:.2f}" for error in errors), f"{seconds:.0f}", chosen]


def measure_pairs(name: str, folder: Path | None, seed: int) -> list[str]:
    """The errors of one pairing."""
    X, fine, X_test, fine_test = open_set(name, folder)
    classes = np.random.default_rng(seed).permutation(np.unique(fine))
    pair = dict(zip(classes.tolist(), (np.arange(len(classes)) // 2).tolist(), strict=True))
    y, y_test = (np.array([pair[label] for label in labels.tolist()]) for labels in (fine, fine_test))
    model = magnet.MagnetClassifier(random_state=seed).fit(X, y)
    merged, _ = quality(model, X_test, y_test)
    start = started(model, X, y)
    logistic, _ = quality(tuned_logistic_regression(X, y), X_test, y_test)
    in_start, _ = quality(tuned_logistic_regression(start(X), y), start(X_test), y_test)
    hidden = []
    for space in (start, model.transform):
        rule = magnet.NearestClustersClassifier(random_state=seed).fit(space(X), fine)
        hidden.append(quality(rule, space(X_test), fine_test)[0])
    numbers = (merged, with_means(model, X_test, y_test), logistic, in_start, *hidden)
    return [name, str(seed), str(model.n_clusters_), *(f"{n:.1f}" for n in numbers)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where NAME.npz files are")
    parser.add_argument("--sets", nargs="*", default=["pets", "cub"], help="names of files in the folder")
    parser.add_argument("--seed", type=int, default=0)
    kinds = {"pairs": (PAIRS_HEADER, measure_pairs), "errors": (ERRORS_HEADER, measure_errors)}
    parser.add_argument("--pairs", type=int, nargs="*", metavar="N", help="random pairings to train on instead")
    parser.add_argument("--errors", type=int, nargs="*", metavar="N", help="seeds of MagnetClassifier alone")
    arguments = parser.parse_args()
    header, function, seeds = HEADER, measure, [arguments.seed]
    for kind, found in kinds.items():
        if getattr(arguments, kind):
            (header, function), seeds = found, getattr(arguments, kind)
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header), flush=True)
    for name in ["digits", *(arguments.sets if arguments.folder else [])]:
        for seed in seeds:
            print("| " + " | ".join(function(name, arguments.folder, seed)) + " |", flush=True)


if __name__ == "__main__":
    main()
