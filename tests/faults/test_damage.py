"""Nothing lost: a damaged file is noticed, and what is whole is used instead."""

import random
import shutil

import pytest

from faults.damage import damage, damaged_runs
from faults.outcomes import GOOD, SAID, SAME, command, printed
from magnet.cli import main
from magnet.training.folder import FOLDER, LEARNER, MANIFEST, checkpoints, open_checkpoint
from training.short_runs import differences, run, stop_at, write_vectors


def bad(cases):
    return [(what, outcome) for what, outcome in cases if outcome.kind not in GOOD]


def test_a_damaged_file_of_a_run_never_changes_a_result_in_silence(damaged_run, tmp_path):
    assert bad(damaged_runs(damaged_run, tmp_path, cases=60, seed=1)) == []


@pytest.mark.parametrize("name", [LEARNER, MANIFEST])
def test_a_damaged_checkpoint_is_named_in_one_line_and_the_one_before_it_is_used(name, damaged_run, tmp_path):
    copy = shutil.copytree(damaged_run, tmp_path / "copy")
    chosen = open_checkpoint(copy / FOLDER)
    damage(chosen.path / name, "flip", random.Random(0))
    found = open_checkpoint(copy / FOLDER)
    assert found.step != chosen.step
    (note,) = found.notes
    assert str(chosen.path / name) in note
    assert note.endswith(f"the checkpoint of step {found.step} is used instead")
    outcome = command("evaluate", copy, "--json")
    assert outcome.kind == SAME
    assert outcome.words == f"note: {note}"


def test_a_run_none_of_whose_checkpoints_is_whole_says_what_is_wrong_with_each(damaged_run, tmp_path):
    copy = shutil.copytree(damaged_run, tmp_path / "copy")
    for path in checkpoints(copy / FOLDER):
        (path / LEARNER).write_bytes(b"")
    outcome = command("evaluate", copy)
    assert outcome.kind == SAID
    assert all(path.name in outcome.words for path in checkpoints(copy / FOLDER))
    assert command("train", "--resume", copy).kind == SAID  # and is not begun anew


def test_files_of_two_checkpoints_are_not_mixed(damaged_run, tmp_path):
    copy = shutil.copytree(damaged_run, tmp_path / "copy")
    one, *_, other = checkpoints(copy / FOLDER)
    shutil.copy(one / LEARNER, other / LEARNER)
    assert "is not the file that manifest.json names" in open_checkpoint(copy / FOLDER, "last").notes[0]


def test_a_run_resumed_from_the_checkpoint_before_a_damaged_one_ends_the_same(tmp_path, monkeypatch):
    data = write_vectors(tmp_path / "x.npz")
    whole = run(tmp_path / "whole", data, epochs=4)
    stop_at(monkeypatch, 8)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", data, epochs=4)
    damage(checkpoints(tmp_path / "run" / FOLDER)[-1] / LEARNER, "zeros", random.Random(0))
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert differences(whole, tmp_path / "run") == []


def test_a_journal_with_a_damaged_line_is_said_to_be_damaged(damaged_run, tmp_path):
    copy = shutil.copytree(damaged_run, tmp_path / "copy")
    text = (copy / "metrics.jsonl").read_text()
    (copy / "metrics.jsonl").write_text(text.replace('"variance": ', '"variance": 9', 1))
    pytest.importorskip("matplotlib")
    outcome = command("report", copy, "--out", tmp_path / "r.html")
    assert "metrics.jsonl is damaged" in outcome.words


def test_a_changed_setting_is_said(damaged_run, tmp_path):
    copy = shutil.copytree(damaged_run, tmp_path / "copy")
    text = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(text.replace("neighbours: 128", "neighbours: 28"))
    outcome = command("evaluate", copy, "--json")
    assert "config.yaml has changed since its checkpoint was written: neighbours 28 (then 128)" in outcome.words


def test_a_first_use_that_was_killed_between_two_files_does_not_spoil_later_ones(damaged_run, tmp_path):
    rows = damaged_run.parent / "rows.npy"
    expected = printed("classify", damaged_run, rows, "--json")
    copy = shutil.copytree(damaged_run, tmp_path / "copy")
    for file in (copy / "cache").glob("*.json"):  # embeddings are there, the calibration is not
        file.unlink()
    assert printed("classify", copy, rows, "--json") == expected


def test_a_run_without_its_parts_is_not_said_to_have_data_that_moved(damaged_run, tmp_path):
    copy = shutil.copytree(damaged_run, tmp_path / "copy")
    (copy / "parts.safetensors").unlink()
    outcome = command("evaluate", copy)
    assert outcome.kind == SAID
    assert "Restore the file from a copy" in outcome.words
    assert "has moved" not in outcome.words


def test_kept_doubts_with_a_changed_digit_are_made_again(damaged_run, tmp_path):
    copy = shutil.copytree(damaged_run, tmp_path / "copy")
    expected = printed("suspects", copy, "--count", 5)
    (kept,) = (copy / "cache").glob("*suspects*")
    whole = kept.read_text()
    kept.write_text(whole.replace("0.", "9.", 1))
    assert printed("suspects", copy, "--count", 5) == expected
    assert kept.read_text() == whole
