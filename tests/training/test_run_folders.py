"""What is in a run folder, and that reading it executes nothing."""

import pickle

import pytest
import torch
from safetensors.torch import load_file

from magnet.runs.run import Run
from magnet.training.train import LOCK
from training.short_runs import run


@pytest.mark.parametrize("method", ["magnet", "triplet"])
def test_opening_and_resuming_a_run_never_unpickles(method, vectors, tmp_path, monkeypatch):
    folder = run(tmp_path / "run", vectors, method=method, epochs=2, validation=0.2)

    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    for module, name in ((torch, "load"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(module, name, refuse)
    opened = Run(str(folder), device="cpu")  # a string will do
    assert opened.folder == folder
    assert opened.references.shape == (len(opened.train), 8)
    assert Run(folder, device="cpu", which="last").step >= opened.step
    from magnet.training.config import read_config
    from magnet.training.train import train

    train(read_config(folder), resume=True, silent=True)


def test_a_run_holds_text_and_tensors_alone(vectors, tmp_path):
    folder = run(tmp_path / "run", vectors, keep_refreshes=2, validation=0.2, warm_start_epochs=1)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.stat().st_size for path in files if path.name == LOCK} == {0}
    kinds = {path.suffix for path in files if path.name != LOCK}
    assert kinds == {".yaml", ".jsonl", ".json", ".safetensors"}


@pytest.mark.parametrize(("wanted", "steps"), [(1, [0]), (2, [0, 8]), (3, [0, 4, 8]), (99, [0, 2, 4, 6, 8])])
def test_as_many_refreshes_as_wanted_are_kept_spread_over_the_run(wanted, steps, vectors, tmp_path):
    folder = run(tmp_path / "run", vectors, steps=9, refresh_every=2, keep_refreshes=wanted)
    kept = sorted((folder / "refreshes").iterdir())
    assert [path.name for path in kept] == [f"step-{step:08d}.safetensors" for step in steps]
    tensors = load_file(kept[0])
    assert tensors["representations"].shape == (63, 8)
    assert tensors["assignments"].shape == (63,)


def test_no_refreshes_are_kept_unless_wanted(vectors, tmp_path):
    assert not (run(tmp_path / "run", vectors, steps=2) / "refreshes").exists()


@pytest.mark.parametrize("method", ["magnet", "triplet", "softmax"])
def test_reading_a_run_makes_no_sampler_and_opens_no_data_that_it_does_not_need(method, vectors, tmp_path):
    folder = run(tmp_path / "run", vectors, method=method, epochs=1)
    opened = Run(folder, device="cpu")
    votes = opened.rule("knn").predict_proba(opened.references)
    assert "sampler" not in vars(opened.learner.method)
    closed = Run(folder, device="cpu", need_data=False)
    assert not closed.opened
    assert closed.rule("knn").predict_proba(closed.references).equal(votes)
    assert (closed.classes, closed.kind, closed.shape) == (opened.classes, opened.kind, opened.shape)
    assert closed.labels.equal(opened.labels)
    assert "sampler" not in vars(closed.learner.method)
