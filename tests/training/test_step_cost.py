"""A step does the same operations however many examples there are, and Magnet few more than softmax."""

import numpy as np
import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from magnet.data import Dataset
from magnet.training.config import TrainConfig
from magnet.training.display import Display
from magnet.training.loop import Trainer
from magnet.training.train import make_fabric
from magnet.training.workbench import complete, make_workbench


class Count(TorchDispatchMode):
    """How many operations were dispatched."""

    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def operations(folder, method, examples):
    labels = np.arange(examples) % 20
    points = np.random.default_rng(0).normal(size=(examples, 8)).astype(np.float32)
    data = Dataset.from_arrays(points, labels)
    config = complete(TrainConfig(data="random", method=method, backbone="mlp", out=folder, steps=10**6), data)
    trainer = Trainer(
        make_workbench(config, data=data), make_fabric(config), Display("", silent=True), folder, resume=False
    )
    trainer.learner.train()
    trainer.refresh()
    for _ in range(11):  # from here on there are losses to take note of
        trainer._step()
    with Count() as count:
        trainer._step()
    return count.calls


@pytest.mark.parametrize("method", ["softmax", "magnet"])
def test_the_operations_of_a_step_do_not_depend_on_the_number_of_examples(method, tmp_path):
    found = []
    for examples in (2000, 6000):
        (tmp_path / str(examples)).mkdir()
        found.append(operations(tmp_path / str(examples), method, examples))
    assert found[0] == found[1]


def test_a_step_of_magnet_dispatches_at_most_forty_operations_more_than_one_of_softmax(tmp_path):
    counts = {}
    for method in ("softmax", "magnet"):
        (tmp_path / method).mkdir()
        counts[method] = operations(tmp_path / method, method, 2000)
    assert counts["magnet"] - counts["softmax"] <= 40
