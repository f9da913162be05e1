"""What MagnetClassifier learns, chooses and promises."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from sklearn.model_selection import GridSearchCV, train_test_split

from magnet import MagnetClassifier, NearestClustersClassifier
from magnet.evaluation.errors import calibration_error


@pytest.fixture(scope="module")
def fitted(digits):
    return MagnetClassifier(random_state=0).fit(digits[0], digits[2])


def overlapping(counts, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    return 2.2 * np.eye(len(counts), 5)[y] + rng.normal(size=(len(y), 5)), y


def test_without_any_setting_it_is_no_worse_than_a_tuned_logistic_regression(fitted, digits):
    X, X_test, y, y_test = digits
    tuned = GridSearchCV(LogisticRegression(max_iter=2000), {"C": [0.001, 0.01, 0.1]}, cv=3).fit(X / 4, y)
    assert 1 - fitted.score(X_test, y_test) <= 1 - tuned.score(X_test / 4, y_test) + 0.015


def test_probabilities_are_calibrated(fitted, digits):
    proba = fitted.predict_proba(digits[1])
    right = fitted.classes_[proba.argmax(axis=1)] == digits[3]
    assert calibration_error(torch.tensor(proba.max(axis=1)), torch.tensor(right)) < 0.04


def test_the_learnt_attributes_fit_together(fitted, digits):
    k, features = fitted.components_.shape
    clusters = len(fitted.centres_)
    assert features == fitted.n_features_in_ == 64
    assert fitted.centres_.shape == (clusters, k)
    assert fitted.centre_labels_.shape == fitted.centre_counts_.shape == (clusters,)
    assert fitted.centre_counts_.sum() == len(digits[0])
    assert len(fitted.loss_curve_) == fitted.n_iter_ >= 1
    assert fitted.variance_ > 0
    raised = np.asarray(digits[1], dtype=float) ** fitted.power_
    whitened = (raised - fitted.mean_) @ fitted.components_.T
    assert fitted.unit_length_, "64 pixels: how much ink there is says little"
    equal = fitted.length_ * whitened / np.linalg.norm(whitened, axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.transform(digits[1]), equal @ fitted.map_.T, atol=1e-9)


def test_without_unit_length_the_map_is_affine(digits):
    X, X_test, y, _ = digits
    model = MagnetClassifier(unit_length=False, max_iter=1, random_state=0).fit(X[:300], y[:300])
    assert (model.length_, model.map_.shape) == (0, (0, 0))
    raised = np.asarray(X_test, dtype=float) ** model.power_
    np.testing.assert_allclose(model.transform(X_test), (raised - model.mean_) @ model.components_.T, atol=1e-9)


def test_training_improves_on_the_start(digits):
    X, X_test, y, y_test = digits
    losses = []
    for rate in (1e-9, 0.01):
        model = MagnetClassifier(
            learning_rate=rate, n_clusters=1, shrinkage=0.4, power=1, standardize=False, centres="means",
            validation_fraction=0.5, random_state=0,
        ).fit(X, y)  # fmt: skip
        proba = model.predict_proba(X_test)
        losses.append(-np.log(proba[np.arange(len(y_test)), y_test]).mean())
    assert losses[1] < 0.95 * losses[0]


def test_units_of_the_features_do_not_matter_much():
    X, y = load_wine(return_X_y=True)  # one feature in the thousands, others below one
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    assert MagnetClassifier(random_state=0).fit(X, y).score(X_test, y_test) > 0.92


def test_the_same_random_state_gives_the_same_model_and_leaves_torch_alone(blobs):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    models = [MagnetClassifier(random_state=s, n_clusters=2).fit(*blobs) for s in (3, 3, 4)]
    assert torch.equal(state, torch.get_rng_state())
    np.testing.assert_array_equal(models[0].centres_, models[1].centres_)
    assert models[0].loss_curve_ == models[1].loss_curve_ != models[2].loss_curve_


def test_a_warm_start_goes_on_where_the_last_fit_ended(digits):
    X, _, y, _ = digits
    model = MagnetClassifier(random_state=0, n_clusters=2, max_iter=3, warm_start=True).fit(X, y)
    first, n_iter = list(model.loss_curve_), model.n_iter_
    scaling = model.scaling_
    model.fit(X, y)
    assert model.loss_curve_[:n_iter] == first
    assert model.n_iter_ == n_iter + 3
    assert model.loss_curve_[-1] < first[0]
    assert model.scaling_ == scaling
    with pytest.raises(ValueError, match="is expecting 64 features"):
        model.fit(X[:, :9], y)


def test_a_cold_start_forgets(blobs):
    model = MagnetClassifier(random_state=0, max_iter=2).fit(*blobs)
    curve = list(model.loss_curve_)
    assert model.fit(*blobs).loss_curve_ == curve


def test_early_stopping_takes_the_best_held_out_iteration():
    X, y = overlapping([100, 100, 100])
    model = MagnetClassifier(random_state=0, n_clusters=1, max_iter=40, n_iter_no_change=2, learning_rate=0.1).fit(X, y)
    curve = model.validation_loss_curve_
    assert model.n_iter_ == np.argmin(curve) + 1
    assert len(curve) <= model.n_iter_ + 2 < 40
    assert MagnetClassifier(random_state=0, max_iter=6, n_clusters=1, early_stopping=False).fit(X, y).n_iter_ == 6


def test_without_a_held_out_part_it_still_works(blobs):
    model = MagnetClassifier(random_state=0, validation_fraction=0.0).fit(*blobs)
    assert model.validation_loss_curve_ == []
    assert model.score(*blobs) > 0.95
    assert np.isfinite(model.novelty_threshold_)


@pytest.mark.parametrize("kind", [MagnetClassifier, NearestClustersClassifier])
def test_class_weight_raises_the_recall_of_the_minority(kind):
    X, y = overlapping([400, 25])
    X_test, y_test = overlapping([200, 200], seed=1)
    recall = []
    for weight in (None, "balanced", {0: 1, 1: 200}):
        model = kind(random_state=0, n_clusters=1, validation_fraction=0.3, class_weight=weight)
        if kind is MagnetClassifier:
            model.set_params(max_iter=3, standardize=False)
        recall.append(recall_score(y_test, model.fit(X, y).predict(X_test)))
    assert recall[0] + 0.1 < recall[1] < recall[2]


def test_progress_is_printed_only_when_asked_for(blobs, capsys):
    MagnetClassifier(random_state=0, max_iter=2).fit(*blobs)
    assert capsys.readouterr().out == ""
    MagnetClassifier(random_state=0, max_iter=2, verbose=True).fit(*blobs)
    assert "held-out log-loss" in capsys.readouterr().out


def test_more_features_than_examples_are_no_trouble():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = rng.normal(size=(80, 300))
    X[:, :20] += 3 * y[:, None]
    X[:, 7] = 1e6  # constant
    model = MagnetClassifier(random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9


def test_classes_of_one_point_each_are_survived():
    X = np.repeat(np.eye(3), 4, axis=0)
    y = np.repeat([0, 1, 2], 4)
    assert MagnetClassifier(random_state=0).fit(X, y).score(X, y) == 1


@pytest.mark.parametrize("kind", [MagnetClassifier, NearestClustersClassifier])
@pytest.mark.parametrize("count", [12, 200])
def test_inputs_that_are_all_the_same_are_refused(kind, count):
    with pytest.raises(ValueError, match=f"all {count} rows of X are the same"):
        kind(random_state=0).fit(np.full((count, 2), 0.1), np.arange(count) % 3)


def test_differences_at_rounding_level_are_no_features():
    X, y = overlapping([50, 50])
    with pytest.raises(ValueError, match="no feature varies by more than 1e-12 of its largest value"):
        MagnetClassifier(random_state=0).fit(X + 1e15, y)


@pytest.mark.parametrize("kind", [MagnetClassifier, NearestClustersClassifier])
def test_inputs_whose_squares_overflow_are_named(kind):
    X, y = overlapping([20, 20])
    with pytest.raises(ValueError, match=r"X holds .*e\+30\d, whose squares overflow"):
        kind(random_state=0).fit(X * 1e300, y)


def test_nearest_clusters_alone_is_a_good_classifier(digits):
    X, X_test, y, y_test = digits
    model = NearestClustersClassifier(random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.95
    assert model.centres_.shape[1] == 64
    one = NearestClustersClassifier(1).fit(X, y)
    np.testing.assert_allclose(one.centres_[4], X[y == 4].mean(axis=0))
