import numpy as np
import pytest

from magnet.data import Dataset
from magnet.errors import UserError

X, Y = np.eye(4), np.array([0, 1, 0, 1])


def test_categories_become_one_attribute_each():
    table = np.array([["red", "1"], ["blue", "2"], ["red", "1"], ["", "?"]])
    found = Dataset.from_arrays(X, Y, attributes=table, attribute_names=["colour", "size"]).attributes
    assert found.level == "image"
    assert found.names == ["colour=blue", "colour=red", "size=1", "size=2"]
    nan = np.nan
    np.testing.assert_array_equal(found.values, [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [nan] * 4])
    assert found.values.dtype == np.float32


def test_a_column_of_zeros_and_ones_stays_one_attribute():
    found = Dataset.from_arrays(X, Y, attributes=np.array([[0], [1], [np.nan], [1]])).attributes
    assert found.names == ["attribute 0"]
    np.testing.assert_array_equal(found.values[:, 0], [0, 1, np.nan, 1])


def test_other_numbers_are_categories():
    found = Dataset.from_arrays(X, Y, attributes=np.array([[3], [1], [3], [2]]), attribute_names=["legs"]).attributes
    assert found.names == ["legs=1", "legs=2", "legs=3"]


def test_class_attributes_reach_every_example_of_the_class():
    percent = np.array([[10.0, 50.0], [80.0, 49.9]])
    found = Dataset.from_arrays(X, Y, class_attributes=percent, attribute_names=["a", "b"]).attributes
    assert found.level == "class"
    np.testing.assert_array_equal(found.values, [[0, 1], [1, 0], [0, 1], [1, 0]])


def test_class_attributes_follow_the_listed_ids_when_a_class_is_empty():
    percent = np.array([[100.0], [0.0], [100.0]])
    found = Dataset.from_arrays(X, [1, 2, 1, 2], classes=["a", "b", "c"], class_attributes=percent).attributes
    np.testing.assert_array_equal(found.values[:, 0], [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"attributes": np.zeros((3, 2))}, r"attributes has shape \(3, 2\), expected \(4, A\)"),
        ({"attributes": np.zeros((4, 2)), "attribute_names": ["a"]}, "holds 1 names, but the table has 2"),
        ({"class_attributes": np.zeros((3, 2))}, "class_attributes has 3 rows, but there are 2 classes"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(others, message):
    with pytest.raises(UserError, match=message):
        Dataset.from_arrays(X, Y, **others)


def test_a_measurement_is_not_taken_for_a_category():
    n = 300
    with pytest.raises(UserError, match="300 different values"):
        Dataset.from_arrays(np.eye(n), np.arange(n) % 2, attributes=np.linspace(2, 3, n)[:, None])
