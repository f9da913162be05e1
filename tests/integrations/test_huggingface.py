"""MagnetTrainer, a Hugging Face trainer."""

import pytest
import torch
from torch import nn

import magnet
from methods.toy import blobs

pytest.importorskip("magnet.integrations.huggingface", exc_type=ImportError)
from transformers import TrainingArguments

from magnet.integrations.huggingface import MagnetTrainer

X, Y = blobs(120)
X_TEST, Y_TEST = blobs(60, seed=1)


def items(x, y):
    return [{"x": row, "labels": label} for row, label in zip(x, y, strict=True)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 4))

    def forward(self, x):
        return self.net(x)


def fit(folder, *, epochs=3, resume=None, save=2, every=0, objective=None):
    """An epoch is 5 batches of 24."""
    torch.manual_seed(0)
    arguments = TrainingArguments(
        str(folder), num_train_epochs=epochs, learning_rate=0.02, per_device_eval_batch_size=50, use_cpu=True,
        report_to=[], disable_tqdm=True, save_strategy="steps", save_steps=save, logging_strategy="no",
    )  # fmt: skip
    neighbourhoods = {"clusters_per_class": 2, "clusters_per_batch": 4, "examples_per_cluster": 6}
    trainer = MagnetTrainer(
        model=Net(), args=arguments, train_dataset=items(X, Y), eval_dataset=items(X_TEST, Y_TEST), labels=Y,
        objective=objective, neighbourhoods=neighbourhoods | {"refresh_every": every},
    )  # fmt: skip
    trainer.looks = []
    refresh = trainer.refresh
    trainer.refresh = lambda: (trainer.looks.append(trainer.neighbourhoods.steps), refresh())
    trainer.train(resume and str(folder / f"checkpoint-{resume}"))
    return trainer


def test_the_index_is_made_before_the_first_step_and_after_every_epoch(tmp_path):
    trainer = fit(tmp_path)
    assert trainer.looks == [0, 5, 10, 15]
    assert trainer.state.global_step == trainer.neighbourhoods.steps == 15
    with torch.no_grad():
        expected = magnet.ClusterIndex.fit(trainer.model.eval()(X), Y, 2, seed=15)
    assert torch.equal(trainer.index.assignments, expected.assignments)


def test_or_every_so_many_batches(tmp_path):
    assert fit(tmp_path, every=4).looks == [0, 4, 8, 12]


@pytest.mark.parametrize("at", [2, 10, 12])  # 10 is the end of an epoch
def test_a_run_restored_from_a_checkpoint_ends_like_one_that_was_not_stopped(at, tmp_path):
    whole, rest = fit(tmp_path), fit(tmp_path, resume=at)
    assert rest.looks == [n for n in (5, 10, 15) if n > at]
    assert rest.state.global_step == 15
    assert rest.index == whole.index
    assert rest.objective.variance == whole.objective.variance
    pairs = zip(whole.model.parameters(), rest.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_blobs_are_learnt_and_the_loss_of_an_evaluation_is_that_over_the_index(tmp_path):
    trainer = fit(tmp_path, epochs=10, save=1000, objective=magnet.MagnetLoss(alpha=0.5, scaling=2.0))
    with torch.no_grad():
        r = trainer.model.eval()(X_TEST)
    classifier = magnet.NearestClusters(trainer.index, variance=trainer.objective.variance, scaling=2.0)
    assert (classifier.predict(r) != Y_TEST).float().mean() < 0.05
    own = [
        min((j for j in range(len(trainer.index)) if trainer.index.centre_labels[j] == label),
            key=lambda j, row=row: float((row - trainer.index.centres[j]).norm()))
        for row, label in zip(r, Y_TEST, strict=True)
    ]  # fmt: skip
    expected = magnet.magnet_objective(
        r, torch.tensor(own), trainer.index.centres, trainer.index.centre_labels, alpha=0.5, scaling=2.0,
        variance=trainer.objective.variance,
    )  # fmt: skip
    assert trainer.evaluate()["eval_loss"] == pytest.approx(float(expected.loss), rel=1e-4)
