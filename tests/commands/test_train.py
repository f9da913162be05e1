"""magnet train, as a person types it."""

import dataclasses
import re
from contextlib import suppress

import pytest

from magnet.cli import main
from magnet.training.config import TrainConfig, read_config
from magnet.training.train import train


def test_without_arguments_it_says_what_is_missing(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train"])
    assert stop.value.code == 2
    assert "--data" in capsys.readouterr().err


def test_a_run_is_resumed_by_its_name_with_or_without_a_slash(tmp_path, capsys):
    folder = train(TrainConfig(data="digits", steps=2, out=tmp_path / "run", evaluate=False), silent=True)
    for name in (str(folder), f"{folder}/"):
        assert main(["train", "--resume", name]) == 2
        assert "is finished" in capsys.readouterr().err


def test_resume_is_among_the_options(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "--resume RUN" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--resume"], ["--resume", "--quiet"], ["--data", "x", "--resume"], ["--config"]])
def test_resume_or_config_without_a_value_says_that_one_is_expected(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["train", *words])
    flag = "--config" if "--config" in words else "--resume"
    assert f"Missing value for argument '{flag}'" in capsys.readouterr().err


def test_resume_takes_no_settings(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    assert main(["train", "--resume", str(tmp_path / "run"), "--epochs=30", "--flip", "--quiet"]) == 2
    assert "with the settings of the run: leave out --epochs --flip\n" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 2
    assert "is not a run" in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "value"), [("--out", "file"), ("--device", "abacus")])
def test_a_place_or_device_that_cannot_be_used_is_one_line(tmp_path, monkeypatch, capsys, flag, value):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(["train", "--data", "digits", "--steps", "1", "--quiet", flag, value]) in (1, 2)
    shown = capsys.readouterr().err
    assert shown.startswith("magnet: ")
    assert "Traceback" not in shown


def test_the_options_stand_in_groups(capsys):
    with suppress(SystemExit):
        main(["train", "--help"])
    shown = capsys.readouterr().out
    titles = re.findall(r"^\W*(\w+) options\W*$", shown, re.M)
    assert titles == ["data", "method", "network", "votes", "training", "output"]
    for field in dataclasses.fields(TrainConfig):
        assert f"--{field.name.replace('_', '-')}" in shown


def test_a_run_says_what_it_will_do_and_what_to_do_next_and_its_settings_can_be_used_again(tmp_path, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    words = ["--quiet", "--no-evaluate"]
    assert main(["train", "--data", "digits", "--steps", "4", "--alpha", "1.5", "--out", str(first), *words]) == 0
    shown = capsys.readouterr().out
    assert "digits: 1,797 vectors of 64 numbers, 10 classes; 1,257 train, 540 test" in shown
    assert "magnet with linear" in shown
    assert "length and batches chosen by held-out training data; seed 0" in shown
    assert re.search(r"^Chosen by held-out training data: .*clusters per class \d", shown, re.M)
    assert f"magnet classify {first} VECTORS.npy" in shown
    again = ["train", "--config", str(first / "config.yaml"), "--steps", "3", "--out", str(second), *words]
    assert main(again) == 0
    assert re.search(r"^3 steps of \d+ examples; seed 0$", capsys.readouterr().out, re.M)
    old, new = read_config(first), read_config(second)
    assert (new.steps, new.alpha) == (3, 1.5)
    assert dataclasses.replace(new, steps=4, out=None) == dataclasses.replace(old, out=None)


def test_settings_that_a_search_wrote_are_taken_with_its_folder(tmp_path):
    TrainConfig("digits", out=tmp_path / "final", alpha=3.0, steps=2).save(tmp_path / "best.yaml")
    assert main(["train", "--config", str(tmp_path / "best.yaml"), "--quiet", "--no-evaluate"]) == 0
    assert read_config(tmp_path / "final").alpha == 3.0
