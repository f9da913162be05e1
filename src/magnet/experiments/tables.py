"""Ten small tables by cross-validation: MagnetClassifier without settings beside classifiers of scikit-learn.

Four tables come with scikit-learn; six are drawn by their published formulas, from modes that are known. Every
classifier gets the same folds. The others scale the features and choose one or two settings by three-fold
cross-validation inside the training folds; MagnetClassifier chooses all of its own there. Ranks are those of the mean
errors, equal ones sharing theirs: among the metric learners and the linear models, and among all.
"""

import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import rankdata
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification, make_moons
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from magnet.data import open_data
from magnet.errors import UserError, check_at_least, did_you_mean
from magnet.estimator import MagnetClassifier
from magnet.experiments.logistic import tuned_logistic
from magnet.experiments.outcome import Outcome, Table, spread
from magnet.votes import Examples

FOLDS = 5
INNER = 3  # folds inside a training part, by which settings are chosen
ROWS = 1000  # of a table that is drawn
KINDS = {"Magnet", "logistic regression", "LDA", "kNN", "NCA + kNN"}  # metric learners and linear models
Array = NDArray[Any]
Rows = tuple[Array, Array]  # X (n, d) and y (n,)


def corners(seed: int, rows: int = ROWS) -> Rows:
    """Parity: a mode of unit variance at each corner of a cube with edges of 4, two classes in turn, seven noises."""
    draw = np.random.default_rng(seed)
    corner = draw.integers(0, 2, (rows, 3))
    X = draw.standard_normal((rows, 10))
    X[:, :3] += 4 * corner
    return X, corner.sum(axis=1) % 2


def waveform(seed: int, rows: int = ROWS) -> Rows:
    """Breiman et al. 1984: a random mixture of two of three triangles, with noise, at 21 places; three classes."""
    draw = np.random.default_rng(seed)
    triangles = np.maximum(6 - np.abs(np.arange(1, 22) - np.array([[7], [15], [11]])), 0)
    y = draw.integers(0, 3, rows)
    first, second = np.array([[0, 1], [0, 2], [1, 2]])[y].T
    share = draw.random((rows, 1))
    X = share * triangles[first] + (1 - share) * triangles[second] + draw.standard_normal((rows, 21))
    return X, y


def two_normals(seed: int, rows: int = ROWS) -> Rows:
    """Breiman 1996, twonorm: two unit normals in 20 dimensions, 2 / sqrt(20) above and below zero in each."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 2, rows)
    return draw.standard_normal((rows, 20)) + 2 / np.sqrt(20) * (2 * y[:, None] - 1), y


def normal_in_ring(seed: int, rows: int = ROWS) -> Rows:
    """Breiman 1996, ringnorm: a unit normal at 1 / sqrt(20) in 20 dimensions, inside one with twice its deviation."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 2, rows)
    X = draw.standard_normal((rows, 20))
    return np.where(y[:, None] == 0, 2 * X, X + 1 / np.sqrt(20)), y


def modes(seed: int, rows: int = ROWS) -> Rows:
    """Three classes of four modes each at corners of a cube in eight dimensions, twelve mixtures and noises beside."""
    X, y = make_classification(
        rows, 20, n_informative=8, n_redundant=4, n_classes=3, n_clusters_per_class=4, random_state=seed
    )
    return X, y


def moons(seed: int, rows: int = ROWS) -> Rows:
    """Two half circles that reach into each other, with noise."""
    X, y = make_moons(rows, noise=0.25, random_state=seed)
    return X, y


TABLES: dict[str, Callable[[int], Rows]] = {
    "iris": lambda seed: load_iris(return_X_y=True),
    "wine": lambda seed: load_wine(return_X_y=True),
    "breast cancer": lambda seed: load_breast_cancer(return_X_y=True),
    "digits": lambda seed: load_digits(return_X_y=True),
    "modes": modes,
    "corners": corners,
    "waveform": waveform,
    "twonorm": two_normals,
    "ringnorm": normal_in_ring,
    "moons": moons,
}


class TunedLogistic:
    """The logistic regression of all experiments as a classifier that tunes itself when it is fitted."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Array, y: Array) -> Pipeline:
        """Choose the settings by cross-validation of X (n, d) and y (n,), then fit to all of them."""
        return tuned_logistic(Examples(torch.from_numpy(X), torch.from_numpy(y)), seed=self.seed).fit(X, y)


def classifiers(seed: int, cache: str) -> dict[str, Any]:
    """The classifiers by their names, each with its small grid; ``cache`` is a folder in which NCA's maps are kept."""

    def tuned(grid: dict[str, Any], *steps: tuple[str, Any]) -> GridSearchCV:
        return GridSearchCV(Pipeline([("scale", StandardScaler()), *steps], memory=cache), grid, cv=INNER)

    neighbours = {"rule__n_neighbors": [1, 3, 5, 9, 15, 25]}
    nca = NeighborhoodComponentsAnalysis(random_state=seed)
    return {
        "Magnet": MagnetClassifier(random_state=seed),
        "logistic regression": TunedLogistic(seed),
        "LDA": tuned({"rule__shrinkage": [0.001, 0.1, 0.4, 0.7]}, ("rule", LinearDiscriminantAnalysis(solver="lsqr"))),
        "kNN": tuned(neighbours, ("rule", KNeighborsClassifier())),
        "NCA + kNN": tuned(neighbours, ("nca", nca), ("rule", KNeighborsClassifier())),
        "random forest": tuned(
            {"rule__max_features": ["sqrt", 0.5]}, ("rule", RandomForestClassifier(200, random_state=seed))
        ),
        "gradient boosting": tuned(
            {"rule__max_leaf_nodes": [8, 31], "rule__learning_rate": [0.05, 0.1]},
            ("rule", HistGradientBoostingClassifier(early_stopping=False, random_state=seed)),
        ),
    }


def run(
    console: Console,
    *,
    tables: Iterable[str] = (),
    repeats: int = 1,
    seed: int = 0,
    choose: Callable[[int, str], dict[str, Any]] = classifiers,
) -> Outcome:
    """Cross-validate every classifier on every table.

    Args:
        console: prints a line for each table that is done.
        tables: names of `TABLES`, or files of vectors and labels of your own; none: the ten.
        repeats: how often the data are drawn and divided into folds, each time with the next seed.
        seed: the first.
        choose: the classifiers, by a seed and a folder for a cache.
    """
    check_at_least("seeds", repeats, 1)
    sources = {Path(name).stem: TABLES.get(name) or _own(name) for name in tables or TABLES}
    values: dict[str, Any] = {}
    for name, source in sources.items():
        begun = time.monotonic()
        found: dict[str, Any] = {}
        for now in range(seed, seed + repeats):
            X, y = source(now)
            for classifier, several in _cross_validate(X, y, now, choose).items():
                for key, figures in several.items():
                    found.setdefault(classifier, {}).setdefault(key, []).extend(figures)
        values[name] = found
        console.print(f"[dim]{name}: {len(X):,} x {X.shape[1]}, {time.monotonic() - begun:.0f} s[/]", highlight=False)
    names = list(next(iter(values.values())))
    errors = np.array([[np.mean(values[table][name]["error"]) for name in names] for table in values])
    return Outcome([_errors(values, names, repeats), _ranks(values, names, errors)], values=values)


def _own(source: str) -> Callable[[int], Rows]:
    """The rows of a file, all of them: what is said there of its parts does not count here."""
    if not Path(source).exists():
        hint = did_you_mean(source, TABLES)
        raise UserError(f"--tables: there is no table or file {source!r}{hint} Tables: {', '.join(TABLES)}")
    data = open_data(source)
    if data.kind != "vectors":
        raise UserError(f"--tables takes tables of numbers; {source} holds {data.kind}")
    least = int(np.bincount(data.labels.numpy()).min())
    if least < FOLDS:
        raise UserError(
            f"--tables {source}: a class has {least} example{'s' * (least > 1)}; {FOLDS} folds need {FOLDS} of each"
        )
    X = data.batch(np.arange(len(data))).flatten(1).double().numpy()
    return lambda seed: (X, data.labels.numpy())


def _cross_validate(X: Array, y: Array, seed: int, choose: Any) -> dict[str, dict[str, list[float]]]:
    """The error and the processor seconds of every classifier on each fold."""
    found: dict[str, dict[str, list[float]]] = {}
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y):
        with TemporaryDirectory() as cache, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of solvers that were stopped, and of classes with few examples
            for name, model in choose(seed, cache).items():
                begun = time.process_time()
                error = 1 - float(model.fit(X[train], y[train]).score(X[test], y[test]))
                kept = found.setdefault(name, {"error": [], "cpu_seconds": []})
                kept["error"].append(error)
                kept["cpu_seconds"].append(time.process_time() - begun)
    return found


def _errors(values: dict[str, Any], names: list[str], repeats: int) -> Table:
    return Table(
        f"Error in %, {FOLDS}-fold cross-validation",
        ["table", *names],
        [[table, *(spread(found[name]["error"]) for name in names)] for table, found in values.items()],
        f"Mean ± standard deviation of {FOLDS * repeats} folds. Every classifier chooses its settings inside the "
        "training folds.",
    )


def _ranks(values: dict[str, Any], names: list[str], errors: Array) -> Table:
    """Mean ranks of ``errors`` (tables, classifiers), where equal errors share theirs."""
    kin = [place for place, name in enumerate(names) if name in KINDS]
    among_kin, among_all = (np.atleast_2d(rankdata(part.round(9), axis=1)) for part in (errors[:, kin], errors))
    rows = []
    for place, name in enumerate(names):
        seconds = [np.mean(found[name]["cpu_seconds"]) for found in values.values()]
        own = among_kin[:, kin.index(place)] if place in kin else None
        last = int((errors[:, place] >= errors.max(axis=1)).sum())
        rows.append(
            [
                name, "" if own is None else f"{own.mean():.1f}", f"{among_all[:, place].mean():.1f}",
                f"{100 * errors[:, place].mean():.1f}", str(last), f"{np.mean(seconds):.1f}",
            ]
        )  # fmt: skip
    return Table(
        f"Ranks over {len(values)} table{'s' * (len(values) > 1)}",
        ["classifier", "metric and linear", "all", "error, %", "last", "seconds"],
        rows,
        "Means over tables of the ranks of the mean errors, 1 is the best: among the metric learners and the linear "
        "models, and among all. Error: the mean over tables. Last: on how many tables. Seconds of a processor core for "
        "a fit, the choice of settings included.",
    )  # fmt: skip
