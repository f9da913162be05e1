"""Checksums can be forged: what a file says is checked all the same."""

import json
import shutil

import numpy as np
import pytest
import torch

import magnet
from faults.forged import forged, stopped_run
from faults.outcomes import GOOD, SAID, SAME, command
from faults.test_damage import bad
from magnet.errors import UserError
from magnet.files import DIGEST, read_tensors, write_record, write_tensors
from magnet.training.folder import LEARNER, MANIFEST


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    model = magnet.NearestClustersClassifier(random_state=0).fit(rng.normal(size=(60, 4)) + y[:, None], y)
    path = tmp_path_factory.mktemp("saved") / "model"
    model.save(path)
    return path


def test_forged_files_are_refused_in_words_or_give_numbers(damaged_run, tmp_path):
    assert bad(forged(damaged_run, tmp_path, cases=30, seed=1)) == []


def test_a_run_with_forged_files_resumes_or_is_refused_in_words(damaged_run, tmp_path):
    assert bad(forged(damaged_run, tmp_path / "scratch", cases=6, seed=3, resumed=True)) == []


def test_clusters_of_more_members_than_memory_holds_are_refused(saved, tmp_path):
    """torch was killed by a signal when it was to repeat an id 2**62 times."""
    tensors, about, _ = read_tensors(saved, None)
    tensors["centre_counts_"] = torch.full_like(tensors["centre_counts_"], 2**62)
    write_tensors(tmp_path / "model", tensors, about)
    with pytest.raises(UserError, match="more members than memory could hold"):
        magnet.NearestClustersClassifier.load(tmp_path / "model")


def test_an_estimator_without_a_part_that_it_needs_is_refused(saved, tmp_path):
    tensors, about, _ = read_tensors(saved, None)
    values = json.loads(about["estimator"])
    del values["values"]["novelty_threshold_"]
    write_tensors(tmp_path / "model", tensors, {**about, "estimator": json.dumps(values)})
    with pytest.raises(UserError, match="lacks 'novelty_threshold_'"):
        magnet.NearestClustersClassifier.load(tmp_path / "model")


def test_a_run_whose_variance_is_zero_still_answers(damaged_run, tmp_path):
    copy = shutil.copytree(damaged_run, tmp_path / "run", ignore=shutil.ignore_patterns("cache"))
    for path in copy.rglob(LEARNER):
        tensors, about, before = read_tensors(path, None)
        tensors["method.objective.average"].zero_()
        after = write_tensors(path, tensors, about)
        manifest = json.loads(path.with_name(MANIFEST).read_text().replace(before, after))
        del manifest[DIGEST]
        write_record(path.with_name(MANIFEST), manifest)
    assert command("classify", copy, damaged_run.parent / "rows.npy").kind in GOOD


def test_a_run_is_not_resumed_with_clusters_of_other_classes(damaged_run, tmp_path):
    run = stopped_run(tmp_path / "run", damaged_run.parent / "x.npz")
    for path in run.rglob("index.safetensors"):
        tensors, about, before = read_tensors(path, None)
        tensors["centre_labels"].fill_(1)
        after = write_tensors(path, tensors, about)
        manifest = json.loads(path.with_name(MANIFEST).read_text().replace(before, after))
        del manifest[DIGEST]
        write_record(path.with_name(MANIFEST), manifest)
    outcome = command("train", "--resume", run, "--quiet")
    assert (outcome.kind, "its clusters hold examples of other classes" in outcome.words) == (SAID, True)


def test_an_index_of_half_precision_grows():
    ids = torch.arange(3)
    index = magnet.ClusterIndex(torch.eye(3).half(), ids, ids, torch.tensor(1.0).half())
    assert index.grown(torch.randn(6, 3), torch.arange(6) % 4, reach=1.0).centres.dtype == torch.float16


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (("plain", "knc", "error"), "much"),
        (("verification",), [1]),
        (("calibration", "temperatures"), 3),
        (("worst",), [{"class": 3}]),
        (("n",), 10**30),
        (("rule",), "head"),
        (("views",), 3),
        (("knc", "ece"), 7.0),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else "",
)
def test_a_forged_evaluation_is_made_again(damaged_run, tmp_path, change, value):
    copy = shutil.copytree(damaged_run, tmp_path / "run")
    (kept,) = (copy / "cache").glob("*.test-1.json")
    whole = json.loads(kept.read_text())
    forged = json.loads(kept.read_text())
    del forged[DIGEST]
    *path, last = change
    place = forged["result"]
    for name in path:
        place = place[name]
    place[last] = value
    write_record(kept, forged)
    pytest.importorskip("matplotlib")
    assert command("report", copy, "--out", tmp_path / "r.html").kind == SAME
    assert json.loads(kept.read_text())["result"] == whole["result"]


def test_forged_findings_of_a_report_are_made_again(damaged_run, tmp_path):
    pytest.importorskip("matplotlib")
    copy = shutil.copytree(damaged_run, tmp_path / "run")
    assert command("report", copy, "--out", tmp_path / "r.html").kind == SAME
    (kept,) = (copy / "cache").glob("*.report.json")
    whole = json.loads(kept.read_text())["findings"]
    picture = {"label": 0, "taken": 1, "n": 1, "mistakes": ["https://example.org/x.png"]}
    for name, value in {"classes": [99], "n": [1], "cells": [[0, 0]], "small": 3, "pairs": [picture]}.items():
        forged = json.loads(kept.read_text())
        del forged[DIGEST]
        forged["findings"]["confusion"][name] = value
        write_record(kept, forged)
        assert command("report", copy, "--out", tmp_path / "r.html").kind == SAME
        assert json.loads(kept.read_text())["findings"]["confusion"] == whole["confusion"]


@pytest.mark.parametrize("value", ['"x"', "[]", "null", "1e400", "1" + "0" * 400, '{"training": "x"}'])
def test_a_report_leaves_out_lines_of_the_journal_that_are_no_records(damaged_run, tmp_path, value):
    pytest.importorskip("matplotlib")
    copy = shutil.copytree(damaged_run, tmp_path / "run")
    with (copy / "metrics.jsonl").open("a") as file:
        for kind in ("time", "validation", "train"):
            file.write(f'{{"kind": "{kind}", "step": 9, "seconds": {value}, "error": {value}, "loss": {value}}}\n')
        file.write(f'{{"kind": "train", "step": {value}}}\n')
    assert command("report", copy, "--out", tmp_path / "r.html").kind == SAME
