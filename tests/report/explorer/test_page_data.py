import base64
from pathlib import Path

import numpy as np
import pytest
import torch

from magnet.errors import percent
from magnet.report.explorer import build, page_data
from magnet.report.explorer.build import build_explorer
from magnet.report.explorer.page_data import encode, encode_bits, encode_ids, encode_positions, find_originals
from magnet.runs.run import Run


def unpack(encoded, kind):
    return np.frombuffer(base64.b64decode(encoded["base64"]), kind)


@pytest.mark.parametrize("error", [0.0625, 0.1625, 0.0004, 0.0])
def test_an_error_reads_on_the_page_as_in_the_report_and_in_the_terminal(photos, monkeypatch, error):
    found = {"split": "test", "n": 240, "rule": "knc", "plain": {"knc": {"error": error}}}
    monkeypatch.setattr(page_data, "plain_errors", lambda run: found)
    shown = page_data.describe_errors(Run(photos))
    rules = [{"name": "kNC", "error": percent(error), "own": True}]
    assert shown == {"error": percent(error), "n": 240, "images": True, "rules": rules}


def test_arrays_come_back():
    assert unpack(encode(np.array([[1, -1], [70000, 3]]), "i4"), "<i4").tolist() == [1, -1, 70000, 3]
    assert encode_ids(np.array([3]), 65536)["type"] == "Uint16Array"
    assert encode_ids(np.array([3]), 65537)["type"] == "Int32Array"
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


def test_originals_are_found_from_a_page_near_the_data_and_not_from_far_away(photos, digits_magnet):
    data = Run(photos).data
    assert find_originals(data, photos.parent / "page.html") == "./photos/"
    assert find_originals(data, photos.parent / "pages" / "page.html") == "./../photos/"
    assert find_originals(data, Path("/a/b/c/d/e/page.html")) == ""
    assert find_originals(Run(digits_magnet).data, Path("page.html")) == ""


def test_training_examples_that_are_not_shown_lie_between_the_nearest_that_are(digits_magnet):
    explorer = build_explorer([Run(digits_magnet)], examples=300, seed=0, say=lambda what: lambda done, total: None)
    places, labels = explorer.seen[0].crowd
    run, (moment, (positions, _)) = explorer.seen[0].run, explorer.seen[0].end
    shown = set(explorer.rows.tolist())
    hidden = [i for i, row in enumerate(run.train.tolist()) if row not in shown]
    assert len(places) == len(labels) == len(hidden)
    near = torch.cdist(run.references[hidden[7]][None], moment.representations)[0].argsort()[:3]
    corners = positions[near.numpy()]
    assert (places[7] >= corners.min(axis=0) - 1e-6).all()
    assert (places[7] <= corners.max(axis=0) + 1e-6).all()
    crowd = explorer.data["runs"][0]["crowd"]
    assert unpack(crowd["positions"], "<u2").shape == (2 * len(hidden),)
    assert unpack(crowd["labels"], "<u2").tolist() == [int(run.labels[i]) for i in hidden]


def test_of_very_many_that_are_not_shown_a_sample_is_placed(digits_magnet, monkeypatch):
    monkeypatch.setattr(build, "MOST_CROWD", 100)
    explorer = build_explorer([Run(digits_magnet)], examples=300, seed=0, say=lambda what: lambda done, total: None)
    places, labels = explorer.seen[0].crowd
    assert len(places) == len(labels) == 100
