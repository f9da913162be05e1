"""Rates, clipping, precision, length: what the optimiser is told."""

import math

import pytest
import torch

from magnet.errors import UserError
from magnet.training.folder import checkpoints
from magnet.training.loop import Trainer
from magnet.training.train import train
from magnet.training.workbench import make_workbench
from training.short_runs import records, run, settings, weights


@pytest.fixture
def rates(monkeypatch):
    """The learning rates of all steps taken, one list for each step's parameter groups."""
    found = []
    step = Trainer._step

    def noting(trainer):
        step(trainer)
        found.append([group["lr"] for group in trainer.optimiser.param_groups])

    monkeypatch.setattr(Trainer, "_step", noting)
    return found


def test_annealing_multiplies_the_rate_every_epoch(vectors, tmp_path, rates):
    run(tmp_path / "run", vectors, epochs=3, learning_rate=0.1, annealing=0.5)
    each = len(rates) // 3
    assert [rate for (rate,) in rates] == [0.1] * each + [0.05] * each + [0.025] * each


def test_a_cosine_falls_from_the_rate_to_zero(vectors, tmp_path, rates):
    run(tmp_path / "run", vectors, steps=8, learning_rate=0.1, schedule="cosine")
    assert [rate for (rate,) in rates] == pytest.approx([0.05 * (1 + math.cos(math.pi * i / 8)) for i in range(8)])


def test_all_layers_but_the_last_of_an_image_network_have_their_own_rate(images, tmp_path, rates):
    run(tmp_path / "run", images, steps=2, image_size=12, hidden=0, learning_rate=0.1, trunk_rate=0.1, workers=0)
    assert rates == [pytest.approx([0.1, 0.01])] * 2


def test_a_frozen_part_keeps_its_weights_and_the_rest_learns(images, tmp_path):
    options = {"backbone": "convnet", "image_size": 12, "hidden": 0, "workers": 0, "freeze_part": 0.4}
    begun = make_workbench(settings(tmp_path / "run", images, **options)).learner.state_dict()
    after = weights(run(tmp_path / "run", images, steps=2, **options))
    moved = [not torch.equal(begun[f"network.features.{i}.0.weight"], after[f"network.features.{i}.0.weight"])
             for i in (0, 2, 3, 5, 6)]  # fmt: skip
    assert moved == [False, False, True, True, True]


def test_the_first_step_of_adamw_is_as_long_as_the_rate_whatever_the_gradient(vectors, tmp_path):
    options = {"method": "softmax", "backbone": "linear", "hidden": 0, "learning_rate": 1e-3}
    begun = make_workbench(settings(tmp_path / "run", vectors, **options)).learner.method.head.weight
    after = weights(run(tmp_path / "run", vectors, steps=1, optimiser="adamw", **options))["method.head.weight"]
    torch.testing.assert_close((after - begun).abs(), torch.full_like(begun, 1e-3), rtol=0.01, atol=1e-6)


def test_an_epoch_is_as_many_steps_for_every_method(tmp_path):
    lengths = set()
    for method in ("magnet", "softmax", "triplet", "contrastive"):
        run(tmp_path / method, "digits", method=method, epochs=1)
        lengths.add(checkpoints(tmp_path / method / "checkpoint")[-1].name)
    assert lengths == {f"step-{math.ceil(1257 / 24):08d}"}


def test_the_gradient_is_clipped(vectors, tmp_path, monkeypatch):
    norms = []
    step = torch.optim.SGD.step

    def noting(optimiser, *arguments, **options):
        gradients = [p.grad for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
        norms.append(float(torch.nn.utils.get_total_norm(gradients)))
        return step(optimiser, *arguments, **options)

    monkeypatch.setattr(torch.optim.SGD, "step", noting)
    run(tmp_path / "run", vectors, steps=4, clip=0.01, alpha=5)
    assert max(norms) == pytest.approx(0.01, rel=1e-3)


def test_mixed_precision_trains_and_keeps_full_weights(tmp_path):
    run(tmp_path / "run", "digits", epochs=4, precision="bf16-mixed", validation=0.2, learning_rate=0.03, dim=16)
    assert records(tmp_path / "run", "validation")[-1]["error"] < 0.15
    assert {w.dtype for w in weights(tmp_path / "run").values()} <= {torch.float32, torch.float64, torch.long}


def test_no_epochs_leave_an_untrained_network_that_can_be_judged(vectors, tmp_path):
    run(tmp_path / "run", vectors, epochs=0)
    assert [path.name for path in checkpoints(tmp_path / "run" / "checkpoint")] == ["step-00000000"]


@pytest.mark.parametrize("method", ["magnet", "softmax"])
def test_a_run_that_diverges_stops_with_advice(method, vectors, tmp_path):
    advice = r"at step \d+: lower --learning-rate or give --clip 1; the last checkpoint is in"
    for rate in (1e8, 1e12, 1e25, 1e38):
        config = settings(tmp_path / f"{rate}", vectors, method=method, learning_rate=rate, epochs=30)
        with pytest.raises(FloatingPointError, match=advice):
            train(config, silent=True)


def test_a_loss_that_no_sampler_takes_is_a_divergence(vectors, tmp_path, monkeypatch):
    monkeypatch.setattr("magnet.training.loop.LARGEST_LOSS", 1e-6)
    with pytest.raises(FloatingPointError, match=r"the loss became .* at step 1: lower --learning-rate"):
        train(settings(tmp_path / "run", vectors, method="softmax"), silent=True)


def test_freeze_leaves_all_but_the_last_layer_as_it_was(images, tmp_path):
    options = {"image_size": 12, "hidden": 0, "workers": 0, "alpha": 100.0}  # a gap that these images do not have
    before = weights(run(tmp_path / "before", images, epochs=0, **options))
    after = weights(run(tmp_path / "after", images, steps=3, freeze=True, **options))
    moved = {name for name in before if name.startswith("network.") and not torch.equal(before[name], after[name])}
    statistics = {name for name in moved if ".running_" in name or name.endswith("num_batches_tracked")}
    assert moved - statistics == {"network.embedding.weight", "network.embedding.bias"}


def test_freeze_without_a_last_layer_is_refused_since_nothing_is_left_to_learn(images, tmp_path):
    with pytest.raises(UserError, match=r"nothing is left to learn: --freeze .* give one with --dim 128"):
        run(tmp_path / "run", images, backbone="timm/resnet10t", image_size=32, hidden=0, dim=0, freeze=True, workers=0)


def test_freeze_batchnorm_keeps_the_statistics_of_the_weights_it_starts_from(images, tmp_path):
    options = {"image_size": 12, "hidden": 0, "workers": 0, "alpha": 100.0}
    first = run(tmp_path / "first", images, steps=3, method="softmax", **options)
    moved = {}
    for fixed in (False, True):
        again = run(tmp_path / f"{fixed}", images, steps=3, warm_start=first, freeze_batchnorm=fixed, **options)
        before, after = weights(first), weights(again)
        both = {name for name in before if name.startswith("network.") and name in after}
        moved[fixed] = {name for name in both if not torch.equal(before[name], after[name])}
    statistics = {name for name in moved[False] if ".running_" in name}
    assert statistics
    assert not statistics & moved[True]
    assert {name for name in moved[True] if name.endswith(".weight")}


def test_freeze_batchnorm_without_pretrained_weights_is_refused(images, tmp_path):
    with pytest.raises(UserError, match="give --weights or --warm-start"):
        run(tmp_path / "run", images, steps=1, freeze_batchnorm=True)
