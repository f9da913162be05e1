"""MagnetClassifier as an experiment: its errors, those of a logistic regression, and those on merged pairs."""

import json
from dataclasses import replace

import pytest
from rich.console import Console

from magnet.errors import UserError
from magnet.experiments import estimator, logistic
from magnet.experiments.lab import Lab
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset
from training.short_runs import write_images, write_vectors


def lab_on(data, tmp_path, **more):
    config = with_preset(TrainConfig(data=data))
    return Lab(
        lambda row: replace(config, seed=3), tmp_path / "results" / "estimator", console=Console(quiet=True), **more
    )


def test_every_seed_and_pairing_has_its_errors_beside_those_of_a_logistic_regression(tmp_path, monkeypatch):
    monkeypatch.setattr(logistic, "C_VALUES", [0.1])
    outcome = estimator.run(lab_on(write_vectors(tmp_path / "v.npz", classes=4), tmp_path, seeds=1, pairings=2))
    errors, pairs = outcome.tables
    assert [row[0] for row in errors.rows] == ["MagnetClassifier", "logistic regression", "the same, in the start"]
    assert errors.rows[0][1] == f"{100 * outcome.values['error'][0]:.1f}"
    assert pairs.columns[-2:] == ["hidden, start", "hidden, Magnet"]
    assert all(0 <= value <= 1 for name in estimator.PAIRS for value in outcome.values[name])
    assert [len(outcome.values[name]) for name in (*estimator.COLUMNS, *estimator.PAIRS)] == [1] * 6 + [2] * 6
    json.dumps(outcome.values)


def test_without_linear_models_there_are_none_in_the_tables(tmp_path):
    data = write_vectors(tmp_path / "v.npz", classes=4)
    errors, pairs = estimator.run(lab_on(data, tmp_path, seeds=1, pairings=1, linear=False)).tables
    assert [row[0] for row in errors.rows] == ["MagnetClassifier"]
    assert not any(column.startswith("LR") for column in pairs.columns)


def test_images_are_refused(tmp_path):
    with pytest.raises(UserError, match="takes vectors; photos holds images"):
        estimator.run(lab_on(write_images(tmp_path / "photos", per_class=4), tmp_path))
