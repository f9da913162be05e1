"""Data and folders that a run has to cope with, or to refuse in one line."""

import numpy as np
import pytest

from magnet.cli import main
from magnet.errors import UserError
from magnet.training.config import read_config
from magnet.training.distribution import Ranks
from magnet.training.train import train
from magnet.training.workbench import make_workbench
from training.short_runs import records, run, settings, weights, write_vectors


@pytest.fixture
def uneven(tmp_path):
    """Forty vectors of class 0, twenty of class 1, a single one of class 2; class 3 is in the test part alone."""
    labels = np.array([0] * 40 + [1] * 20 + [2] + [3] * 5)
    vectors = np.random.default_rng(0).normal(size=(len(labels), 6)) + labels[:, None]
    np.savez(tmp_path / "uneven.npz", X=vectors.astype(np.float32), y=labels, test=labels == 3)
    return str(tmp_path / "uneven.npz")


@pytest.mark.parametrize("method", ["magnet", "softmax", "triplet", "contrastive", "nca", "cluster-nca", "ncm", "ncmc"])
def test_a_class_of_one_example_and_one_that_is_only_tested_are_no_trouble(method, uneven, tmp_path):
    folder = run(tmp_path / "run", uneven, method=method, epochs=2)
    losses = [record["loss"] for record in records(folder, "train")]
    assert losses
    assert np.isfinite(losses).all()
    assert all(bool(tensor.isfinite().all()) for tensor in weights(folder).values() if tensor.is_floating_point())


def test_clusters_of_a_class_are_no_more_than_its_examples(uneven, tmp_path):
    run(tmp_path / "run", uneven, epochs=1)
    assert records(tmp_path / "run", "refresh")[0]["clusters"] == 2 + 2 + 1


def test_a_folder_that_holds_a_run_is_refused(vectors, tmp_path):
    run(tmp_path / "run", vectors, steps=1)
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    with pytest.raises(UserError, match=r"holds a run already: give another --out, or `magnet train --resume"):
        run(tmp_path / "run", vectors, steps=1)
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == before


def test_without_a_folder_a_new_one_is_taken_every_time(vectors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("vectors-magnet-0", "vectors-magnet-0-2"):
        folder = train(settings(None, vectors, steps=1), silent=True)
        assert folder.name == name
        assert read_config(folder).out == folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "nowhere.npz"], "nowhere.npz does not exist"),
        (["--data", "digits", "--method", "magnets"], "did you mean magnet?"),
        (["--data", "digits", "--backbone", "mpl"], "did you mean mlp?"),
        (["--data", "digits", "--preset", "vector"], "did you mean vectors?"),
        (["--resume", "nowhere"], "there is no run at nowhere"),
    ],
)
def test_a_wrong_word_gives_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_training_data_of_one_class_is_refused(tmp_path):
    labels = np.arange(90) % 3
    data = write_vectors(tmp_path / "one.npz", test=labels > 0)
    with pytest.raises(UserError, match="at least two classes are needed"):
        run(tmp_path / "run", data)


def test_more_processes_than_classes_are_refused(vectors, tmp_path):
    with pytest.raises(UserError, match="4 processes share the classes"):
        make_workbench(settings(tmp_path / "run", vectors, backbone="mlp"), ranks=Ranks(world_size=4))
