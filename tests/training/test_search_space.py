"""What a search varies, and where."""

import dataclasses

import pytest

from magnet.errors import UserError
from magnet.training.config import TrainConfig
from magnet.training.search import draw, space_of

optuna = pytest.importorskip("optuna")


def test_batches_never_exceed_48_and_may_be_two_by_two():
    space = space_of(TrainConfig(data="digits"))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    sizes = set()
    for _ in range(400):
        drawn = draw(study.ask(), space)
        sizes.add((drawn["clusters_per_batch"], drawn["examples_per_cluster"]))
    assert all(m * d <= 48 and m >= 2 for m, d in sizes)
    assert {(2, 2), (12, 4)} <= sizes
    wide = TrainConfig(data="digits", clusters_per_batch=16)
    assert space_of(wide, {"clusters_per_batch"})["batch"] == ("16x2", "16x3")
    with pytest.raises(UserError, match="up to 48"):
        space_of(dataclasses.replace(wide, clusters_per_batch=36), {"clusters_per_batch"})


@pytest.mark.parametrize(
    ("method", "searched"),
    [
        ("magnet", {"learning_rate", "annealing", "alpha", "scaling", "clusters_per_class", "batch"}),
        ("triplet", {"learning_rate", "annealing", "alpha", "impostor_fraction", "neighbours"}),
        ("softmax", {"learning_rate", "annealing"}),
        ("contrastive", {"learning_rate", "annealing", "alpha"}),
        ("ncmc", {"learning_rate", "annealing"}),
    ],
)
def test_every_method_has_the_settings_of_the_appendix_and_what_is_given_is_not_varied(method, searched):
    config = TrainConfig(data="digits", method=method)
    assert set(space_of(config)) == searched
    assert set(space_of(config, {"learning_rate"})) == searched - {"learning_rate"}
    assert "annealing" not in space_of(dataclasses.replace(config, schedule="cosine"))


def test_adamw_is_searched_at_rates_of_its_own():
    rates = space_of(TrainConfig(data="photos", optimiser="adamw"))["learning_rate"]
    assert (rates.low, rates.high) == (1e-5, 1e-3)
