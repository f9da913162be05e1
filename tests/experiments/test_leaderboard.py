"""The leaderboard: one table with every method, each with the same start and with rules chosen for it."""

import json
from dataclasses import replace

import pytest
from rich.console import Console

from magnet.experiments import leaderboard
from magnet.experiments.lab import Lab, read_row
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset
from training.short_runs import write_vectors


@pytest.mark.slow
def test_every_row_has_the_three_errors_and_its_difference_from_magnet(tmp_path):
    spec = write_vectors(tmp_path / "v.npz")

    def configure(row):
        method, own = read_row(row)
        start = own.get("start", "auto")
        return replace(with_preset(TrainConfig(data=spec, method=method, start=start)), epochs=2, dropout=0.0)

    lab = Lab(
        configure, tmp_path / "results" / "leaderboard", fixed=frozenset({"dropout", "epochs"}), trials=1, seeds=2,
        pairings=1, methods=("magnet", "softmax", "softmax(start=random)"), console=Console(quiet=True),
    )  # fmt: skip
    outcome = leaderboard.run(lab)
    errors, differences, race, settings = outcome.tables
    names = [row[0] for row in errors.rows]
    assert {"Magnet", "softmax", "logistic regression, start", "logistic regression, features", "kNC, start"} <= set(
        names
    )
    assert [row[0] for row in differences.rows] == [name for name in names if name != "Magnet"]
    for name, found in outcome.values.items():
        runs = 2 if name in lab.methods else 1
        assert len(found["own"]) == runs
        assert len(found["merged"]) == len(found["hidden"]) == 1
        assert all(0 <= error <= 1 for error in [*found["own"], *found["merged"], *found["hidden"]])
    assert [row[0] for row in race.rows] == ["Magnet", "softmax", "softmax (start random)"]
    assert all(float(row[2]) > 0 or row[2] == "0" for row in race.rows), "processor seconds of each"
    assert all(min(found["seconds"]) > 0 for found in outcome.values.values())
    assert {row[0] for row in settings.rows} == {"Magnet", "softmax", "softmax (start random)"}
    json.dumps(outcome.values)
