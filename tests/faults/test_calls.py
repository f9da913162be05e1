"""Every call of the public API ends in numbers, or in an error that was meant."""

import math

import pytest
import torch

import magnet
from faults.calls import Odd, called, meant, random_calls
from faults.outcomes import NOT_FINITE, SAID, SAME, TRACEBACK
from faults.test_damage import bad
from magnet.errors import UserError

X, LABELS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
INDEX = magnet.ClusterIndex.fit(X, LABELS, 2)


def test_random_calls_give_numbers_or_an_error_that_was_meant(tmp_path):
    assert bad(random_calls(tmp_path, cases=300, seed=1, slow=0.03)) == []


def test_outcomes_of_calls_are_told_apart():
    assert called(lambda odd: torch.ones(2), Odd(0)).kind == SAME
    assert called(lambda odd: torch.tensor(math.nan), Odd(0)).kind == NOT_FINITE
    assert called(lambda odd: magnet.magnet_loss(None, LABELS, LABELS), Odd(0)).kind == SAID
    assert called(lambda odd: torch.ones(2) @ torch.ones(3), Odd(0)).kind == TRACEBACK
    assert called(lambda odd: int("x"), Odd(0)).kind == TRACEBACK
    with pytest.raises(TypeError) as accident:
        len(3)
    assert not meant(accident.value)


@pytest.mark.parametrize(
    ("points", "found"),
    [
        (X.to("meta"), "representations must hold numbers; found a tensor on the meta device"),
        (X.to_sparse(), r"representations must be dense; found torch\.sparse_coo"),
        (X.to(torch.float8_e4m3fn), r"floating point; found torch\.float8_e4m3fn"),
    ],
    ids=["meta", "sparse", "float8"],
)
def test_tensors_of_other_kinds_are_named(points, found):
    for take in (
        lambda x: magnet.magnet_loss(x, LABELS, LABELS),
        lambda x: magnet.ClusterIndex.fit(x, LABELS),
        magnet.NearestClusters(INDEX).predict,
    ):
        with pytest.raises((TypeError, ValueError), match=found):
            take(points)


def test_labels_of_one_byte_are_labels_and_no_mask():
    assert magnet.ClusterIndex.fit(X, LABELS.to(torch.uint8), 2) == INDEX
    whole = magnet.magnet_objective(X, LABELS, None, torch.arange(3))
    small = magnet.magnet_objective(X, LABELS.to(torch.uint8), None, torch.arange(3, dtype=torch.uint8))
    assert torch.equal(whole.per_example, small.per_example)


def test_a_variance_that_the_distances_overflow_is_an_error():
    with pytest.raises(ValueError, match=r"variance must be positive and finite as torch\.float32; found 1e-300"):
        magnet.magnet_loss(X, LABELS, LABELS, variance=1e-300)
    with pytest.raises(UserError, match="squared distances over a variance of 1e-36 overflow"):
        magnet.magnet_loss(X * 1e6, LABELS, LABELS, variance=1e-36)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"losses": torch.full((12,), -7)}, r"losses of -7\.\.-7"),
        ({"losses": torch.zeros(12)}, "losses is float32 of shape"),
        ({"position": -1}, "position must be >= 0; found -1"),
        ({"waiting_sizes": torch.tensor([3])}, "waiting_sizes is int64 of shape"),
        ({"more": torch.zeros(2)}, "'more', which is not known here"),
    ],
    ids=lambda value: str(next(iter(value))) if isinstance(value, dict) else "",
)
def test_a_foreign_state_of_the_sampler_is_named_and_changes_nothing(change, found):
    sampler = magnet.NeighbourhoodSampler(INDEX, clusters_per_batch=2, examples_per_cluster=2, batches=3)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match=found):
        sampler.load_state_dict({**before, **change})
    assert all(torch.equal(torch.as_tensor(v), torch.as_tensor(before[k])) for k, v in sampler.state_dict().items())


def test_a_state_that_is_not_finite_is_refused_by_the_loss():
    with pytest.raises(RuntimeError, match="average must be finite"):
        magnet.MagnetLoss().load_state_dict({"average": torch.tensor(math.nan), "weight": torch.tensor(1.0)})
    with pytest.raises(RuntimeError, match="average over weight must be finite"):
        magnet.MagnetLoss().load_state_dict({"average": torch.tensor(1.0), "weight": torch.tensor(1e-45)})


def test_data_of_another_width_than_the_run_is_named(tmp_path):
    run = magnet.train((X, LABELS), tmp_path / "run", steps=1, silent=True)
    with pytest.raises(UserError, match=r"vectors of 2 dimensions, but the run .* was trained on vectors of 3"):
        magnet.evaluate(run, (X[:, :2], LABELS), "all")
