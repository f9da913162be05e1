"""A run is a function of its configuration."""

import pytest

from training.short_runs import differences, run, same, weights


@pytest.mark.parametrize("method", ["magnet", "softmax", "triplet"])
def test_the_same_seed_gives_the_same_run_and_another_seed_another_one(method, vectors, tmp_path):
    once = run(tmp_path / "once", vectors, method=method)
    again = run(tmp_path / "again", vectors, method=method)
    other = run(tmp_path / "other", vectors, method=method, seed=1)
    assert differences(once, again) == []
    assert not same(weights(once), weights(other))


def test_the_number_of_workers_does_not_matter_with_refreshes_in_mid_pass(images, tmp_path):
    options = {"hidden": 0, "image_size": 12, "flip": True, "clusters_per_batch": 2, "examples_per_cluster": 2}
    options |= {"steps": 17, "refresh_every": 11}  # an epoch has 9 steps, and losses take effect after 8
    none, one, two = (run(tmp_path / str(n), images, workers=n, **options) for n in range(3))
    assert differences(none, one) == []
    assert differences(none, two) == []


def test_what_the_caller_drew_before_does_not_matter_and_is_not_disturbed(vectors, tmp_path):
    import torch

    torch.manual_seed(1)
    once = run(tmp_path / "once", vectors, dropout=0.5)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(1))
    assert differences(once, run(tmp_path / "again", vectors, dropout=0.5)) == []


def test_a_seed_may_be_large(vectors, tmp_path):
    large, small = (weights(run(tmp_path / str(seed), vectors, seed=seed, steps=2)) for seed in (20_240_531, 31))
    assert not same(large, small)
