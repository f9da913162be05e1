"""Processes that end when they should not."""

from multiprocessing import active_children

import pytest
import torch

from faults.outcomes import SAID, command
from faults.processes import kill_workers, killed_workers
from faults.test_damage import bad
from magnet.data import open_data
from magnet.training.inputs import batches, passes
from training.short_runs import write_images


def test_a_killed_decoding_process_is_said_by_a_pass_over_the_images(tmp_path):
    data = open_data(write_images(tmp_path / "images", per_class=60))
    passed = batches(data, torch.arange(len(data)), passes(len(data), data.kind), 1)
    next(passed)
    kill_workers()
    with pytest.raises(ChildProcessError, match="a process that decodes images has ended"):
        list(passed)


def test_a_killed_decoding_process_is_said_by_a_training_which_can_go_on(tmp_path):
    assert bad(killed_workers(tmp_path / "killed")) == []


def test_a_broken_image_ends_the_training_and_its_decoding_processes(tmp_path):
    """They hold signals back, and a process that waited for one of them to end would not end itself."""
    images = write_images(tmp_path / "images", per_class=16)
    for path in (tmp_path / "images" / "rows").iterdir():
        path.write_bytes(b"no image")
    options = ("--backbone", "convnet", "--hidden", 0, "--image-size", 12, "--epochs", 1, "--workers", 1, "--quiet")
    outcome = command("train", "--data", images, "--out", tmp_path / "run", *options)
    assert outcome.kind == SAID
    assert "cannot be read as an image" in outcome.words
    assert active_children() == []
