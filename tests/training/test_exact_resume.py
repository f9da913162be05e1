"""A run that was killed and resumed ends exactly like one that was not."""

import dataclasses
import shutil
import time

import pytest

from magnet.training.config import read_config
from magnet.training.folder import checkpoints
from magnet.training.train import train
from training.short_runs import differences, flags, run, settings, start, stop_at

ODD = {"refresh_every": 5, "validation": 0.2, "steps": 17, "examples_per_cluster": 3}


def go_on(folder):
    return train(read_config(folder), resume=True, silent=True)


@pytest.mark.parametrize("method", ["magnet", "softmax", "triplet", "contrastive", "nca", "cluster-nca", "ncmc"])
def test_a_run_interrupted_at_several_steps_ends_like_one_that_was_not(method, vectors, tmp_path, monkeypatch):
    whole = run(tmp_path / "whole", vectors, method=method, dropout=0.2, **ODD)
    config = settings(tmp_path / "stopped", vectors, method=method, dropout=0.2, **ODD)
    stop_at(monkeypatch, 1, 7, 8, 14)
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt, match=r"go on: magnet train --resume"):
            train(config, resume=True, silent=True)  # which starts what has not been started
    go_on(tmp_path / "stopped")
    assert differences(whole, tmp_path / "stopped") == []


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Checks that a run that was interrupted once, and then resumed, ends like one that was not."""

    def check(data, step, **options):
        whole = run(tmp_path / "whole", data, **ODD | options)
        stop_at(monkeypatch, step)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", data, **ODD | options)
        go_on(tmp_path / "stopped")
        assert differences(whole, tmp_path / "stopped") == []

    return check


def test_so_does_a_run_whose_representations_are_made_by_shards(vectors, check, monkeypatch):
    monkeypatch.setattr("magnet.training.refresh.SHARD", 300)
    check(vectors, 7)


def test_so_does_an_image_run_with_batch_norm_augmentation_and_workers(images, check):
    check(images, 4, hidden=0, image_size=12, flip=True, workers=2, steps=7, refresh_every=3, validate_every=9)


def test_so_does_one_with_mixed_precision_and_every_rate_different(vectors, check):
    check(vectors, 3, precision="bf16-mixed", schedule="cosine", weight_decay=0.01, clip=0.5)


def test_an_interrupted_warm_start_goes_on_as_well(vectors, tmp_path, monkeypatch):
    whole = run(tmp_path / "whole", vectors, warm_start_epochs=2)
    stop_at(monkeypatch, 3, 4)
    with pytest.raises(KeyboardInterrupt, match=r"warm start; go on: magnet train --resume \S*stopped$"):
        run(tmp_path / "stopped", vectors, warm_start_epochs=2)
    with pytest.raises(KeyboardInterrupt):
        go_on(tmp_path / "stopped")
    go_on(tmp_path / "stopped")
    assert differences(whole / "warm-start", tmp_path / "stopped" / "warm-start") == []
    assert differences(whole, tmp_path / "stopped") == []


def test_a_torn_checkpoint_is_passed_over(vectors, tmp_path, monkeypatch):
    whole = run(tmp_path / "whole", vectors, **ODD)
    stop_at(monkeypatch, 14)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "torn", vectors, **ODD)
    folder = tmp_path / "torn" / "checkpoint"
    (folder / "step-00000014" / "learner.safetensors").unlink()
    shutil.copytree(folder / "step-00000014", folder / ".step-00000014.0a1b2c3d.part")
    go_on(tmp_path / "torn")
    assert differences(whole, tmp_path / "torn") == []
    assert {path.name for path in folder.iterdir()} == {path.name for path in (whole / "checkpoint").iterdir()}


def test_a_checkpoint_is_never_removed_where_it_stands(vectors, tmp_path, monkeypatch):
    removed = []
    remove = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda path, **more: (removed.append(path.name), remove(path, **more)))
    run(tmp_path / "run", vectors, epochs=5)
    assert removed
    assert all(name.endswith(".part") for name in removed)
    assert len(checkpoints(tmp_path / "run" / "checkpoint")) == 2


def test_resuming_a_run_without_a_checkpoint_starts_it_anew(vectors, tmp_path):
    whole = run(tmp_path / "whole", vectors)
    early = settings(tmp_path / "early", vectors)
    (tmp_path / "early").mkdir()
    dataclasses.replace(early, backbone="mlp").save(tmp_path / "early" / "config.yaml")
    go_on(tmp_path / "early")
    assert differences(whole, tmp_path / "early") == []


@pytest.mark.slow
def test_a_run_killed_at_any_moment_ends_like_one_that_was_not(vectors, tmp_path):
    options = {"epochs": 120, "checkpoint_every": 3, "refresh_every": 7, "preset": "paper/default"}
    process = start("train", *flags(settings(tmp_path / "killed", vectors, quiet=True, **options)))
    while not checkpoints(tmp_path / "killed" / "checkpoint"):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.01)
    time.sleep(0.2)
    process.kill()
    process.communicate()
    assert process.returncode == -9, "the run ended before it was killed: make it longer"
    go_on(tmp_path / "killed")
    whole = run(tmp_path / "whole", vectors, **options)
    assert differences(whole, tmp_path / "killed") == []
