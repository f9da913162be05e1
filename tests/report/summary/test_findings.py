import json
from pathlib import Path

import pytest
import torch

from magnet.errors import UserError
from magnet.index import ClusterIndex
from magnet.report.summary.findings import read_runs, rivals, short_names
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
    assert len(read_runs([run, tmp_path / "." / "run"])) == 1


def test_a_run_that_was_killed_before_its_first_checkpoint_has_what_its_journal_has(tmp_path):
    run = make_run(tmp_path / "run")
    line = json.dumps({"kind": "train", "step": 20, "loss": 1.0})
    (run / "metrics.jsonl").write_text(line + '\n{"kind": "tra')
    (known,) = read_runs([run])
    assert (known.step, known.finished, known.seconds) == (20, False, {})


def test_what_is_no_run_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder, words in (
        (tmp_path / "nowhere", "no such folder"),
        (tmp_path, "is not a run"),
        (tmp_path / "file", "file"),
    ):
        with pytest.raises(UserError, match=words):
            read_runs([folder])


def test_rivals_are_the_nearest_impostor_clusters_by_brute_force():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 5
    points = torch.randn(200, 4, generator=generator) + labels[:, None]
    index = ClusterIndex.fit(points, labels, 3)
    classes, sigma = list("abcde"), float(index.variance) ** 0.5
    for label in range(5):
        best: dict[int, tuple[float, int]] = {}
        for own in range(len(index)):
            for other in range(len(index)):
                if index.centre_labels[own] == label and index.centre_labels[other] != label:
                    apart = float((index.centres[own] - index.centres[other]).norm()) / sigma
                    best[other] = min(best.get(other, (apart, own)), (apart, own))
        expected = sorted((apart, own, other) for other, (apart, own) in best.items())[:3]
        found = rivals(index, label, classes, sigma)
        assert [(row["own"], row["cluster"]) for row in found] == [(own, other) for _, own, other in expected]
        assert [row["distance"] for row in found] == pytest.approx([apart for apart, _, _ in expected], rel=1e-4)
        for row in found:
            assert row["class"] == classes[int(index.centre_labels[row["cluster"]])]
            assert (row["size"], row["own_size"]) == (index.sizes[row["cluster"]], index.sizes[row["own"]])


def test_fewer_impostors_than_wanted_and_a_class_without_clusters():
    index = ClusterIndex.fit(torch.tensor([[0.0], [1.0], [5.0], [6.0]]), torch.tensor([0, 0, 1, 1]), 1)
    assert [row["class"] for row in rivals(index, 0, ["a", "b", "never"], 1.0)] == ["b"]
    assert rivals(index, 2, ["a", "b", "never"], 1.0) == []
