import base64
import io

import numpy as np
from PIL import Image
from sklearn.datasets import load_wine

from magnet.data import Dataset, open_data
from magnet.report.explorer import looks as module
from magnet.report.explorer.build import Seen, looked_at_most
from magnet.report.explorer.examples import contrast, predict
from magnet.report.explorer.looks import LARGE, SIDE, looks
from magnet.report.explorer.snapshots import evaluated_moment
from magnet.runs.run import Run


def quiet(done, total):
    pass


def unpack(encoded, kind):
    return np.frombuffer(base64.b64decode(encoded["base64"]), kind)


def opened(address):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))).convert("RGB")).astype(int)


def test_images_lie_on_a_sheet_in_the_order_of_the_rows(photos):
    data = Run(photos).data
    rows = np.array([11, 0, 6, 3])
    found = looks(data, rows, [], quiet)
    [sheet] = found["sheets"]
    image = opened(sheet)
    for i, row in enumerate(rows):
        red, _, blue = image[SIDE // 2, i * SIDE + SIDE // 2]
        assert (red > blue) == (data.classes[data.labels[row]] == "red")


def test_vectors_of_a_square_length_are_pictures_unless_their_features_have_names():
    digits = open_data("digits")
    found = looks(digits, np.arange(5), [], quiet)
    assert (found["kind"], found["side"]) == ("squares", 8)
    assert np.allclose(1 - unpack(found["pixels"], "u1").reshape(5, 64) / 255, digits.vectors[:5], atol=0.003)
    names = [f"pixel {i}" for i in range(64)]
    named = Dataset.from_arrays(digits.vectors, digits.labels.numpy(), feature_names=np.array(names))
    assert looks(named, np.arange(5), [], quiet)["kind"] == "features"


def test_a_table_is_kept_with_its_true_values_and_the_names_of_its_features():
    wine = load_wine()
    data = Dataset.from_arrays(wine.data, wine.target, feature_names=np.array(wine.feature_names))
    rows = np.array([20, 100, 3])
    found = looks(data, rows, [], quiet)
    assert found["names"] == list(wine.feature_names)
    assert found["columns"] == list(range(13))
    values = unpack(found["values"], "<f4").reshape(3, 13)
    np.testing.assert_array_equal(values, wine.data[rows].astype(np.float32))
    np.testing.assert_array_equal(unpack(found["low"], "<f4"), values.min(axis=0))
    np.testing.assert_array_equal(unpack(found["high"], "<f4"), values.max(axis=0))


def test_of_a_wide_table_some_columns_are_kept_whatever_its_width():
    wide = Dataset.from_arrays(np.random.default_rng(0).normal(size=(20, 1000)), np.arange(20) % 2)
    found = looks(wide, np.arange(20), [], quiet)
    assert (found["width"], found["names"]) == (1000, None)
    assert len(found["columns"]) == 32
    assert (found["columns"][0], found["columns"][-1]) == (0, 999)
    expected = wide.vectors[:, found["columns"]].astype(np.float32)
    np.testing.assert_array_equal(unpack(found["values"], "<f4").reshape(20, 32), expected)


def test_large_pictures_are_those_that_come_first_as_long_as_there_is_room(photos, monkeypatch):
    data = Run(photos).data
    rows = np.arange(12)
    found = looks(data, rows, [5, 0, 7], quiet)["large"]
    assert unpack(found["ids"], "<i4").tolist() == [5, 0, 7]
    for place, address in zip([5, 0, 7], found["sheets"], strict=True):
        image = opened(address)
        assert image.shape == (LARGE, LARGE, 3)
        assert (image[80, 80, 0] > image[80, 80, 2]) == (data.classes[data.labels[place]] == "red")
    monkeypatch.setattr(module, "LARGE_BYTES", len(base64.b64decode(found["sheets"][0].split(",")[1])) + 1)
    assert len(looks(data, rows, [5, 0, 7], quiet)["large"]["sheets"]) == 1


def test_small_images_keep_their_size_and_need_no_large_ones(fashion):
    found = looks(Run(fashion).data, np.arange(3), [0], quiet)
    assert (found["side"], found["large"]) == (28, None)


def test_doubtful_examples_their_company_and_exemplars_are_looked_at_first(digits_magnet):
    run = Run(digits_magnet)
    rows = np.arange(0, 1797, 6)
    labels = run.data.labels[rows]
    found = predict(run, rows)
    end, doubtful = evaluated_moment(run, found, labels), contrast(found, labels, most=10)
    order = looked_at_most([Seen(run, found, [end], [(np.empty(0), np.empty(0))], doubtful)], len(rows))
    assert sorted(order) == list(range(len(rows)))
    company = {*doubtful.ids.tolist(), *doubtful.of_own.flatten().tolist(), *doubtful.of_other.flatten().tolist()} - {
        -1
    }
    assert set(order[: len(company)]) == company
