"""The experiment that draws maps, end to end on digits and on small vectors, and what the maps point at."""

import json

import numpy as np
import pytest
import torch

from experiments.small_labs import lab_of
from magnet.data.listings import Attributes
from magnet.experiments import maps
from magnet.experiments.maps import choose_attributes, choose_shown
from magnet.index import ClusterIndex
from training.short_runs import write_vectors


@pytest.mark.usefixtures("few_digits")
def test_all_maps_of_every_method_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(maps, "MOST", 100)
    drawn = maps.run(lab_of("digits", tmp_path / "results" / "maps", seeds=1))
    names = ["maps.png", "attribute-maps.png", "images-softmax.png", "images-semantic-triplet.png", "images-magnet.png"]
    assert [figure.name for figure in drawn.figures] == names
    for figure in drawn.figures:
        assert figure.stat().st_size > 20_000
    assert drawn.values["examples"] == 100
    (table,) = drawn.tables
    assert [row[0] for row in table.rows] == ["softmax", "semantic triplet", "Magnet"]
    for found in drawn.values["methods"].values():
        assert found["clusters"] in (10, 20, 40, 80, 160), "as many for each digit as the start chose"
        assert 0.1 < found["same_class_on_map"] <= 1
        assert len(found["shown"]) == 8
        # Two clusters of each of four digits; where the start chose one cluster for each digit, one of each of eight.
        assert len({shown["class"] for shown in found["shown"]}) == (8 if found["clusters"] == 10 else 4)
        assert all(len(shown["closest"]) == 4 for shown in found["shown"])
    json.dumps(drawn.values)


def test_maps_of_vectors_say_what_is_left_out(tmp_path):
    lab = lab_of(write_vectors(tmp_path / "v.npz"), tmp_path / "results" / "maps", seeds=1)
    outcome = maps.run(lab)
    assert [figure.name for figure in outcome.figures] == ["maps.png"]
    assert "No map of attributes" in outcome.tables[0].caption
    assert "No image maps" in outcome.tables[0].caption


def test_a_large_test_part_is_drawn_from_the_same_for_every_method():
    rows = torch.arange(100, 200)
    some = maps.draw_rows(rows, 30)
    assert len(some) == 30
    assert (some[1:] > some[:-1]).all()
    assert torch.isin(some, rows).all()
    assert torch.equal(maps.draw_rows(rows, 30), some)
    assert torch.equal(maps.draw_rows(rows, 100), rows)


def index_of(places, labels, sizes):
    """Clusters at given places of a line, with so many members."""
    centres = torch.tensor(places, dtype=torch.float)[:, None]
    assignments = torch.arange(len(places)).repeat_interleave(torch.tensor(sizes))
    return ClusterIndex(centres, torch.tensor(labels), assignments, torch.tensor(1.0))


def test_the_classes_that_spread_widest_show_their_two_outermost_clusters():
    index = index_of([0, 1, 2, 10, 11, 19, 30, 31], [0, 0, 0, 1, 1, 1, 2, 2], [5] * 8)
    assert choose_shown(index, pairs=1) == [3, 5]
    assert choose_shown(index, pairs=2) == [3, 5, 0, 2]


def test_a_cluster_of_strays_is_not_shown():
    index = index_of([0, 1, 90, 10, 14], [0, 0, 0, 1, 1], [20, 20, 1, 20, 20])
    assert choose_shown(index, pairs=1) == [3, 4]


def test_classes_of_one_cluster_show_the_largest():
    index = index_of([0, 1, 2, 3], [0, 1, 2, 3], [3, 9, 4, 8])
    assert choose_shown(index, pairs=1) == [1, 3]
    assert choose_shown(index, pairs=9) == [1, 3, 2, 0]


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
