"""Votes chosen by held-out examples: how sharp, how many, from how many clusters."""

import math

import pytest
import torch

from magnet.classify import SoftNeighbours
from magnet.votes import (
    NEIGHBOURS,
    Calibrated,
    Examples,
    Folds,
    Votes,
    VotingTrial,
    calibrate_votes,
    choose_knc,
    choose_knn,
    cluster,
    hold_out,
)


def noisy(n, seed, spread=1.0):
    """Two classes in one dimension that overlap."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 2
    return Examples((2.0 * labels + spread * torch.randn(n, generator=rng)).double()[:, None], labels)


def folds_of(part, held, neighbours=128):
    return Folds([part], [held], torch.ones(int(part.labels.max()) + 1).double(), neighbours, seed=0)


def log_loss(rule, held):
    found = rule.predict_proba(held.x)[torch.arange(len(held.labels)), held.labels]
    return -float(found.clamp_min(1e-3).log().mean())


def test_neighbours_and_scaling_of_knn_have_the_least_log_loss_of_a_grid():
    part, held = noisy(400, 0), noisy(400, 1)
    variance = torch.tensor(1.0)
    chosen = choose_knn(folds_of(part, held), [variance])
    best = log_loss(chosen.of_examples(part.x, part.labels, variance), held)
    grid = [
        log_loss(SoftNeighbours(part.x, part.labels, count, variance=variance, scaling=scaling), held)
        for count in NEIGHBOURS
        for scaling in (0.25, 1.0, 4.0, 16.0, 64.0)
    ]
    assert best <= min(grid) + 0.01
    assert chosen.neighbours > 16, "classes that overlap ask for many neighbours"


def test_clusters_of_knc_are_as_many_as_the_classes_have_modes():
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(800) % 2
    side = torch.where(torch.arange(800) % 4 < 2, 1.0, -1.0)
    x = torch.stack([side * (1 - labels), side * labels], dim=1) * 6 + torch.randn(800, 2, generator=rng)
    data = Examples(x.double(), labels)
    chosen = choose_knc(folds_of(data.take(torch.arange(400)), data.take(torch.arange(400, 800))), (1, 2, 4), "means")
    assert chosen.clusters == 2
    assert chosen.pull is None
    rule = chosen.of_clusters(cluster(data.x, data.labels, 2, seed=0))
    assert float((rule.predict(data.x) == labels).double().mean()) > 0.99


def test_centres_are_refined_only_where_that_lowers_the_held_out_log_loss():
    # Class 1 is spread three times as wide: the border between two means is not where the classes meet.
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(1000) % 2
    x = (4.0 * labels + (1 + 2 * labels) * torch.randn(1000, generator=rng)).double()[:, None]
    part, held = Examples(x[:500], labels[:500]), Examples(x[500:], labels[500:])
    folds = folds_of(part, held)
    means, auto, refined = (choose_knc(folds, (1,), centres) for centres in ("means", "auto", "refined"))
    assert means.pull is None
    assert refined.pull is not None

    def judged(votes: Votes) -> float:
        rule = votes.of_clusters(cluster(part.x, part.labels, 1, seed=0))
        return log_loss(rule if votes.pull is None else rule.refined(part.x, part.labels, pull=votes.pull), held)

    assert judged(auto) <= min(judged(means), judged(refined)) + 1e-6
    assert math.isclose(means.scaling, refined.scaling)


def test_a_gain_within_its_standard_error_is_not_clear():
    rng = torch.Generator().manual_seed(0)
    each = torch.rand(400, generator=rng).double() / 400
    base = Calibrated(1.0, float(each.sum()), each)
    by_chance = each - torch.randn(400, generator=rng).double() * 1e-3
    by_chance = by_chance - (by_chance - each).mean() - 1e-5  # lower in the mean, by far less than its error
    everywhere = each * 0.99
    assert Calibrated(1.0, float(by_chance.sum()), by_chance).log_loss < base.log_loss
    assert not Calibrated(1.0, float(by_chance.sum()), by_chance).clearly_below(base)
    assert Calibrated(1.0, float(everywhere.sum()), everywhere).clearly_below(base)
    assert not base.clearly_below(base)


def test_the_log_loss_of_calibrated_votes_is_that_of_a_naive_tally():
    """Forty classes, of which the sixteen voters of an example have some: the others have the least probability."""
    generator = torch.Generator().manual_seed(0)
    places = torch.randn(40, 4, generator=generator).double()
    labels = torch.arange(40).repeat(6)
    index = cluster(places[labels] + 0.4 * torch.randn(240, 4, generator=generator).double(), labels, 1, 0)
    held = places + 0.6 * torch.randn(40, 4, generator=generator).double()
    found = calibrate_votes([VotingTrial(index, held, torch.arange(40))], torch.ones(40).double(), neighbours=16)
    share, spread = index.sizes.double() / index.sizes.sum(), 1 / 41
    total = 0.0
    for i, row in enumerate(held):
        squares = (row - index.centres).square().sum(dim=1)
        tally = torch.zeros(40).double()
        for j in squares.argsort()[:16].tolist():
            vote = math.exp(-found.scaling * float(squares[j] - squares.min()) / (2 * float(index.variance)))
            tally[index.centre_labels[j]] += float(index.sizes[j]) * vote
        log = (tally / tally.sum()).clamp_min(1e-12).log()
        total -= (1 - spread) * float(log[i]) + spread * float(log @ share)
    assert found.log_loss == pytest.approx(total / 40, rel=1e-9)
    assert float(found.each.sum()) == pytest.approx(found.log_loss, rel=1e-9)


def test_very_many_held_out_examples_are_judged_by_a_part_of_them():
    x = torch.arange(30_000.0)[:, None]
    folds = hold_out(Examples(x, torch.arange(30_000) % 50), 0.2, torch.ones(50), 128, seed=0)
    assert [len(held.labels) for held in folds.held] == [4000]
    assert not set(folds.parts[0].x[:, 0].tolist()) & set(folds.held[0].x[:, 0].tolist())
    assert torch.bincount(folds.held[0].labels).min() > 40
