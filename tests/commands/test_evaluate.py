import json

import numpy as np
import pytest
import torch

from magnet.data import open_data
from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run


@pytest.fixture(scope="module")
def result(digits_run):
    return evaluate(Run(digits_run))


def test_the_result_has_what_others_build_on(result, digits_run):
    assert result["split"] == "test"
    assert result["n"] == 540
    assert (result["method"], result["step"], result["data"]) == ("magnet", 30, "digits")
    assert result["run"] == str(digits_run)
    assert "head" not in result
    for rule in ("knc", "knn"):
        assert set(result[rule]) == {"error", "error@5", "ece", "ece_calibrated"}
        assert 0 <= result[rule]["error@5"] <= result[rule]["error"] < 0.2
    assert 0.9 < result["retrieval"]["recall@1"] <= 1


def test_errors_are_those_of_the_classifiers(result, digits_run):
    run = Run(digits_run)
    rows = run.data.indices("test")
    queries = run.embed(rows, test=True)
    for name in ("knc", "knn"):
        wrong = run.rule(name).predict(queries) != run.data.labels[rows]
        assert result[name]["error"] == pytest.approx(float(wrong.double().mean()))
    assert run.rule("knc").variance == run.rule("knn").variance


def test_of_vectors_the_plain_view_is_the_only_one(result):
    assert result["views"] == 1
    for name in ("knc", "knn"):
        assert result["plain"][name] == {key: result[name][key] for key in ("error", "error@5")}


def test_what_was_evaluated_is_kept_in_the_run(own_photo_run, magnet, monkeypatch):
    first = magnet("evaluate", own_photo_run, "--json")
    assert (first["views"], set(first["plain"])) == (4, {"knc", "knn"})

    def refuse(*_, **__):
        raise AssertionError("embedded again")

    monkeypatch.setattr("magnet.runs.run.embed", refuse)
    assert magnet("evaluate", own_photo_run, "--json") == first
    moved = own_photo_run.rename(own_photo_run.with_name("moved"))
    assert magnet("evaluate", moved, "--json") == first | {"run": str(moved)}


def test_json_alone_is_on_standard_output(digits_run, magnet, result):
    assert magnet("evaluate", digits_run, "--json") == json.loads(json.dumps(result))


def test_the_table_names_the_classifiers_and_the_worst_classes(digits_run, magnet):
    shown = magnet("evaluate", digits_run)
    assert all(words in shown for words in ("kNC", "soft kNN", "recall@1", "taken for", "540 examples"))
    assert "magnet, last: step 30 of 30" in shown


def test_names_are_shown_as_they_are(photo_run, photos, magnet, monkeypatch):
    from rich.console import Console

    from magnet.commands.terminal import show_evaluation

    result = evaluate(Run(photo_run))
    result["worst"] = [
        {"class": "red [bold]fox", "n": 1, "error": 1.0, "taken_for": [{"class": "[/red]\x1b[2J", "n": 1}]}
    ]
    console = Console(width=100, record=True)
    show_evaluation(result, console)
    shown = console.export_text()
    assert "red [bold]fox" in shown
    assert "[/red]" in shown
    assert "\x1b[2J" not in shown


def test_classes_of_other_data_are_matched_by_name(digits_run, tmp_path, magnet):
    digits = open_data("digits")
    # The same digits with classes in another order, and one class the run has never heard of.
    names = np.array([str(9 - c) for c in range(9)] + ["zero"])
    y = 9 - digits.labels.numpy()
    np.savez(tmp_path / "other.npz", X=digits.vectors, y=y, classes=names, split=digits.split)
    found = magnet("evaluate", digits_run, "--data", tmp_path / "other.npz", "--json")
    zeros = int(((digits.labels == 0) & torch.from_numpy(digits.split == 2)).sum())
    assert (found["n"], found["left_out"], found["unknown"]) == (540 - zeros, zeros, ["zero"])
    assert found["knc"]["error"] < 0.2
    assert f"{zeros} more were left out" in magnet("evaluate", digits_run, "--data", tmp_path / "other.npz")


def test_no_class_in_common_is_refused(digits_run, tmp_path, complaint):
    digits = open_data("digits")
    np.savez(tmp_path / "x.npz", X=digits.vectors, y=digits.labels.numpy() + 100, split=digits.split)
    line = complaint("evaluate", digits_run, "--data", tmp_path / "x.npz")
    assert "none of the 10 classes" in line
    assert "100" in line


def test_softmax_is_judged_by_its_head_too(tmp_path, magnet):
    from magnet.training.config import TrainConfig
    from magnet.training.train import train

    run = train(TrainConfig(data="digits", method="softmax", steps=20, quiet=True, out=tmp_path / "s"), silent=True)
    found = magnet("evaluate", run, "--json")
    assert set(found["head"]) == {"error", "error@5", "ece", "ece_calibrated"}
    assert found["rule"] == "head"
    assert "own head" in magnet("evaluate", run)


def test_other_parts_can_be_evaluated(digits_run, magnet):
    assert magnet("evaluate", digits_run, "--part", "train", "--json")["n"] == 1257
    assert "1257 of them are training examples" in magnet("evaluate", digits_run, "--part", "all")


def test_images_are_evaluated_with_test_time_views(photo_run, magnet):
    assert magnet("evaluate", photo_run, "--json", "--test-draws", "1")["n"] == 7
    shown = magnet("evaluate", photo_run)
    assert "mean of 4 test views" in shown
    assert "plain view" in shown


def test_bad_input(digits_run, photo_run, photos, tmp_path, complaint):
    assert "no run at" in complaint("evaluate", tmp_path / "nowhere")
    assert "is not a run" in complaint("evaluate", tmp_path)
    assert "does not exist" in complaint("evaluate", digits_run, "--data", tmp_path / "nowhere.npz")
    assert "found no images" in complaint("evaluate", photo_run, "--data", tmp_path)
    assert "holds images" in complaint("evaluate", digits_run, "--data", photos)
    assert "no validation part" in complaint("evaluate", digits_run, "--part", "validation")
    np.savez(tmp_path / "narrow.npz", X=np.zeros((4, 3)), y=[0, 0, 1, 1])
    line = complaint("evaluate", digits_run, "--data", tmp_path / "narrow.npz")
    assert "3 dimensions" in line
    assert "64" in line
