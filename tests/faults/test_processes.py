"""Processes that end when they should not."""

import multiprocessing

import pytest
import torch

from faults.outcomes import SAID, command
from magnet.data import open_data
from magnet.training import loop
from magnet.training.inputs import batches, passes
from training.short_runs import write_images


def kill_workers():
    for worker in multiprocessing.active_children():
        worker.kill()


def test_a_killed_decoding_process_is_said_by_a_pass_over_the_images(tmp_path):
    data = open_data(write_images(tmp_path / "images", per_class=60))
    passed = batches(data, torch.arange(len(data)), passes(len(data), data.kind), 1)
    next(passed)
    kill_workers()
    with pytest.raises(ChildProcessError, match="a process that decodes images has ended"):
        list(passed)


def test_a_killed_decoding_process_is_said_by_a_training_which_can_go_on(tmp_path, monkeypatch):
    images, step = write_images(tmp_path / "images", per_class=60), loop.Trainer._step

    def killing(trainer):
        step(trainer)
        if trainer.step == 2:
            kill_workers()

    words = ["--data", images, "--backbone", "convnet", "--image-size", 12, "--steps", 40, "--workers", 1, "--quiet"]
    words += ["--clusters-per-batch", 2, "--examples-per-cluster", 2]  # many batches an epoch
    words += ["--preset", "paper/default", "--device", "cpu", "--no-evaluate", "--checkpoint-every", 1]
    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "_step", killing)
        outcome = command("train", *words, "--out", tmp_path / "run")
    assert outcome.kind == SAID
    assert "a process that decodes images has ended at step" in outcome.words
    assert f"go on: magnet train --resume {tmp_path / 'run'}" in outcome.words
