"""The losses of pytorch-metric-learning as methods of our engine."""

import builtins
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

from magnet.errors import UserError
from magnet.methods import Batch, Options, method_class
from magnet.methods.pml import read_call
from magnet.training.config import TrainConfig, read_config
from magnet.training.train import train as train_run
from methods.toy import blobs, setting_of, train
from training.short_runs import SMALL, differences, stop_at, write_vectors

losses = pytest.importorskip("pytorch_metric_learning.losses")

OPTIONS = Options(clusters_per_class=2, clusters_per_batch=4, examples_per_cluster=6)
WEIGHTED = ["ProxyAnchorLoss", "SoftTripleLoss", "ArcFaceLoss", "ProxyNCALoss", "CosFaceLoss", "SphereFaceLoss"]
TUPLES = ["SupConLoss", "MultiSimilarityLoss", "TripletMarginLoss", "ContrastiveLoss", "NTXentLoss", "CircleLoss"]
every_loss = pytest.mark.parametrize("name", WEIGHTED + TUPLES)


def ready(name, options=OPTIONS, **others):
    x, y = blobs(100)
    torch.manual_seed(0)
    return method_class(f"pml/{name}")(setting_of(y, x.shape[1], **others), options), x, y


def first_batch(method, x, y):
    indices = torch.tensor(next(iter(method.sampler)))
    return Batch(x[indices], y[indices], method.clusters(indices))


@every_loss
def test_the_loss_is_what_the_library_computes(name):
    method, x, y = ready(name)
    torch.manual_seed(0)
    direct = getattr(losses, name)(**({"num_classes": 3, "embedding_size": 8} if name in WEIGHTED else {}))
    batch = first_batch(method, x, y)
    as_learnt = functional.normalize(batch.inputs, dim=1) if method.normalised else batch.inputs
    output = method.loss(lambda inputs: as_learnt, batch)
    torch.testing.assert_close(output.loss, direct(batch.inputs, batch.labels))
    assert output.per_example.shape == batch.labels.shape
    assert not output.per_example.requires_grad


@every_loss
def test_gradients_reach_the_network_and_the_weights_of_the_loss(name):
    method, x, y = ready(name)
    network = nn.Linear(8, 8)
    method.loss(network, first_batch(method, x, y)).loss.backward()
    assert float(network.weight.grad.abs().sum()) > 0
    assert len(list(method.parameters())) == (name in WEIGHTED)
    assert all(float(p.grad.abs().sum()) > 0 for p in method.parameters())


def test_losses_of_single_examples_are_told_where_there_are_any():
    method, x, y = ready("ArcFaceLoss")
    output = method.loss(lambda inputs: inputs, first_batch(method, x, y))
    assert len(output.per_example.unique()) > 1
    torch.testing.assert_close(output.per_example.mean(), output.loss.detach())
    method, x, y = ready("ProxyAnchorLoss")  # which has losses of proxies
    output = method.loss(lambda inputs: inputs, first_batch(method, x, y))
    assert output.per_example.tolist() == [output.loss.item()] * 24


def test_batches_are_balanced_for_tuples_and_random_for_weights():
    method, _, y = ready("SupConLoss")
    for rows in method.sampler:
        assert torch.bincount(y[rows]).tolist() == [8, 8, 8]  # 24 examples; there are no four classes
    rows = next(iter(ready("ProxyNCALoss")[0].sampler))
    assert torch.bincount(y[rows]).tolist() != [8, 8, 8]


def test_balanced_batches_hold_m_classes_of_d_and_small_classes_more_than_once():
    labels = torch.cat([torch.arange(10).repeat(5), torch.tensor([10, 10])])
    method = method_class("pml/SupConLoss")(setting_of(labels, 4), OPTIONS)
    drawn = [rows for _ in range(3) for rows in [*method.sampler, method.sampler.update(None, None)][:-1]]
    assert all(labels[rows].unique(return_counts=True)[1].tolist() == [6, 6, 6, 6] for rows in drawn)
    assert all(len(set(rows)) >= 18 - 3 for rows in drawn)


@pytest.mark.parametrize("name", ["ProxyAnchorLoss", "TripletMarginLoss"])
def test_ranks_draw_different_batches_and_a_restored_sampler_goes_on(name):
    one, other = (ready(name, rank=rank, world_size=2)[0].sampler for rank in (0, 1))
    assert next(iter(one)) != next(iter(other))
    one.update(None, None)
    again = ready(name, rank=0, world_size=2)[0].sampler
    again.load_state_dict(one.state_dict())
    assert next(iter(again)) == next(iter(one))


@pytest.mark.parametrize("name", ["ProxyAnchorLoss", "SupConLoss"])
def test_half_precision_leaves_the_loss_and_its_weights_in_full(name):
    method, x, y = ready(name)
    batch = first_batch(method, x, y)
    with torch.autocast("cpu", torch.bfloat16):
        half = method.loss(lambda inputs: inputs.bfloat16(), batch)
    assert torch.equal(half.loss, method.loss(lambda inputs: inputs.bfloat16().float(), batch).loss)
    assert all(p.dtype == torch.float32 for p in method.parameters())


@pytest.mark.parametrize("name", ["pml/ProxyAnchorLoss", "pml/SupConLoss", "pml/ArcFaceLoss(margin=10, scale=16)"])
def test_blobs_are_learnt(name):
    x, y = blobs()
    trained = train(name, nn.Linear(8, 4), x, y, OPTIONS, epochs=20, rate=0.02)
    assert trained.error(*blobs(seed=1), "knn") < 0.05
    assert trained.error(*blobs(seed=1), "knc") < 0.05


def test_only_losses_that_read_lengths_are_not_on_the_sphere():
    assert method_class("pml/ArcFaceLoss").normalised
    assert method_class("pml/TripletMarginLoss").normalised
    assert not method_class("pml/SphereFaceLoss").normalised


def test_arguments_reach_the_loss():
    method, _, _ = ready("SoftTripleLoss(centers_per_class=2, la=5.0)")
    assert method.criterion.centers_per_class == 2
    assert method.criterion.la == 5.0
    assert method.criterion.fc.shape == (8, 6)


@pytest.mark.parametrize(
    "text",
    [
        "ArcFaceLoss(margin=__import__('os').getpid())", "ArcFaceLoss(margin=2**3)", "ArcFaceLoss(**{'margin': 1})",
        "ArcFaceLoss(28.6)", "losses.ArcFaceLoss()", "(lambda: 1)()", "ArcFaceLoss(margin=[i for i in (1,)])",
        "ArcFaceLoss(", "", "ArcFaceLoss(margin=open('x'))", "A(b=" + "(" * 400 + ")" * 400 + ")",
    ],
)  # fmt: skip
def test_what_is_not_a_plain_value_is_refused_and_not_executed(text, monkeypatch):
    monkeypatch.setattr(builtins, "open", lambda *_: pytest.fail("executed"))
    with pytest.raises(UserError, match="is not understood"):
        read_call(text)


def test_plain_values_are_read():
    assert read_call("A") == ("A", {})
    assert read_call("A(b=-1.5, c='all', d=[1, None], e=True)") == (
        "A", {"b": -1.5, "c": "all", "d": [1, None], "e": True}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pml/ProxyAnchor", "did you mean ProxyAnchorLoss"),
        ("pml/CrossBatchMemory", "has no labelled loss"),
        ("pml/VICRegLoss", "has no labelled loss"),
        ("pml/ArcFaceLoss(margn=1)", r"takes no argument 'margn' here: did you mean margin\?"),
        ("pml/ArcFaceLoss(num_classes=1)", "takes no argument 'num_classes'"),
        ("pml/RankedListLoss", "missing 2 required positional arguments.*It takes: Tn"),
        ("pml/SoftTripleLoss(la='x')", "does not work"),
    ],
)
def test_a_wrong_name_or_argument_is_said_before_training(name, message):
    with pytest.raises(UserError, match=message):
        method_class(name)


def test_one_example_of_a_class_is_too_few_for_tuples():
    with pytest.raises(UserError, match="examples-per-cluster must be at least 2"):
        ready("SupConLoss", Options(examples_per_cluster=1))


def test_a_missing_package_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning", None)
    with pytest.raises(UserError, match=r"pip install 'magnet-loss\[pml\]'"):
        method_class("pml/ProxyAnchorLoss")


@pytest.mark.parametrize(
    "method",
    ["pml/ProxyAnchorLoss", "pml/TripletMarginLoss(triplets_per_anchor=3)", "pml/DynamicSoftMarginLoss"],
)  # weights, random tuples, and state that the library does not save
def test_a_run_interrupted_at_several_steps_ends_like_one_that_was_not(method, tmp_path, monkeypatch):
    data = write_vectors(tmp_path / "vectors.npz")
    common = {"data": data, "method": method, "steps": 11, "validation": 0.2, "evaluate": False, "device": "cpu"}
    whole = train_run(TrainConfig(out=tmp_path / "whole", dropout=0.2, **common, **SMALL), silent=True)
    stop_at(monkeypatch, 2, 7)
    stopped = TrainConfig(out=tmp_path / "stopped", dropout=0.2, **common, **SMALL)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train_run(stopped, resume=True, silent=True)
    train_run(read_config(tmp_path / "stopped"), resume=True, silent=True)
    assert read_config(tmp_path / "stopped").method == method
    assert differences(whole, tmp_path / "stopped") == []


def test_a_run_without_a_name_gets_a_folder_of_one_level(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = TrainConfig(data="digits", method="pml/ArcFaceLoss(margin=10, scale=16)", steps=1, evaluate=False, **SMALL)
    assert train_run(config, silent=True).as_posix() == "runs/digits-pml-ArcFaceLoss-margin=10-scale=16-0"
