"""Both estimators keep to scikit-learn's conventions: its own checks, and its tools around them."""

import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from magnet import MagnetClassifier, NearestClustersClassifier

KINDS = [MagnetClassifier, NearestClustersClassifier]


@parametrize_with_checks([MagnetClassifier(), NearestClustersClassifier()])
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def test_the_check_that_needs_array_api_support_passes_too():
    # SciPy reads the switch when it is imported, so scikit-learn skips this one above.
    program = """
from sklearn.utils.estimator_checks import estimator_checks_generator
from magnet import MagnetClassifier, NearestClustersClassifier
for kind in (MagnetClassifier, NearestClustersClassifier):
    checks = [(e, c) for e, c in estimator_checks_generator(kind()) if c.func.__name__ == "check_array_api_input"]
    assert checks
    for estimator, check in checks:
        check(estimator)
"""
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=environment, check=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "names",
    [
        ["ant", "bee", "cat"],
        [-7, 0, 40],
        [0.5, 1.5, 2.5],
        np.array(["x", "yy", "z"], dtype=object),
        np.array([3, 10, 200], dtype=object),
        np.array([1, 2, 250], dtype=np.uint8),
    ],
    ids=["strings", "negative", "floats", "objects", "integer-objects", "bytes"],
)
def test_labels_of_any_kind_come_back_as_given(kind, names, blobs):
    X, y = blobs
    names = np.asarray(names)
    if names.dtype.kind == "f":  # continuous labels are regression targets, as everywhere in scikit-learn
        with pytest.raises(ValueError, match="label type"):
            kind().fit(X, names[y])
        return
    model = kind(random_state=0).fit(X, names[y])
    assert model.classes_.dtype == names.dtype
    assert set(model.centre_labels_) <= set(names)
    assert (model.predict(X) == names[y]).mean() > 0.95


@pytest.mark.parametrize("kind", KINDS)
def test_booleans_are_labels(kind, blobs):
    X, y = blobs
    model = kind(random_state=0).fit(X, y == 1)
    assert model.predict(X).dtype == bool
    assert model.score(X, y == 1) > 0.95


@pytest.mark.parametrize("kind", KINDS)
def test_one_class_is_refused_by_name(kind, blobs):
    with pytest.raises(ValueError, match="one class only"):
        kind().fit(blobs[0], np.zeros(len(blobs[0]), dtype=int))


def test_float32_gives_float32_and_the_same_answers(blobs):
    X, y = blobs
    X = X.astype(np.float32)  # so that both see the same numbers
    single, double = (MagnetClassifier(random_state=0).fit(x, y) for x in (X, X.astype(float)))
    assert single.transform(X).dtype == np.float32
    assert double.transform(X.astype(float)).dtype == np.float64
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X.astype(float)))


def test_dataframes_give_names_in_and_out(blobs):
    X = pd.DataFrame(blobs[0], columns=list("abcd"))
    y = pd.Series(np.array(["p", "q", "r"])[blobs[1]])
    model = MagnetClassifier(random_state=0, n_components=2).set_output(transform="pandas").fit(X, y)
    assert list(model.feature_names_in_) == list("abcd")
    assert list(model.get_feature_names_out()) == ["magnetclassifier0", "magnetclassifier1"]
    assert list(model.transform(X).columns) == list(model.get_feature_names_out())
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[list("badc")])


@pytest.mark.parametrize("kind", KINDS)
def test_copies_answer_alike(kind, blobs, tmp_path):
    X, y = blobs
    model = kind(random_state=0).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    copies = [
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
        clone(model).fit(X, y),
    ]
    for copy in copies:
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


def test_it_works_inside_pipelines_searches_and_cross_validation(blobs):
    X, y = blobs
    quick = MagnetClassifier(random_state=0, shrinkage=0.4, standardize=False, max_iter=1)
    steps = make_pipeline(StandardScaler(), quick)
    assert cross_val_score(steps, X, y, cv=3).mean() > 0.95
    search = GridSearchCV(steps, {"magnetclassifier__n_clusters": [1, 2]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.95
    # As a transformer in front of another classifier.
    steps = make_pipeline(quick, NearestClustersClassifier(random_state=0))
    assert steps.fit(X, y).score(X, y) > 0.95


def test_no_file_is_written(blobs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    MagnetClassifier(random_state=0, max_iter=2).fit(*blobs)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("n_clusters", 0),
        ("n_clusters", "many"),
        ("scaling", -1.0),
        ("validation_fraction", 1.5),
        ("shrinkage", "none"),
        ("max_iter", 2.5),
        ("neighbours", True),
        ("device", "toaster"),
    ],
)
def test_a_wrong_setting_is_named_when_fitting(setting, value, blobs):
    model = MagnetClassifier(**{setting: value})
    with pytest.raises(ValueError, match=f"The '{setting}' parameter .*must"):
        model.fit(*blobs)
