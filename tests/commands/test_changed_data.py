"""A run whose data changed says so, and its results are those of the data that is there now."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from magnet.cli import main
from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.folder import FILE
from magnet.training.train import train

REVERSED = "other values in X (the labels are the same)"
SETTINGS = {"steps": 30, "hidden": 16, "dim": 4, "clusters_per_class": 2, "evaluate": False, "quiet": True}


def write(path, **changes):
    """Four classes, told apart by the first of six columns."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    X = rng.normal(size=(200, 6))
    X[:, 0] += 8 * y
    np.savez(path, **{"X": X.astype(np.float32), "y": y, **changes})
    return X.astype(np.float32), y


@pytest.fixture
def run(tmp_path):
    """A run that has been evaluated and reported on."""
    write(tmp_path / "features.npz")
    config = TrainConfig(data=str(tmp_path / "features.npz"), out=tmp_path / "run", validation=0.2, **SETTINGS)
    folder = train(config, silent=True)
    evaluate(Run(folder))
    return folder


@pytest.fixture
def reverse(run):
    """Reverses the columns of the run's X."""

    def reverse():
        X, _ = write(run.parent / "features.npz")
        write(run.parent / "features.npz", X=X[:, ::-1])

    return reverse


@pytest.fixture
def magnet(capsys):
    """Runs a command, and returns what it prints and what it says beside that."""

    def run(*words):
        assert main([str(word) for word in words]) == 0
        return capsys.readouterr()

    return run


def note(run):
    return f"note: {run.parent / 'features.npz'} has changed since {run} began to train on it: "


def truth(run, tmp_path):
    """What a run without any cache says."""
    return evaluate(Run(shutil.copytree(run, tmp_path / "bare", ignore=shutil.ignore_patterns("cache"))))


def test_reversed_columns_are_noticed_and_evaluated_truly(run, reverse, magnet, tmp_path):
    before = json.loads(magnet("evaluate", run, "--json").out)
    reverse()
    printed = magnet("evaluate", run, "--json")
    assert printed.err == f"{note(run)}{REVERSED}\n"
    after, expected = json.loads(printed.out), truth(run, tmp_path)
    assert before["knc"]["error"] < 0.2 < after["knc"]["error"]
    for part in ("knc", "knn", "calibration", "retrieval", "worst"):
        assert after[part] == expected[part], part


def test_data_that_is_put_back_is_as_it_was(run, reverse, magnet):
    before = magnet("evaluate", run, "--json")
    reverse()
    magnet("evaluate", run)
    write(run.parent / "features.npz")
    again = magnet("evaluate", run, "--json")
    assert before.err == again.err == ""
    assert json.loads(again.out) == json.loads(before.out)


def test_a_report_notices_and_measures_again(run, reverse, magnet, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "report.html"
    words = ("report", run, "--out", page)
    assert magnet(*words).err == ""
    reverse()
    assert magnet(*words).err == f"{note(run)}{REVERSED}\n"
    text = page.read_text(encoding="utf-8")
    assert "began to train on it: other values in X" in text
    error = truth(run, tmp_path)["knc"]["error"]
    assert f"{100 * error:.1f} %" in text


def test_the_explorer_notices_and_asks_again(run, reverse, magnet, tmp_path):
    pytest.importorskip("openTSNE")
    page = tmp_path / "explore.html"
    words = ("explore", run, "--out", page, "--no-open")
    assert magnet(*words).err == ""
    before = page.read_text(encoding="utf-8")
    reverse()
    assert magnet(*words).err == f"{note(run)}{REVERSED}\n"
    found = [
        re.findall(r'"best":\{"count":\d+,"classes":(\{.*?\})', text)
        for text in (before, page.read_text(encoding="utf-8"))
    ]
    assert [len(one) for one in found] == [1, 1]
    assert found[0] != found[1]


def test_a_resumed_run_says_that_its_data_has_changed(tmp_path, reverse, stopped, magnet):
    config = TrainConfig(data=str(tmp_path / "features.npz"), out=tmp_path / "stopped", **SETTINGS)
    folder = stopped(config, 7)
    reverse()
    said = [line for line in magnet("train", "--resume", folder).out.splitlines() if "note:" in line]
    assert said == [f"{note(folder)}{REVERSED}"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"split": np.repeat([0, 2], 100)}, "another split (the labels are the same)"),
        ({"attributes": np.arange(200)[:, None] % 2}, "other attributes (the labels are the same)"),
        ({"y": np.r_[1, np.arange(1, 200) % 4]}, "other labels"),
        ({"X": np.zeros((201, 6)), "y": np.arange(201) % 4}, "200 examples then, 201 now"),
    ],
)
def test_the_note_says_what_has_changed(run, magnet, changes, said):
    tested = json.loads(magnet("evaluate", run, "--json").out)["n"]
    write(run.parent / "features.npz", **changes)
    printed = magnet("evaluate", run, "--json")
    assert printed.err == f"{note(run)}{said}\n"
    assert tested - 1 <= json.loads(printed.out)["n"] <= tested  # the run keeps its own parts


def test_a_run_none_of_whose_examples_are_left_is_refused_with_the_reason(run, capsys):
    write(run.parent / "features.npz", name=[f"new {i}" for i in range(200)])
    assert main(["evaluate", str(run)]) == 2
    assert "began to train on it: other names of the examples" in capsys.readouterr().err


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:-1] + b"\2")])
def test_a_run_that_does_not_know_its_parts_any_more_is_refused(run, spoil, capsys):
    spoil(run / FILE)
    assert main(["evaluate", str(run)]) == 2
    assert "it is not known which examples" in capsys.readouterr().err


def test_a_kept_refresh_of_other_examples_is_not_shown(tmp_path):
    pytest.importorskip("openTSNE")
    from magnet.report.explorer.build import build_explorer

    X, y = write(tmp_path / "features.npz", name=[f"row {i}" for i in range(200)])
    config = TrainConfig(
        data=str(tmp_path / "features.npz"), out=tmp_path / "run", keep_refreshes=3, refresh_every=5, **SETTINGS
    )
    folder = train(config, silent=True)

    def moments():
        found = build_explorer([Run(folder)], examples=100, seed=0, say=lambda what: lambda done, total: None)
        return len(found.seen[0].moments)

    assert moments() > 1
    for part, shown in (("test", 4), ("train", 1)):  # an example of which is lost
        kept = np.delete(np.arange(200), Run(folder).data.indices(part)[0])
        write(tmp_path / "features.npz", X=X[kept], y=y[kept], name=[f"row {i}" for i in kept])
        assert moments() == shown, part


def test_experiments_on_changed_data_say_so_and_train_anew(tmp_path, magnet):
    X, _ = write(tmp_path / "features.npz")
    words = ["reproduce", "fine-grained", "--data", tmp_path / "features.npz", "--out", tmp_path / "results"]
    words += ["--trials", "1", "--seeds", "1", "--epochs", "1", "--methods", "softmax", "magnet"]

    def error():
        return json.loads((tmp_path / "results" / "fine-grained" / "results.json").read_text())["values"]["softmax"]

    assert magnet(*words).err == ""
    first, runs = error(), len(list((tmp_path / "results" / "runs").iterdir()))
    write(tmp_path / "features.npz", X=np.random.default_rng(1).normal(size=X.shape))
    said = magnet(*words).err
    assert re.fullmatch(
        r"note: \S+features.npz has changed since \d+ earlier runs in \S+runs \(other values in X "
        r"\(the labels are the same\)\): new ones are trained\n",
        said,
    )
    assert error() != first
    assert len(list((tmp_path / "results" / "runs").iterdir())) == 2 * runs - 1  # the folder of locks is shared


@pytest.mark.parametrize("words", [("classify", "--top", "1"), ("search", "--count", "2")], ids=lambda words: words[0])
def test_changed_data_are_noticed_by_commands_that_ask_a_run_that_was_used(words, run, reverse, magnet):
    name, *options = words
    rows = run.parent / "rows.npy"
    np.save(rows, write(run.parent / "features.npz")[0][:3])
    before = magnet(name, run, rows, "--json", *options)
    assert before.err == ""
    reverse()
    after = magnet(name, run, rows, "--json", *options)
    assert after.err == f"{note(run)}{REVERSED}\n"
    assert after.out != before.out  # the answers of the data that is there now, as `magnet evaluate` has them
    write(run.parent / "features.npz")
    assert magnet(name, run, rows, "--json", *options) == before
    write(run.parent / "features.npz", X=np.zeros((200, 2), np.float32))  # which the network cannot take
    assert magnet(name, run, rows, "--json", *options).out == before.out
    (run.parent / "features.npz").unlink()
    assert magnet(name, run, rows, "--json", *options) == before
