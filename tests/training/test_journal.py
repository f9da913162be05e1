"""metrics.jsonl and TensorBoard: what a run tells of itself."""

import json
import math

import pytest
import torch

from magnet.training.display import BatchWatch, churn
from magnet.training.folder import Journal, read_journal
from training.short_runs import records, run


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    run(folder, "digits", method="magnet", epochs=2, validation=0.2, learning_rate=0.02)
    return read_journal(folder)


def of(journal, kind):
    return [record for record in journal if record["kind"] == kind]


def test_every_kind_of_record_is_there_in_the_order_of_steps(journal):
    assert {record["kind"] for record in journal} == {"train", "refresh", "validation", "time"}
    assert [r["step"] for r in journal] == sorted(r["step"] for r in journal)
    assert journal[-1]["kind"] == "time"


def test_train_records_tell_loss_activity_sigma_rate_and_classes(journal):
    for record in of(journal, "train"):
        assert record["loss"] >= 0
        assert 0 <= record["active"] <= 1
        assert record["sigma"] > 0
        assert record["rate"] == 0.02
        assert 2 <= record["classes_per_batch"] <= 6  # six clusters, at most as many classes


def test_refresh_records_tell_what_reveals_a_broken_run(journal):
    first, *later = of(journal, "refresh")
    assert first["step"] == 0
    assert "churn" not in first
    steps = later[0]["step"]
    for record in later:
        assert record["clusters"] == 20
        assert 1 <= record["smallest_cluster"] <= 1257 // 20
        assert 0 <= record["churn"] < 1
        assert 0.5 < record["seed_coverage"] <= 1  # twenty clusters, over forty batches
        assert sum(record["impostor_classes"].values()) <= 5 * steps
        assert len(record["impostor_classes"]) == 10


def test_validation_records_tell_the_error_and_its_rule(journal):
    for record in of(journal, "validation"):
        assert record["rule"] == "knc"
        assert 0 <= record["error"] < 0.2


def test_time_is_told_by_share(journal):
    seconds = of(journal, "time")[0]["seconds"]
    assert set(seconds) == {"training", "embedding", "refresh", "validation"}
    assert all(0 < value < 60 for value in seconds.values())


def test_softmax_has_no_sigma_and_no_refresh(vectors, tmp_path):
    run(tmp_path / "run", vectors, method="softmax")
    assert records(tmp_path / "run", "refresh") == []
    assert all(record["sigma"] is None for record in records(tmp_path / "run", "train"))


def test_a_last_line_cut_short_is_left_out(tmp_path):
    whole = json.dumps({"kind": "train", "step": 1})
    (tmp_path / "metrics.jsonl").write_text(f'{whole}\n{{"kind": "tra')
    assert read_journal(tmp_path) == [{"kind": "train", "step": 1}]
    journal = Journal(tmp_path, resume_at=1)
    journal.write("train", 2, {"loss": 0.5})
    journal.close()
    assert [record["step"] for record in read_journal(tmp_path)] == [1, 2]


def test_what_came_after_the_checkpoint_is_dropped_on_resume(tmp_path):
    journal = Journal(tmp_path)
    for step in (1, 2, 3):
        journal.write("train", step, {})
    journal.write("time", 3, {"seconds": {}})
    journal.close()
    Journal(tmp_path, resume_at=2).close()
    assert [record["step"] for record in read_journal(tmp_path)] == [1, 2]


def test_tensorboard_gets_the_same_numbers(vectors, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(tmp_path / "run", vectors, steps=4, logger="tensorboard")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    (written,) = events.Scalars("train/loss")
    (record,) = records(tmp_path / "run", "train")
    assert written.step == record["step"] == 4
    assert math.isclose(written.value, record["loss"], rel_tol=1e-6)
    assert "refresh/smallest_cluster" in events.Tags()["scalars"]


def test_churn_is_that_of_a_table_of_all_pairs():
    for seed in range(10):
        g = torch.Generator().manual_seed(seed)
        before, after = (torch.randint(1 + seed, (80,), generator=g) for _ in range(2))
        table = torch.zeros(1 + seed, 1 + seed)
        for old, new in zip(before.tolist(), after.tolist(), strict=True):
            table[new, old] += 1
        assert churn(before, after) == pytest.approx(1 - float(table.amax(dim=1).sum()) / 80)


def test_churn_ignores_how_clusters_are_numbered():
    before = torch.tensor([0, 0, 0, 1, 1, 2])
    assert churn(before, torch.tensor([2, 2, 2, 0, 0, 1])) == 0
    assert churn(before, torch.tensor([0, 0, 1, 1, 1, 2])) == pytest.approx(1 / 6)


def test_the_seed_class_is_not_counted_among_its_impostors():
    watch = BatchWatch(torch.arange(4))
    watch.see(torch.tensor([1, 1, 0, 3]), torch.tensor([5, 5, 2, 7]), draws_clusters=True)
    watch.see(torch.tensor([0, 0, 3, 3]), torch.tensor([2, 2, 7, 7]), draws_clusters=True)
    assert watch.report() == {"classes_per_batch": 2.5}
    assert (watch.seeds, dict(watch.impostors)) == ({5, 2}, {0: 1, 3: 2})
    copy = BatchWatch(torch.arange(4))
    copy.restore(json.loads(json.dumps(watch.state())))
    assert (copy.seeds, copy.impostors, copy.distinct) == (watch.seeds, watch.impostors, watch.distinct)
