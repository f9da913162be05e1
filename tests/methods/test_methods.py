"""What holds for every method, asked through its answers alone."""

import copy
import math
from dataclasses import fields

import pytest
import torch
from torch import Tensor, nn

from magnet.errors import UserError
from magnet.index import ClusterIndex
from magnet.methods import METHODS, Batch, Method, Options, method_class
from methods.toy import blobs, mean_rows, setting_of, train

OPTIONS = Options(clusters_per_class=2, clusters_per_batch=4, examples_per_cluster=6)
every_method = pytest.mark.parametrize("name", METHODS)


def ready(name: str, options: Options = OPTIONS, *, count: int = 100, **others: int) -> tuple[Method, Tensor, Tensor]:
    """A method after its first refresh, the inputs being the representations, and the data."""
    x, y = blobs(count)
    method = method_class(name)(setting_of(y, x.shape[1], **others), options)
    method.prepare(x, mean_rows(x))
    if method.wants_index:
        method.refresh(None, ClusterIndex.fit(x, y, 2))
    elif method.reads_representations:
        method.refresh(x, None)
    return method, x, y


def draw(method: Method, batches: int) -> list[list[int]]:
    """Batches over as many passes as it takes, each used and given losses that are a function of its examples."""
    drawn: list[list[int]] = []
    while len(drawn) < batches:
        for rows in method.sampler:
            drawn.append(rows)
            indices = torch.tensor(rows)
            method.sampler.update(indices, (indices * 37 % 11).float())
            if len(drawn) == batches:
                break
    return drawn


@every_method
def test_an_epoch_is_as_many_steps_for_every_method(name):
    for count in (96, 97, 100):
        for world_size in (1, 2):
            method, _, _ = ready(name, count=count, world_size=world_size)
            assert len(method.sampler) == math.ceil(count / (24 * world_size))
            assert len(list(method.sampler)) == len(method.sampler)


@every_method
def test_a_batch_has_m_times_d_examples(name):
    method, _, _ = ready(name)
    assert {len(rows) for rows in draw(method, 6)} == {24}


@every_method
@pytest.mark.parametrize("before", [3, 5, 10])  # within an epoch, at its end, and after two
def test_a_restored_sampler_goes_on_with_the_same_batches(name, before):
    method, _, _ = ready(name)
    draw(method, before)
    state = copy.deepcopy(method.sampler.state_dict())
    assert all(isinstance(value, int | Tensor) for value in state.values())
    expected = draw(method, 12)
    again, _, _ = ready(name)
    again.sampler.load_state_dict(state)
    assert draw(again, 12) == expected


@every_method
def test_the_seed_decides_the_batches(name):
    one, same, other = (draw(ready(name, seed=seed)[0], 6) for seed in (1, 1, 2))
    assert one == same != other


@every_method
def test_two_ranks_draw_different_batches(name):
    ranks = [draw(ready(name, rank=rank, world_size=2, count=192)[0], 4) for rank in (0, 1)]
    assert all(a != b for a, b in zip(*ranks, strict=True))
    # What starts a batch, a triplet or a pair is shared out: no example does on both ranks in one epoch.
    step = {"triplet": 3, "semantic-triplet": 3, "contrastive": 2}.get(name, 1)
    firsts = [{row for rows in batches for row in rows[::step]} for batches in ranks]
    if not method_class(name).wants_index:
        assert firsts[0].isdisjoint(firsts[1])


@every_method
def test_the_loss_is_differentiable_and_tells_of_every_example(name):
    method, x, y = ready(name)
    network = nn.Linear(8, 8)
    indices = torch.tensor(next(iter(method.sampler)))
    output = method.loss(network, Batch(x[indices], y[indices], method.clusters(indices)))
    output.loss.backward()
    assert output.loss.shape == ()
    assert output.per_example.shape == indices.shape
    assert float(network.weight.grad.abs().sum()) > 0
    torch.testing.assert_close(output.per_example.mean(), output.loss.detach())
    assert not any(told is not None and told.requires_grad for told in output[1:])  # what is told holds no graph
    method.sampler.update(indices, output.per_example)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "softmax"])  # its head is a layer like others
def test_autocast_leaves_distances_in_full_precision(name):
    method, x, y = ready(name)
    indices = torch.tensor(next(iter(method.sampler)))
    batch = Batch(x[indices], y[indices], method.clusters(indices))
    expected = method.loss(lambda inputs: inputs, batch)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(method.loss(lambda inputs: inputs, batch).loss, expected.loss)
        half = method.loss(lambda inputs: inputs.bfloat16(), batch)
    rounded = method.loss(lambda inputs: inputs.bfloat16().float(), batch)
    assert torch.equal(half.loss, rounded.loss)


@every_method
def test_uses_names_the_options_that_are_read(name):
    names, read = {field.name for field in fields(Options)}, set()

    class Watched(Options):
        def __getattribute__(self, attribute: str) -> object:
            read.add(attribute)
            return super().__getattribute__(attribute)

    method, x, y = ready(name, Watched(2.0, 1.5, clusters_per_batch=4, examples_per_cluster=6))
    indices = torch.tensor(next(iter(method.sampler)))
    method.loss(nn.Linear(8, 8), Batch(x[indices], y[indices], method.clusters(indices)))
    assert method.scaling == (1.5 if "scaling" in method.uses else 1.0)
    assert method.wants_representations in (True, False)  # asked at every refresh
    by_the_trainer = {"clusters_per_class"} if method.wants_index else set()
    assert (read & names) - {"clusters_per_batch", "examples_per_cluster"} | by_the_trainer == method.uses


@every_method
def test_blobs_are_learnt(name):
    x, y = blobs()
    test = blobs(seed=1)
    torch.manual_seed(0)
    start = nn.Linear(8, 4)
    untrained = train(name, copy.deepcopy(start), x, y, OPTIONS, epochs=0)
    trained = train(name, copy.deepcopy(start), x, y, OPTIONS, epochs=20, rate=0.02)
    rules = ["knc", "knn"] + ["head"] * (trained.method.classifier == "head")
    for rule in rules:
        assert untrained.error(*test, rule) > 0.4
        assert trained.error(*test, rule) < 0.05


def test_an_unknown_method_is_named_with_what_is_close():
    with pytest.raises(UserError, match=r"no method 'magnets': did you mean magnet\?"):
        method_class("magnets")
