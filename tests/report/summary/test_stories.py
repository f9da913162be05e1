import json
from pathlib import Path

import pytest

from magnet.errors import UserError
from magnet.report.summary.stories import short_names, tell
from magnet.training.config import TrainConfig


def make_run(folder: Path, **changes) -> Path:
    folder.mkdir(parents=True)
    TrainConfig(data="digits", **changes).save(folder / "config.yaml")
    return folder


def test_names_are_as_long_as_it_takes_to_tell_runs_apart():
    assert short_names([Path("/a/x"), Path("/a/y")]) == ["x", "y"]
    assert short_names([Path("/a/x/run"), Path("/b/x/run")]) == ["a/x/run", "b/x/run"]


def test_a_run_given_twice_is_told_once(tmp_path):
    run = make_run(tmp_path / "run")
    assert len(tell([run, tmp_path / "." / "run"])) == 1


def test_a_run_that_was_killed_before_its_first_checkpoint_has_what_its_journal_has(tmp_path):
    run = make_run(tmp_path / "run")
    line = json.dumps({"kind": "train", "step": 20, "loss": 1.0})
    (run / "metrics.jsonl").write_text(line + '\n{"kind": "tra')
    (story,) = tell([run])
    assert (story.step, story.finished, story.seconds) == (20, False, {})


def test_what_is_no_run_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder, words in (
        (tmp_path / "nowhere", "no such folder"),
        (tmp_path, "is not a run"),
        (tmp_path / "file", "file"),
    ):
        with pytest.raises(UserError, match=words):
            tell([folder])
