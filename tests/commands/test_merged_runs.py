"""Runs on merged classes are opened again like any other, and say what they are."""

import json

import numpy as np
import pytest
from rich.console import Console

from magnet.cli import main
from magnet.data import merge_classes, open_data
from magnet.data.groups import merge_groups
from magnet.experiments.demo import _errors, measure
from magnet.experiments.lab import Lab
from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.train import train

SMALL = {"epochs": 2, "backbone": "mlp", "hidden": 32, "dim": 8, "clusters_per_class": 4, "evaluate": False}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's measurement of one method, with a seed that is not that of the data's split."""
    folder = tmp_path_factory.mktemp("demo")
    config = TrainConfig(data="digits", validation=0.2, quiet=True, **SMALL)
    lab = Lab(lambda method: config, folder, methods=("magnet",), seeds=2, console=Console(quiet=True))
    outcome = measure(lab, "magnet")
    return folder / "magnet-pairs-1", outcome, merge_classes(lab.held, 1)


@pytest.fixture
def pairs(demo):
    return demo[0]


@pytest.fixture
def magnet(capsys, pairs):
    """Runs a command on the run, which must say that classes are merged; returns what is printed."""

    def run(command, *words):
        assert main([command, str(pairs), *map(str, words)]) == 0
        printed = capsys.readouterr()
        assert printed.err.startswith(f"note: {pairs} was trained on merged classes: 10 classes became 5 (0 + ")
        assert printed.err.count("\n") == 1
        return printed.out

    return run


def test_a_merged_run_opens_again_with_the_same_errors(demo, magnet):
    folder, outcome, merged = demo
    again = Run(folder, which="last")
    assert again.data.digest == merged.digest
    assert again.data.fine_labels is not None
    for kept in folder.glob("answers*.npz"):  # computed anew, from the run as it is opened
        kept.unlink()
    hidden = _errors(again, open_data("digits"))["knc"]
    assert outcome.hidden[1] == hidden
    found = json.loads(magnet("evaluate", "--json", "--checkpoint", "last"))
    assert found["n"] == 540
    expected = evaluate(Run(folder, which="last", data=merged))
    assert {rule: found[rule] for rule in ("knc", "knn")} == {rule: expected[rule] for rule in ("knc", "knn")}


def test_its_own_data_given_by_name_is_merged_too(magnet):
    own = json.loads(magnet("evaluate", "--json"))
    named = json.loads(magnet("evaluate", "--json", "--data", "digits"))
    assert named["knc"] == own["knc"]
    assert named["left_out"] == 0


def test_it_is_explored_and_reported_on(magnet, tmp_path):
    pytest.importorskip("openTSNE")
    magnet("explore", "--out", tmp_path / "explore.html", "--examples", "100", "--no-open")
    magnet("report", "--out", tmp_path / "report.html")
    assert "was trained on merged classes" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_it_classifies_searches_and_is_exported(magnet, pairs, tmp_path):
    np.save(tmp_path / "some.npy", open_data("digits").vectors[:2])
    (first, _) = json.loads(magnet("classify", tmp_path / "some.npy", "--json"))
    assert first["label"] in Run(pairs).classes
    magnet("search", tmp_path / "some.npy")
    magnet("export", "--to", tmp_path / "bundle")


def test_it_embeds_data_with_the_classes_that_the_data_has(magnet, tmp_path):
    magnet("embed", "--data", "digits", "--out", tmp_path / "x.npz")
    digits, read = open_data("digits"), open_data(str(tmp_path / "x.npz"))
    assert read.classes == digits.classes
    assert read.labels.equal(digits.labels)
    assert (read.split == 2).sum() == 540


def test_a_stopped_one_goes_on(tmp_path, stopped, capsys):
    merged = merge_groups(open_data("digits"), ["even", "odd"] * 5)
    config = TrainConfig(data="digits", out=tmp_path / "run", **SMALL)
    stopped(config, 3, merged)
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert "note:" not in capsys.readouterr().out
    assert Run(tmp_path / "run").classes == ["even", "odd"]


def test_a_class_that_came_later_stays_a_class_of_its_own(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.array(list("abcd") * 15)
    np.savez(tmp_path / "x.npz", X=X, y=y)
    data = open_data(str(tmp_path / "x.npz"))
    config = TrainConfig(data=str(tmp_path / "x.npz"), out=tmp_path / "run", **SMALL)
    folder = train(config, data=merge_groups(data, ["p", "p", "q", "q"]), silent=True)
    np.savez(tmp_path / "x.npz", X=np.r_[X, X[:1]], y=np.r_[y, ["aa"]])
    run = Run(folder)
    assert run.classes == ["p", "q", "aa"]
    assert run.labels.unique().tolist() == [0, 1]
