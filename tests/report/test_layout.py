"""The layout of maps shows what is in the space, and nothing of the classes that is not."""

import numpy as np
import torch

from magnet.index import ClusterIndex
from magnet.neighbours import nearest
from magnet.report import layout
from magnet.report.layout import lay_out


def noise(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Representations (n, d) that know nothing of their ten classes (n,)."""
    return np.random.default_rng(0).normal(size=(n, d)), np.arange(n) % 10


def surprise(positions: np.ndarray, labels: np.ndarray) -> float:
    """How many standard deviations the share of same-class neighbours is above that of labels dealt by lot."""
    places = torch.from_numpy(positions)
    near = nearest(places, places, 11)[1][:, 1:].numpy()
    rng = np.random.default_rng(1)
    found, *dealt = ((y[near] == y[:, None]).mean() for y in (labels, *(rng.permutation(labels) for _ in range(300))))
    return float((found - np.mean(dealt)) / np.std(dealt))


def test_on_noise_same_class_neighbours_on_the_map_are_as_rare_as_by_chance():
    representations, labels = noise(400, 64)
    # Many small clusters: given to t-SNE beside the examples, such centres nearly triple that share.
    index = ClusterIndex.fit(torch.from_numpy(representations), torch.from_numpy(labels), 8)
    placed, _ = lay_out(representations, index.centres.numpy())
    assert abs(surprise(placed, labels)) < 3


def test_classes_of_the_map_that_it_starts_from_dissolve_in_noise():
    representations, labels = noise(500, 16)
    angle = 2 * np.pi * labels / 10
    start = 40 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + np.random.default_rng(2).normal(size=(500, 2))
    placed, _ = lay_out(representations, representations[:1], start=start)
    assert surprise(start, labels) > 50
    assert abs(surprise(placed, labels)) < 3


def test_a_map_of_fewer_examples_has_the_spread_of_the_map_that_it_starts_from():
    representations, _ = noise(300, 8)
    start = 40 * np.random.default_rng(3).normal(size=(120, 2))
    placed, _ = lay_out(representations[:120], representations[:1], start=start)
    spreads = [np.linalg.norm(places - places.mean(axis=0)) for places in (placed, start)]
    np.testing.assert_allclose(*spreads)


def test_a_layout_keeps_groups_together_and_repeats_itself():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 40)
    representations = rng.normal(size=(80, 10)) + 20 * labels[:, None]
    centres = np.stack([representations[labels == c].mean(axis=0) for c in (0, 1)])
    placed, middle = lay_out(representations, centres)
    for c in (0, 1):
        own = np.linalg.norm(placed[labels == c] - middle[c], axis=1).mean()
        other = np.linalg.norm(placed[labels == c] - middle[1 - c], axis=1).mean()
        assert own < other
    np.testing.assert_array_equal(lay_out(representations, centres)[0], placed)


def test_centres_lie_among_the_examples_closest_to_them_and_do_not_move_them():
    rng = np.random.default_rng(1)
    representations = rng.normal(size=(60, 5))
    centres = representations[:3] + 0.01
    placed, middle = lay_out(representations, centres)
    np.testing.assert_array_equal(lay_out(representations, centres[:1])[0], placed)
    for centre, place in zip(centres, middle, strict=True):
        closest = np.argsort(((representations - centre) ** 2).sum(axis=1))[:10]
        np.testing.assert_allclose(place, np.median(placed[closest], axis=0))


def test_of_very_many_a_sample_is_laid_out_and_the_others_lie_between_their_nearest(monkeypatch):
    monkeypatch.setattr(layout, "MOST", 60)
    rng = np.random.default_rng(0)
    points = rng.normal(size=(100, 3)) + 20 * (np.arange(100) % 2)[:, None]
    placed, _ = layout.lay_out(points, points[:2], seed=0)
    assert placed.shape == (100, 2)
    groups = placed[::2], placed[1::2]
    apart = np.linalg.norm(groups[0].mean(axis=0) - groups[1].mean(axis=0))
    assert all(np.linalg.norm(group - group.mean(axis=0), axis=1).max() < apart for group in groups)


def test_a_point_lies_between_its_nearest_but_not_between_groups():
    known = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.1], [9.0, 9.0]])
    points = torch.tensor([[0.4, 0.0], [5.2, 4.3]])
    near = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [100.0, 100.0]])
    placed = layout.place_between(points, known, near)
    assert (placed[0] > 0).all()
    assert placed[0].sum() < 2  # in the triangle of the first three
    # Nearest to the second are (2, 0), (100, 100) and (0, 2): the far one has no say.
    np.testing.assert_allclose(placed[1].sum(), 2)
    assert (placed[1] > 0.9).all()
