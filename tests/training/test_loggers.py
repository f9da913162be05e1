"""Loggers are told what the journal has, offline."""

import math
import time

import pytest

from magnet.errors import UserError
from magnet.training import config, display
from magnet.training.folder import Journal, read_journal
from training.short_runs import run, write_vectors


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    return write_vectors(tmp_path_factory.mktemp("v") / "v.npz")


def test_wandb_gets_the_same_numbers_offline(vectors, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run(tmp_path / "run", vectors, steps=4, logger="wandb")
    (file,) = (tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb")
    until = time.monotonic() + 20  # its own process writes the file, a moment after the run has ended
    while b"train/loss" not in (content := file.read_bytes()) and time.monotonic() < until:
        time.sleep(0.05)
    (record,) = [r for r in read_journal(tmp_path / "run") if r["kind"] == "train"]
    assert b"train/loss" in content
    assert repr(record["loss"]).encode() in content
    assert b"clusters_per_class" in content  # the settings


@pytest.mark.slow  # the tables of its database are made
def test_mlflow_gets_the_same_numbers_in_the_run(vectors, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run(tmp_path / "run", vectors, steps=4, logger="mlflow")
    client = mlflow.tracking.MlflowClient(f"sqlite:///{tmp_path / 'run' / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("magnet")
    (found,) = client.search_runs([experiment.experiment_id])
    (record,) = [r for r in read_journal(tmp_path / "run") if r["kind"] == "train"]
    assert math.isclose(found.data.metrics["train/loss"], record["loss"])
    assert found.data.params["clusters_per_class"]


def test_a_logger_that_cannot_be_opened_is_said_without_a_traceback(tmp_path, monkeypatch):
    def refused(folder):
        raise ConnectionError("no route to the service")

    monkeypatch.setattr(config, "find_spec", lambda name: name)
    monkeypatch.setattr(display, "_mlflow", refused)
    with pytest.raises(UserError, match="--logger mlflow cannot be opened: no route to the service"):
        display.open_logger("mlflow", tmp_path, {}, None)


def test_a_logger_that_is_not_installed_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setattr(config, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"--logger wandb needs wandb and lightning: pip install 'magnet-loss\[wandb\]'"
    ):
        config.check_logger("wandb")
    config.check_logger("none")


def test_a_logger_that_fails_does_not_end_a_training(tmp_path):
    class Failing:
        def show(self, kind, step, values):
            raise ConnectionError("the service is gone")

        def close(self):
            pytest.fail("told once more")

    said = []
    journal = Journal(tmp_path, logger=Failing(), say=said.append)
    for step in (1, 2):
        journal.write("train", step, {"loss": 0.5})
    journal.close()
    assert said == ["note: the logger failed and gets no more records: the service is gone"]
    assert len(read_journal(tmp_path)) == 2
