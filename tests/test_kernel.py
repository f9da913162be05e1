"""Gaussian kernel features: their formula, their products, and where the start takes them."""

import numpy as np
import pytest
import torch

from magnet import recipe
from magnet.backbones import WhitenedEmbedding
from magnet.experiments.tables import corners, normal_in_ring
from magnet.recipe import Recipe
from magnet.start import LANDMARKS, LEAST, WIDTHS, Landmarks, StartSettings
from magnet.votes import Examples


def draw(rows=60, features=4, seed=0):
    return torch.randn(rows, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def examples(table, rows=300):
    X, y = table(0, rows)
    return Examples(torch.tensor(X), torch.tensor(y))


def chosen_width(data, **settings):
    found = Recipe(**settings).bounded(data.x)
    folds = found.hold_out(data, torch.ones(int(data.labels.max()) + 1, dtype=torch.float64), 0)
    assert folds is not None
    return found.choose_start(folds, found.dim_for(data.x), lambda line: None)[0].settings.kernel_width


def test_features_are_those_of_the_formula():
    x = draw() * torch.tensor([1.0, 100.0, 0.01, 1.0], dtype=torch.float64)
    landmarks = Landmarks.fit(x, width=0.5, seed=3, count=10)
    scaled = landmarks.points / x.std(dim=0, correction=0)
    apart = [float((a - b).square().sum()) for a in scaled for b in scaled if not torch.equal(a, b)]
    middle = sorted(apart)[(len(apart) - 1) // 2]
    for i, row in enumerate(x[:5]):
        for j, point in enumerate(scaled):
            far = float((row / x.std(dim=0, correction=0) - point).square().sum())
            assert float(landmarks(x)[i, j]) == pytest.approx(np.exp(-far / (2 * 0.5**2 * middle)), rel=1e-6)


def test_products_of_the_coordinates_are_the_kernel_between_landmarks():
    landmarks = Landmarks.fit(draw(), width=0.5, seed=0)
    inside = landmarks(landmarks.points) @ landmarks.root()
    torch.testing.assert_close(inside @ inside.T, landmarks(landmarks.points), rtol=0, atol=len(inside) * LEAST)


def test_a_constant_feature_and_equal_rows_say_nothing_and_do_no_harm():
    x = draw()
    x[:, 2] = 1e6 + 0.1
    assert Landmarks.fit(x, 1.0, seed=0).weights[2] == 0
    same = Landmarks.fit(torch.ones(5, 3, dtype=torch.float64), 1.0, seed=0)
    assert bool(same(torch.ones(2, 3, dtype=torch.float64)).eq(1).all())
    assert bool(same.root().isfinite().all())


def test_features_far_from_zero_keep_their_digits_in_single_precision():
    x = draw()
    here, there = Landmarks.fit(x, 0.5, seed=0), Landmarks.fit(x + 1000, 0.5, seed=0)
    single = Landmarks(*(tensor.float() for tensor in there))
    torch.testing.assert_close(single((x + 1000).float()), here(x), rtol=0, atol=1e-3)


def test_a_start_with_a_kernel_tells_a_class_inside_another_one():
    data, unseen = examples(normal_in_ring, 400), Examples(*map(torch.tensor, normal_in_ring(1, 400)))
    wrong = []
    for width in (0.0, 0.5):
        start = StartSettings(1.0, True, 0.4, kernel_width=width).fit(data, 512, seed=0)
        means = torch.stack([start(data.x)[data.labels == c].mean(dim=0) for c in (0, 1)])
        answers = torch.cdist(start(unseen.x), means).argmin(dim=1)
        wrong.append(float((answers != unseen.labels).double().mean()))
    assert wrong[0] > 0.2
    assert wrong[1] < 0.1


def test_the_layer_of_a_network_is_the_start_whatever_the_number_of_landmarks():
    data = examples(normal_in_ring, 100)  # fewer examples than landmarks
    start = StartSettings(1.0, True, 0.4, 2, kernel_width=1.0).fit(data, 30, seed=0)
    layer = WhitenedEmbedding(20, 30, 1.0, landmarks=LANDMARKS)
    layer.begin(start)
    x = data.x.float()
    torch.testing.assert_close(layer(x), start(data.x).float(), rtol=0, atol=2e-3)
    torch.testing.assert_close(layer.eval()(x), start(data.x).float(), rtol=0, atol=2e-3)
    torch.testing.assert_close(layer.folded()(x), layer(x), rtol=0, atol=2e-3)


def test_held_out_votes_take_a_kernel_where_no_linear_map_is_enough_and_only_there(monkeypatch):
    inside, apart = examples(normal_in_ring), examples(corners, 400)  # modes that clusters tell apart
    assert chosen_width(inside) in WIDTHS
    assert chosen_width(apart) == 0
    assert chosen_width(inside, kernel_width=0.0) == 0
    assert chosen_width(apart, kernel_width=0.7) == 0.7
    monkeypatch.setattr(recipe, "MOST_ROWS", 299)
    assert chosen_width(inside) == 0
    monkeypatch.undo()
    monkeypatch.setattr(recipe, "WIDEST", 19)
    assert chosen_width(inside) == 0
