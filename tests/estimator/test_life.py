"""After training: new classes, refusals, and files."""

import json
import pickle

import numpy as np
import pytest
from safetensors.numpy import save_file

from magnet import MagnetClassifier, NearestClustersClassifier
from magnet.errors import UserError
from magnet.experiments.tables import normal_in_ring
from magnet.files import read_tensors, write_tensors

KINDS = [MagnetClassifier, NearestClustersClassifier]


@pytest.fixture(scope="module")
def without_nines(digits):
    X, _, y, _ = digits
    return MagnetClassifier(random_state=0, n_clusters=4, max_iter=4).fit(X[y < 8], y[y < 8])


@pytest.fixture
def model(without_nines):
    return pickle.loads(pickle.dumps(without_nines))  # extend changes it


def test_extend_recognises_classes_never_trained_on(model, digits):
    X, X_test, y, y_test = digits
    components = model.components_.copy()
    known = model.score(X_test[y_test < 8], y_test[y_test < 8])
    assert model.extend(X[y >= 8], y[y >= 8]) is model
    assert list(model.classes_) == list(range(10))
    assert model.score(X_test[y_test >= 8], y_test[y_test >= 8]) > 0.9
    assert model.score(X_test[y_test < 8], y_test[y_test < 8]) > known - 0.05
    np.testing.assert_array_equal(model.components_, components)
    assert model.predict_proba(X_test).shape == (len(X_test), 10)


def test_extend_with_known_examples_moves_their_clusters_to_the_mean(blobs):
    X, y = blobs
    model = MagnetClassifier(random_state=0, n_clusters=1, refusal_rate=0.0).fit(X[:-10], y[:-10])
    reach = model.novelty_threshold_
    near = X[-10:][model.novelty(X[-10:]) <= reach]
    model.extend(near, np.full(len(near), 2))
    assert len(model.centres_) == 3
    np.testing.assert_allclose(model.centres_[2], model.transform(np.concatenate([X[80:-10], near])).mean(axis=0))
    model.extend([[50.0, 50, 50, 50]], [2])  # a new mode of a known class
    assert len(model.centres_) == 4
    assert model.predict([[49.0, 50, 50, 50]]) == [2]
    assert model.centre_counts_.sum() == 110 + len(near) + 1


def test_kernel_features_are_saved_with_the_estimator(tmp_path):
    X, y = normal_in_ring(0, 300)
    model = MagnetClassifier(random_state=0, n_clusters=1, max_iter=2).fit(X[:200], y[:200])
    assert model.kernel_width_ > 0
    assert model.landmarks_.shape == (200, 20)
    assert model.score(X[200:], y[200:]) > 0.9
    model.save(tmp_path / "model.safetensors")
    same = MagnetClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    linear = MagnetClassifier(random_state=0, n_clusters=1, max_iter=2, kernel_width=0).fit(X[:200], y[:200])
    assert linear.landmarks_.shape == (0, 20)
    assert linear.components_.shape[1] == 20


def test_extend_refuses_labels_of_another_type(model, digits):
    with pytest.raises(UserError, match="same type"):
        model.extend(digits[0][:2], ["eight", "nine"])


def test_novelty_is_higher_far_away_and_the_threshold_refuses_as_many_as_asked(model, digits):
    X_test, y_test = digits[1], digits[3]
    known, new = X_test[y_test < 8], X_test[y_test >= 8]
    assert model.is_novel(100 + 10 * known).mean() > 0.95
    far = MagnetClassifier(unit_length=False, max_iter=2, n_clusters=4, random_state=0).fit(digits[0], digits[2])
    assert far.novelty(100 + 10 * known).min() > far.novelty(known).max()
    assert model.is_novel(known).mean() < 0.1
    assert model.is_novel(new).mean() > 4 * model.is_novel(known).mean()
    np.testing.assert_array_equal(model.is_novel(known), model.novelty(known) > model.novelty_threshold_)
    distances = np.linalg.norm(model.transform(known)[:, None] - model.centres_, axis=2).min(axis=1)
    np.testing.assert_allclose(model.novelty(known), distances / np.sqrt(model.variance_))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "names",
    [["ant", "bée", "cat"], [-7, 0, 40], [1.0, 2.0, 7.0], [False, True, True], np.array(["x", "yy", "z"], object)],
    ids=["str", "int", "float", "bool", "object"],
)
def test_a_saved_estimator_comes_back_the_same_without_pickle(kind, names, blobs, tmp_path, monkeypatch):
    X, y = blobs
    names = np.asarray(names)
    weight = {name: 2.0 for name in names.tolist()}
    model = kind(random_state=0, class_weight=weight).fit(X, names[y])
    for name in ("load", "loads", "dump", "dumps"):
        monkeypatch.setattr(pickle, name, lambda *a, **k: pytest.fail("pickle was used"))
    model.save(tmp_path / "model.safetensors")
    copy = kind.load(tmp_path / "model.safetensors")
    assert copy.get_params() == model.get_params()
    assert copy.classes_.dtype == model.classes_.dtype
    assert type(copy.classes_[0]) is type(model.classes_[0])
    assert {k for k in vars(copy) if k.endswith("_")} == {k for k in vars(model) if k.endswith("_")}
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(copy.is_novel(X), model.is_novel(X))
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    copy.extend(X[:5], names[y][:5])


def test_wrong_files_are_refused_in_words(model, blobs, tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(UserError, match="no estimator at"):
        MagnetClassifier.load(path)
    path.write_bytes(b"not a tensor file")
    with pytest.raises(UserError, match="cannot be read"):
        MagnetClassifier.load(path)
    save_file({"x": np.zeros(2)}, path)
    with pytest.raises(UserError, match="not an estimator"):
        MagnetClassifier.load(path)
    model.save(path)
    with pytest.raises(UserError, match=r"holds a MagnetClassifier"):
        NearestClustersClassifier.load(path)
    tensors, text, _ = read_tensors(path, None)
    about = json.loads(text["estimator"])
    for changes, words in (
        ({"params": {"colour": "red"}}, "another version"),
        ({"params": {"max_iter": -3}}, "another version"),
        ({"values": about["values"] | {"predict": 3}}, "'predict', which is not known"),
        ({"values": about["values"] | {"__dict__": {}}}, "'__dict__', which is not known"),
        ({"values": about["values"] | {"variance_": -1.0}}, "variance_ is -1.0"),
        ({"values": about["values"] | {"variance_": float("nan")}}, "expected a finite number"),
        ({"values": about["values"] | {"n_features_in_": 3}}, "is float64 of shape"),
    ):
        write_tensors(path, tensors, text | {"estimator": json.dumps(about | changes)})
        with pytest.raises(UserError, match=words):
            MagnetClassifier.load(path)
    model.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(UserError, match="is damaged"):
        MagnetClassifier.load(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="cut short"):
        MagnetClassifier.load(path)


def test_labels_that_json_cannot_hold_are_refused_and_leave_no_file(blobs, tmp_path):
    X, y = blobs
    dates = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]").astype(object)
    model = NearestClustersClassifier(random_state=0).fit(X, y)
    model.classes_, model.centre_labels_ = dates, dates[model.centre_labels_]
    with pytest.raises(UserError, match="cannot be saved"):
        model.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_text_may_join_objects_that_are_text():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 3)), rng.normal(size=(20, 3)) + 8])
    y = np.array(["no"] * 20 + ["yes"] * 20, dtype=object)
    model = NearestClustersClassifier(random_state=0).fit(X, y)
    far = rng.normal(size=(5, 3)) - 20
    model.extend(far, ["certainly not"] * 5)
    assert set(model.predict(far)) == {"certainly not"}
