"""The configuration: written whole, read back, and checked."""

import dataclasses
from pathlib import Path
from typing import get_type_hints

import pytest
import torch
import yaml

from magnet.commands import train as command
from magnet.errors import UserError
from magnet.training.config import RANGES, TrainConfig, read_config
from magnet.training.workbench import make_learner
from training.short_runs import flags, run, settings


def another(name, value):
    """A value that differs from the default."""
    choices = {
        "schedule": "cosine", "own_mean": "leave-one-out", "bad_images": "skip", "precision": "bf16-mixed",
        "start": "whitened", "standardize": "yes", "votes": "chosen", "centres": "auto", "optimiser": "adamw",
        "losses": "refreshed", "logger": "wandb", "clusters_by": "size", "unit_length": "yes",
    }  # fmt: skip
    if name in choices:
        return choices[name]
    if name in ("out", "weights", "warm_start"):
        return Path("some") / "where with spaces ü"
    if isinstance(value, float):
        return RANGES[name].most / 2
    return (not value) if isinstance(value, bool) else f"{value}ä" if isinstance(value, str) else value + 1


def everything_changed():
    plain = TrainConfig(data="x.npz")
    return TrainConfig(**{f.name: another(f.name, getattr(plain, f.name)) for f in dataclasses.fields(plain)})


def test_yaml_holds_every_field_and_gives_it_back(tmp_path):
    config = everything_changed()
    config.save(tmp_path / "config.yaml")
    assert set(yaml.safe_load((tmp_path / "config.yaml").read_text())) == {f.name for f in dataclasses.fields(config)}
    assert TrainConfig.load(tmp_path / "config.yaml") == config


def test_the_run_holds_the_settings_it_was_trained_with_nothing_left_to_guess(vectors, tmp_path):
    config = settings(tmp_path / "run", vectors, steps=1, dropout=0.1)
    run(tmp_path / "run", vectors, steps=1, dropout=0.1)
    assert read_config(tmp_path / "run") == dataclasses.replace(config, backbone="mlp", start="random")
    moved = (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert read_config(moved).out == moved


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """The configurations that the command would train, on data that is not there."""
    found = []
    monkeypatch.setattr("magnet.training.train.train", lambda config, data: found.append(config) or tmp_path)
    monkeypatch.setattr("magnet.training.workbench.open_for", lambda config: None)
    monkeypatch.setattr("magnet.training.workbench.complete", lambda config, data: config)
    monkeypatch.setattr(command, "check_settings", lambda options: None)
    monkeypatch.setattr(command, "plan", lambda config, data: [])
    monkeypatch.setattr(command, "_finish", lambda folder, config: None)
    return found


def test_every_setting_has_a_flag(seen):
    config = dataclasses.replace(
        everything_changed(), method="magnet", preset="paper/default", impostor_fraction=0.1, target_neighbours=3,
        evaluate=False,
    )  # fmt: skip
    command.main(flags(config))
    assert seen == [config]


def test_what_you_give_goes_before_the_preset(seen):
    command.main(["--data", "photos", "--preset", "paper/pets", "--scaling", "5", "--no-evaluate"])
    assert (seen[0].scaling, seen[0].alpha) == (5.0, 7.18)


def test_a_setting_that_does_nothing_for_the_method_is_refused():
    with pytest.raises(UserError, match="--impostor-fraction does nothing for softmax; it is for triplet"):
        command.main(["--data", "digits", "--method", "softmax", "--impostor-fraction", "0.5"])


def test_every_number_has_a_range():
    numbers = {name for name, kind in get_type_hints(TrainConfig).items() if kind in (int, float)}
    assert numbers == set(RANGES)


def test_what_cannot_fit_into_memory_is_said_before_it_is_tried(vectors):
    with pytest.raises(UserError, match=r"a batch takes .* GB, and this machine has .*: lower --clusters-per-batch"):
        TrainConfig(data="digits", clusters_per_batch=10**6, examples_per_cluster=10**3).check()
    with pytest.raises(UserError, match=r"the network takes .* GB"):
        make_learner(
            TrainConfig(data="x", backbone="mlp", hidden=10**6, dim=10**6), "vectors", (9,), torch.arange(2), 2
        )


def test_an_unknown_name_in_a_file_is_refused(tmp_path):
    (tmp_path / "config.yaml").write_text("data: digits\nlearning_rat: 1\n")
    with pytest.raises(UserError, match="learning_rat"):
        TrainConfig.load(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "--seed must be at least 0"),
        ({"epochs": -2}, "--epochs must be at least -1"),
        ({"clusters_per_batch": 1}, "--clusters-per-batch must be at least 2"),
        ({"clusters_per_batch": 0, "start": "random"}, "--clusters-per-batch 0 is chosen by the whitened start"),
        ({"learning_rate": 0.0}, "--learning-rate must be positive"),
        ({"learning_rate": float("nan")}, "--learning-rate must be positive"),
        ({"validation": 1.0}, "--validation must be at least 0 and below 1"),
        ({"impostor_fraction": 1.5}, "--impostor-fraction must be positive and at most 1"),
        ({"workers": 5}, "--workers must be at least -1 and at most 4"),
    ],
)
def test_settings_that_make_no_sense_are_named(change, message):
    with pytest.raises(UserError, match=message):
        TrainConfig(data="digits", **change).check()
