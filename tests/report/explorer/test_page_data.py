import base64
import io

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_wine

from magnet.commands import terminal
from magnet.data import Dataset, open_data
from magnet.report import html
from magnet.report.explorer import page_data
from magnet.report.explorer.page_data import SIDE, encode, encode_bits, encode_positions, pictures
from magnet.runs.run import Run


def quiet(done, total):
    pass


def unpack(encoded, kind):
    return np.frombuffer(base64.b64decode(encoded["base64"]), kind)


def test_images_lie_on_a_sheet_in_the_order_of_the_rows(photos):
    data = Run(photos).data
    rows = np.array([11, 0, 6, 3])
    found = pictures(data, rows, quiet)
    [sheet] = found["sheets"]
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(sheet.split(",")[1]))).convert("RGB")).astype(int)
    for i, row in enumerate(rows):
        red, _, blue = image[SIDE // 2, i * SIDE + SIDE // 2]
        assert (red > blue) == (data.classes[data.labels[row]] == "red")


def test_vectors_of_a_square_length_are_pictures_unless_their_features_have_names():
    digits = open_data("digits")
    found = pictures(digits, np.arange(5), quiet)
    assert (found["kind"], found["side"]) == ("squares", 8)
    assert np.allclose(unpack(found["pixels"], "u1").reshape(5, 64) / 255, digits.vectors[:5], atol=0.003)
    names = [f"pixel {i}" for i in range(64)]
    named = Dataset.from_arrays(digits.vectors, digits.labels.numpy(), feature_names=np.array(names))
    assert pictures(named, np.arange(5), quiet)["kind"] == "features"


def test_a_table_is_kept_with_its_true_values_and_the_names_of_its_features():
    wine = load_wine()
    data = Dataset.from_arrays(wine.data, wine.target, feature_names=np.array(wine.feature_names))
    rows = np.array([20, 100, 3])
    found = pictures(data, rows, quiet)
    assert found["names"] == list(wine.feature_names)
    assert found["columns"] == list(range(13))
    values = unpack(found["values"], "<f4").reshape(3, 13)
    np.testing.assert_array_equal(values, wine.data[rows].astype(np.float32))
    np.testing.assert_array_equal(unpack(found["low"], "<f4"), values.min(axis=0))
    np.testing.assert_array_equal(unpack(found["high"], "<f4"), values.max(axis=0))


def test_of_a_wide_table_some_columns_are_kept_whatever_its_width():
    wide = Dataset.from_arrays(np.random.default_rng(0).normal(size=(20, 1000)), np.arange(20) % 2)
    found = pictures(wide, np.arange(20), quiet)
    assert (found["width"], found["names"]) == (1000, None)
    assert len(found["columns"]) == 32
    assert (found["columns"][0], found["columns"][-1]) == (0, 999)
    expected = wide.vectors[:, found["columns"]].astype(np.float32)
    np.testing.assert_array_equal(unpack(found["values"], "<f4").reshape(20, 32), expected)


@pytest.mark.parametrize("error", [0.0625, 0.1625, 0.0004, 0.0])
def test_an_error_reads_the_same_on_the_page_in_the_report_and_in_the_terminal(photos, monkeypatch, error):
    found = {"split": "test", "n": 240, "rule": "knc", "plain": {"knc": {"error": error}}}
    monkeypatch.setattr(page_data, "plain_errors", lambda run: found)
    shown = page_data.describe_error(Run(photos))
    assert shown == {"error": terminal.percent(error), "n": 240, "images": True}
    assert shown["error"] == html.percent(error)


def test_arrays_come_back():
    assert unpack(encode(np.array([[1, -1], [70000, 3]]), "i4"), "<i4").tolist() == [1, -1, 70000, 3]
    assert unpack(encode_bits(np.array([1, 0, 0, 0, 0, 0, 0, 0, 1], bool)), "u1").tolist() == [128, 128]


def test_maps_share_one_square_and_keep_their_shape():
    one = np.array([[0.0, 0.0], [10.0, 0.0]]), np.array([[5.0, 5.0]])
    two = np.array([[0.0, 2.0]]), np.array([[10.0, 2.0]])
    (a, b), (c, _) = encode_positions([one, two])
    first, centre, later = (unpack(part, "<u2").astype(int).reshape(-1, 2) for part in (a, b, c))
    unit = (first[1, 0] - first[0, 0]) / 10
    assert abs(centre[0, 1] - first[0, 1] - 5 * unit) <= 1
    assert later[0, 0] == first[0, 0]
    assert abs(later[0, 1] - first[0, 1] - 2 * unit) <= 1
