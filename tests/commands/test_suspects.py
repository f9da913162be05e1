"""magnet suspects."""

import csv

import numpy as np
import pytest
from sklearn.datasets import load_digits

from magnet.experiments.suspects import plant
from magnet.training.config import TrainConfig
from magnet.training.train import train


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """A short run on digits of which forty training labels are wrong, and the rows of these."""
    folder = tmp_path_factory.mktemp("n")
    X, y = load_digits(return_X_y=True)
    X, y, split = X[:700] / 16, y[:700], np.where(np.arange(700) < 500, 0, 2)
    given, planted = plant(y[:500], 0.08, seed=0)
    y = np.concatenate([given, y[500:]])
    names = np.array([f"=digit {i}" for i in range(700)])
    np.savez(folder / "x.npz", X=X, y=y, split=split, name=names)
    config = TrainConfig(data=str(folder / "x.npz"), steps=20, evaluate=False, quiet=True, out=folder / "run")
    return train(config, silent=True), set(planted.tolist())


def read(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_table_has_the_planted_labels_first_and_is_safe_for_a_spreadsheet(magnet, noisy, tmp_path):
    run, planted = noisy
    printed = magnet("suspects", run, "--out", tmp_path / "x.csv")
    rows = read(tmp_path / "x.csv")
    assert f"{len(rows)} of 500 examples are in" in printed
    assert sum(int(row["row"]) in planted for row in rows[:40]) >= 36
    assert all(row["label"] != row["suggestion"] and row["split"] == "train" for row in rows)
    losses = [float(row["loss"]) for row in rows]
    assert losses == sorted(losses, reverse=True)
    assert rows[0]["path"].startswith("'=digit")


def test_a_second_look_takes_what_the_run_has_kept(magnet, noisy, tmp_path, monkeypatch):
    run, _ = noisy
    magnet("suspects", run, "--out", tmp_path / "a.csv")
    monkeypatch.setattr("magnet.runs.suspects.doubt_labels", lambda *a, **k: pytest.fail("computed again"))
    magnet("suspects", run, "--out", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_other_parts_and_a_number_can_be_asked_for(magnet, noisy, tmp_path):
    run, _ = noisy
    magnet("suspects", run, "--out", tmp_path / "x.csv", "--part", "all", "--count", "30")
    assert len(read(tmp_path / "x.csv")) == 30
    magnet("suspects", run, "--out", tmp_path / "x.csv", "--part", "test", "--count", "200", "--force")
    assert {row["split"] for row in read(tmp_path / "x.csv")} == {"test"}
    assert "look more like another class" in magnet("suspects", run)


def test_what_cannot_be_written_is_said_first(complaint, noisy, tmp_path):
    run, _ = noisy
    (tmp_path / "there.csv").write_text("")
    assert "must end in .csv" in complaint("suspects", run, "--out", tmp_path / "x.txt")
    assert "exists already" in complaint("suspects", run, "--out", tmp_path / "there.csv")
    assert "no run at" in complaint("suspects", tmp_path / "gone")
    assert "has no validation part" in complaint("suspects", run, "--part", "validation")
