import json

import numpy as np
import pytest

from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.train import train


def short(out, data="digits", **changes):
    return train(TrainConfig(data=data, steps=30, evaluate=False, quiet=True, out=out, **changes), silent=True)


@pytest.mark.parametrize(("validation", "source", "count"), [(0.0, "train", 1257), (0.2, "validation", 250)])
def test_probabilities_mean_more_after_calibration(tmp_path, validation, source, count):
    found = evaluate(Run(short(tmp_path / "run", validation=validation)))
    for rule in ("knc", "knn"):
        assert found[rule]["ece_calibrated"] < found[rule]["ece"] / 2
        assert found["calibration"]["log_loss_tempered"][rule] < found["calibration"]["log_loss"][rule]
    assert found["calibration"]["held_out"] == source
    assert found["calibration"]["examples"] == pytest.approx(count, abs=5)


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_mean_no_less_after_calibration_by_few_examples(tmp_path, seed):
    found = evaluate(Run(short(tmp_path / "run", validation=0.05, seed=seed, scaling=10.0)))
    assert found["calibration"]["examples"] < 70
    for rule in ("knc", "knn"):
        assert found[rule]["ece_calibrated"] <= found[rule]["ece"] + 1e-6


def test_the_numbers_are_kept_until_the_run_changes(tmp_path, monkeypatch):
    folder = short(tmp_path / "run")
    first = Run(folder).calibration
    monkeypatch.setattr("magnet.runs.run._measure", lambda run: pytest.fail("measured again"))
    assert Run(folder).calibration == first
    assert Run(folder, need_data=False).calibration == first
    monkeypatch.setattr("magnet.runs.run._measure", lambda run: first)
    (file,) = (folder / "cache").glob("*.json")
    file.write_text("{")
    assert Run(folder).calibration == first
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("clusters_per_class: 8", "clusters_per_class: 2"))
    old = json.loads(file.read_text())["key"]
    Run(folder).calibration  # noqa: B018
    assert json.loads(file.read_text())["key"] != old


def test_classes_of_one_example_cannot_be_held_out(tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", X=x, y=[0, 1, 2] * 2, test=[False] * 3 + [True] * 3)
    run = Run(short(tmp_path / "run", str(tmp_path / "x.npz")))
    assert run.calibration.examples == 0
    assert run.calibration.novelty_threshold is None
    judged = evaluate(run)["knc"]
    assert judged["ece"] == pytest.approx(judged["ece_calibrated"], abs=1e-5)
