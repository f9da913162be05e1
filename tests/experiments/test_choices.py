"""What the maps point at, and attributes for data that has none."""

import numpy as np
import pytest
import torch

from magnet.data import Dataset, open_data
from magnet.data.attributes import Attributes
from magnet.errors import UserError
from magnet.experiments.choices import choose_attributes, choose_clusters
from magnet.experiments.derived import attributes_of, derived_attributes
from magnet.index import ClusterIndex


def index_of(places, labels, sizes):
    """Clusters at given places of a line, with so many members."""
    centres = torch.tensor(places, dtype=torch.float)[:, None]
    assignments = torch.arange(len(places)).repeat_interleave(torch.tensor(sizes))
    return ClusterIndex(centres, torch.tensor(labels), assignments, torch.tensor(1.0))


def test_the_classes_that_spread_widest_show_their_two_outermost_clusters():
    index = index_of([0, 1, 2, 10, 11, 19, 30, 31], [0, 0, 0, 1, 1, 1, 2, 2], [5] * 8)
    assert choose_clusters(index, pairs=1) == [3, 5]
    assert choose_clusters(index, pairs=2) == [3, 5, 0, 2]


def test_a_cluster_of_strays_is_not_shown():
    index = index_of([0, 1, 90, 10, 14], [0, 0, 0, 1, 1], [20, 20, 1, 20, 20])
    assert choose_clusters(index, pairs=1) == [3, 4]


def test_classes_of_one_cluster_show_the_largest():
    index = index_of([0, 1, 2, 3], [0, 1, 2, 3], [3, 9, 4, 8])
    assert choose_clusters(index, pairs=1) == [1, 3]
    assert choose_clusters(index, pairs=9) == [1, 3, 2, 0]


def test_the_attribute_that_varies_most_within_classes_comes_first():
    labels = np.repeat([0, 1], 50)
    class_like = (labels == 1).astype(np.float32)  # varies between classes only
    often = (np.arange(100) % 10 < 9).astype(np.float32)  # more than half have it
    half = (np.arange(100) % 2).astype(np.float32)
    same = half.copy()
    some = (np.arange(100) % 5 == 0).astype(np.float32)
    table = Attributes(
        ["c", "often", "half", "same", "some"], np.stack([class_like, often, half, same, some], 1), "image"
    )
    assert choose_attributes(table, labels) == [2, 4]
    nobody = Attributes(["x"], np.zeros((100, 1), np.float32), "image")
    assert choose_attributes(nobody, labels) == []


def test_attributes_of_classes_are_chosen_by_how_they_vary_between_classes():
    labels = np.repeat(np.arange(4), 5)
    values = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]], np.float32)[labels]
    assert choose_attributes(Attributes(["a", "b", "c"], values, "class"), labels)[0] == 2


def test_unknown_values_do_not_count():
    labels = np.zeros(40, int)
    values = np.full((40, 2), np.nan, np.float32)
    values[:4, 0] = [1, 0, 1, 0]
    values[:, 1] = np.arange(40) % 10 == 0
    assert choose_attributes(Attributes(["a", "b"], values, "image"), labels)[0] == 0


def test_attributes_derived_of_digits_are_facts_of_their_ink():
    data = open_data("digits")
    rows = data.indices("test").numpy()
    found, note = attributes_of(data, rows)
    assert "computed from the pixels" in note
    assert found.level == "image"
    ink = data.vectors[rows].reshape(-1, 8, 8).astype(float)
    place = np.arange(8)
    measured = {
        "bright": ink.sum(axis=(1, 2)),
        "left-heavy": -(ink.sum(axis=1) @ place) / ink.sum(axis=(1, 2)),
        "top-heavy": -(ink.sum(axis=2) @ place) / ink.sum(axis=(1, 2)),
    }
    for name, values in measured.items():
        has = found.values[:, found.names.index(name)] == 1
        assert 0.45 < has.mean() <= 0.5
        # Bytes of grey are a little coarser than the ink itself: all but ties at the median agree.
        assert (has == (values > np.median(values))).mean() > 0.99


def test_data_with_attributes_keeps_them_and_vectors_without_are_refused():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    table = (np.arange(40).reshape(20, 2) % 3 == 0).astype(np.float32)
    data = Dataset.from_arrays(X, y, attributes=table)
    found, note = attributes_of(data, np.array([1, 4]))
    np.testing.assert_array_equal(found.values, table[[1, 4]])
    assert note == ""
    with pytest.raises(UserError, match="no attributes and no pictures"):
        derived_attributes(Dataset.from_arrays(X, y), np.arange(3))
