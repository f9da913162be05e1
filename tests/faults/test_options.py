"""Options with values that make no sense are refused in words, or mean something."""

import pytest

from faults.options import odd_options, odd_readers
from faults.outcomes import SAID, command
from faults.test_damage import bad
from magnet.commands.serve import listen
from magnet.errors import UserError


def test_odd_values_of_options_of_train_are_refused_in_words(tmp_path):
    assert bad(odd_options(tmp_path, cases=12, seed=1)) == []


def test_odd_values_of_options_of_other_commands_are_refused_in_words(damaged_run, tmp_path):
    pytest.importorskip("uvicorn")
    assert bad(odd_readers(damaged_run, tmp_path, cases=25, seed=1)) == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["search", "RUN", "ROWS", "--count", 10**20], "--count must be at most 1,000,000,000"),
        (["classify", "RUN", "ROWS", "--dims", 10**20], "--dims must be at most 1,000,000,000"),
        (
            ["embed", "RUN", "ROWS", "--out", "e.npz", "--test-draws", 10**12],
            "--test-draws must be at least 1 and at most",
        ),
        (["evaluate", "RUN", "--test-draws", -1], "--test-draws must be at least 1 and at most"),
        (["evaluate", "RUN", "--test-draws", 10**20], "--test-draws must be at least 1 and at most"),
        (["explore", "RUN", "--seed", -1], "--seed must be at least 0"),
        (["explore", "RUN", "--seed", 2**32], "--seed must be at most 4,294,967,295"),
        (["serve", "RUN", "--megabytes", 10**12], "--megabytes must be at most"),
        (["tune", "--data", "digits", "--jobs", 10**12], "--jobs must be at most 1,024"),
        (["export", "RUN", "--to", ""], "'.' is no name of a new folder"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_numbers_that_no_machine_can_do_are_said_before_they_are_tried(
    words, found, damaged_run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    places = {"RUN": damaged_run, "ROWS": damaged_run.parent / "rows.npy"}
    outcome = command(*[places.get(word, word) for word in words])
    assert outcome.kind == SAID
    assert found in outcome.words


def test_a_host_that_is_no_name_is_said():
    with pytest.raises(UserError, match="cannot listen at"):
        listen("\udcff", 0)
