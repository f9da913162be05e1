"""magnet train, as a person types it."""

import pytest

from magnet.cli import main
from magnet.training.config import TrainConfig
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


@pytest.mark.parametrize("words", [["--resume"], ["--resume", "--quiet"], ["--resume="], ["--data", "x", "--resume"]])
def test_resume_without_a_run_says_that_one_is_expected(words, capsys):
    assert main(["train", *words]) == 2
    assert capsys.readouterr().err.startswith("magnet: --resume needs the folder of a run")


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
