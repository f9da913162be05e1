"""Validation on the way, the best checkpoint, and stopping early."""

import math

import pytest

from magnet.errors import UserError
from magnet.evaluation.errors import Judged
from magnet.training.folder import checkpoints, last_progress, open_checkpoint, read_manifest
from magnet.training.loop import Trainer
from training.short_runs import records, run, same, weights, write_vectors


@pytest.fixture
def log_losses(monkeypatch):
    """Lets a test say what the log-losses of a run's validations are, and the errors if they matter."""

    def these(*values, errors=None):
        given = iter(zip(errors or [0.5] * len(values), values, strict=True))
        monkeypatch.setattr("magnet.training.loop.judge", lambda *_, **__: Judged(*next(given)))

    return these


def test_the_best_checkpoint_is_kept_beside_the_last_two(vectors, tmp_path, log_losses):
    log_losses(0.5, 0.1, 0.4, 0.2, 0.3)
    folder = run(tmp_path / "run", vectors, epochs=5, validation=0.2) / "checkpoint"
    epochs = [read_manifest(path).step for path in checkpoints(folder)]
    each = epochs[-1] // 5
    assert epochs == [2 * each, 4 * each, 5 * each]
    best = open_checkpoint(folder, "best")
    assert best.step == 2 * each
    assert best.manifest.progress["best_log_loss"] == 0.1
    assert not same(weights(tmp_path / "run", "best"), weights(tmp_path / "run", "last"))


def test_among_equal_errors_the_lowest_log_loss_is_the_best(vectors, tmp_path, log_losses):
    log_losses(0.5, 0.3, 0.2, 0.4, errors=[0.0, 0.1, 0.1, 0.1])
    folder = run(tmp_path / "run", vectors, epochs=4, validation=0.2) / "checkpoint"
    last = open_checkpoint(folder, "last")
    each = last.step // 4
    assert last.manifest.progress["best_step"] == 3 * each
    assert last.manifest.progress["lowest_error"] == 0.0  # what a search of settings goes by
    assert open_checkpoint(folder, "best").description == f"best: step {3 * each} of {4 * each}"
    assert last.description == f"last: step {4 * each} of {4 * each}"


def test_among_equal_log_losses_the_latest_is_the_best(vectors, tmp_path, log_losses):
    log_losses(0.2, 0.2, 0.2)
    folder = run(tmp_path / "run", vectors, epochs=3, validation=0.2) / "checkpoint"
    assert open_checkpoint(folder, "best").path == checkpoints(folder)[-1]


def test_without_validation_the_last_checkpoint_is_described_as_the_last(vectors, tmp_path):
    folder = run(tmp_path / "run", vectors, steps=4) / "checkpoint"
    assert open_checkpoint(folder, "best").description == "last: step 4 of 4"


def test_patience_ends_a_run_whose_log_loss_gets_no_lower(vectors, tmp_path, log_losses):
    log_losses(0.5, 0.3, 0.3, 0.4)
    run(tmp_path / "run", vectors, epochs=20, validation=0.2, patience=2)
    assert [r["log_loss"] for r in records(tmp_path / "run", "validation")] == [0.5, 0.3, 0.3, 0.4]
    last = last_progress(tmp_path / "run" / "checkpoint")
    assert last["finished"]
    assert last["since_best"] == 2


def test_validation_may_be_rarer_than_epochs_and_happens_at_the_end(vectors, tmp_path):
    run(tmp_path / "run", vectors, epochs=5, validation=0.2, validate_every=2)
    steps = [r["step"] for r in records(tmp_path / "run", "validation")]
    each = steps[-1] // 5
    assert steps == [2 * each, 4 * each, 5 * each]


@pytest.mark.parametrize("method", ["magnet", "softmax", "triplet", "ncmc"])
def test_the_error_falls_on_data_that_can_be_learnt(method, tmp_path):
    run(tmp_path / "run", "digits", method=method, epochs=4, validation=0.2, learning_rate=0.03, dim=16, hidden=32)
    found = records(tmp_path / "run", "validation")
    assert found[-1]["error"] < 0.25  # by chance: 0.9
    assert found[-1]["log_loss"] < math.log(10)  # by chance


def test_a_validation_part_that_the_data_brings_is_used(tmp_path, log_losses):
    split = [0] * 60 + [1] * 15 + [2] * 15
    data = write_vectors(tmp_path / "split.npz", split=split)
    log_losses(0.5, 0.5)
    run(tmp_path / "run", data, epochs=9, patience=1)
    assert len(records(tmp_path / "run", "validation")) == 2


def test_patience_without_validation_is_refused(vectors, tmp_path):
    with pytest.raises(UserError, match="--patience needs validation data"):
        run(tmp_path / "run", vectors, patience=1)


def test_training_sees_neither_validation_nor_test(vectors, tmp_path, monkeypatch):
    seen = set()
    step = Trainer._next_batch

    def noting(trainer):
        places, raw = step(trainer)
        seen.update(trainer.bench.data.split[trainer.bench.train[places]].tolist())
        return places, raw

    monkeypatch.setattr(Trainer, "_next_batch", noting)
    run(tmp_path / "run", vectors, validation=0.2)
    assert seen == {0}
