import base64
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from magnet.errors import UserError, percent
from magnet.report.explorer import build, page_data
from magnet.report.explorer.build import build_explorer
from magnet.report.explorer.page_data import encode, encode_bits, encode_ids, encode_positions, find_originals
from magnet.runs import evaluate
from magnet.runs.run import Run


def unpack(encoded, kind):
    return np.frombuffer(base64.b64decode(encoded["base64"]), kind)


@pytest.mark.parametrize("error", [0.0625, 0.1625, 0.0004, 0.0])
def test_an_error_reads_on_the_page_as_in_the_report_and_in_the_terminal(photos, monkeypatch, error):
    found = {"split": "test", "n": 240, "rule": "knc", "plain": {"knc": {"error": error}}}
    monkeypatch.setattr(page_data, "errors_soon", lambda run: found | {"sampled": 240})
    shown = page_data.describe_errors(Run(photos))
    rules = [{"name": "kNC", "error": percent(error), "own": True, "n": 240}]
    assert shown == {"n": 240, "images": True, "rules": rules}


def test_of_very_many_examples_soft_knn_judges_a_sample_until_all_were_measured(digits_softmax, tmp_path, monkeypatch):
    run = Run(shutil.copytree(digits_softmax, tmp_path / "run"))
    shutil.rmtree(run.folder / "cache", ignore_errors=True)
    monkeypatch.setattr(evaluate, "PAIRS", 1)
    monkeypatch.setattr(evaluate, "SAMPLE", 100)
    soon = page_data.describe_errors(run)
    assert {rule["name"]: rule["n"] for rule in soon["rules"]} == {"kNC": 540, "soft kNN": 100, "own head": 540}
    whole = evaluate.plain_errors(run)["plain"]
    assert {r["name"]: r["error"] for r in soon["rules"] if r["n"] == 540} == {
        "kNC": percent(whole["knc"]["error"]),
        "own head": percent(whole["head"]["error"]),
    }
    assert {rule["n"] for rule in page_data.describe_errors(run)["rules"]} == {540}


def test_runs_on_rows_without_names_stand_side_by_side_and_those_on_other_data_do_not(
    digits_magnet, digits_softmax, wine
):
    build.check_same_data([Run(digits_magnet), Run(digits_softmax)])
    with pytest.raises(UserError, match=r"their sets differ: 'digits' and 'wine'"):
        build.check_same_data([Run(digits_magnet), Run(wine)])


def test_long_work_says_how_far_it_is(digits_magnet, tmp_path):
    run, told = Run(shutil.copytree(digits_magnet, tmp_path / "run")), {}
    shutil.rmtree(run.folder / "cache", ignore_errors=True)

    def say(what):
        return lambda done, total: told.setdefault(what, []).append((done, total))

    explorer = build_explorer([run], examples=300, seed=0, say=say)
    ends = {what: steps[-1] for what, steps in told.items()}
    laying = next(what for what in ends if "laying out" in what)
    assert ends[laying] in {(750, 750), (400, 400)}  # iterations, of the map that was laid out last
    assert ends["run: nearest neighbours"][0] > 0
    known = set(run.train.tolist())
    shown = len(known & set(explorer.rows.tolist()))
    assert ends["run: placing what is not shown"] == (len(known) - shown,) * 2
    assert all(done <= total for steps in told.values() for done, total in steps)


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
