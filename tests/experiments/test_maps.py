"""The experiment that draws maps, end to end on digits and on small vectors."""

import json

import pytest
import torch

from experiments.small_labs import lab_of
from magnet.experiments import maps
from training.short_runs import write_vectors


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_all_maps_of_every_method_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(maps, "MOST", 150)
    drawn = maps.run(lab_of("digits", tmp_path / "results" / "maps", seeds=1))
    names = ["maps.png", "attribute-maps.png", "images-softmax.png", "images-semantic-triplet.png", "images-magnet.png"]
    assert [figure.name for figure in drawn.figures] == names
    for figure in drawn.figures:
        assert figure.stat().st_size > 20_000
    assert drawn.values["examples"] == 150
    (table,) = drawn.tables
    assert [row[0] for row in table.rows] == ["softmax", "semantic triplet", "Magnet"]
    for found in drawn.values["methods"].values():
        assert found["clusters"] == 20
        assert 0.1 < found["same_class_on_map"] <= 1
        assert len(found["shown"]) == 8
        assert len({shown["class"] for shown in found["shown"]}) == 4
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
