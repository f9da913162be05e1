"""Where the weights of a run come from: a file, a softmax run, a few epochs of softmax."""

import pytest
import torch
from safetensors.torch import save_file

from magnet.errors import UserError
from training.short_runs import records, run, weights


def network(folder):
    return {k.removeprefix("network."): v for k, v in weights(folder).items() if k.startswith("network.")}


def start_of(tmp_path, data, **options):
    """The network that a run starts with: that of a run without a step."""
    return network(run(tmp_path / "start", data, epochs=0, **options))


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("method", ["magnet", "triplet"])
def test_a_warm_start_takes_the_network_of_a_softmax_run(method, vectors, tmp_path):
    softmax = run(tmp_path / "softmax", vectors, method="softmax")
    assert equal(start_of(tmp_path, vectors, method=method, warm_start=softmax), network(softmax))


def test_a_few_epochs_of_softmax_come_first_if_wanted(vectors, tmp_path):
    start = start_of(tmp_path, vectors, warm_start_epochs=2, seed=3)
    softmax = run(tmp_path / "softmax", vectors, method="softmax", epochs=2, seed=3)
    assert equal(start, network(softmax))
    assert records(tmp_path / "start" / "warm-start") == records(softmax)


def test_a_warm_start_from_other_data_takes_the_network_without_the_head(vectors, tmp_path):
    from training.short_runs import write_vectors

    softmax = run(tmp_path / "softmax", write_vectors(tmp_path / "other.npz", classes=5), method="softmax")
    assert equal(start_of(tmp_path, vectors, warm_start=softmax), network(softmax))


def test_a_network_of_another_shape_is_refused(vectors, tmp_path):
    softmax = run(tmp_path / "softmax", vectors, method="softmax", epochs=1)
    with pytest.raises(UserError, match="does not fit --backbone mlp"):
        run(tmp_path / "run", vectors, warm_start=softmax, dim=9)


def test_a_folder_that_is_no_run_is_refused(vectors, tmp_path):
    with pytest.raises(UserError, match="has no checkpoint"):
        run(tmp_path / "run", vectors, warm_start=tmp_path)
    with pytest.raises(UserError, match="exclude each other"):
        run(tmp_path / "run", vectors, warm_start=tmp_path, warm_start_epochs=1)


@pytest.mark.parametrize("kind", ["safetensors", "pth"])
def test_weights_are_read_from_a_file(kind, vectors, tmp_path):
    saved = {name: tensor + 1 for name, tensor in start_of(tmp_path, vectors).items()}
    path = tmp_path / f"weights.{kind}"
    save_file(saved, path) if kind == "safetensors" else torch.save(saved, path)
    loaded = network(run(tmp_path / "run", vectors, epochs=0, weights=path))
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)


def test_dim_and_hidden_set_the_shape_of_the_network(vectors, tmp_path):
    shapes = {tuple(w.shape) for w in start_of(tmp_path, vectors, dim=5, hidden=7).values()}
    assert {(7, 6), (5, 7)} <= shapes
