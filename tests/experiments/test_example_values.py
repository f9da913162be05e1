"""What each example adds to the attribute precision, for intervals."""

import numpy as np
import pytest
import torch

from magnet.evaluation.concentration import attribute_concentration, concentration_within_classes
from magnet.experiments import example_values as module
from magnet.experiments.example_values import example_values

SIZES = (1, 4, 16, 64)


@pytest.fixture
def scene():
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=480)
    points = rng.normal(size=(480, 2)) + labels[:, None]
    attributes = (points @ rng.normal(size=(2, 6)) + rng.normal(size=(480, 6)) > 0.8).astype(np.float32)
    attributes[:, 5] = 0  # which nobody has
    attributes[rng.random((480, 6)) < 0.1] = np.nan
    attributes[::10] = np.nan  # of these nothing is known
    return torch.tensor(points), torch.tensor(attributes), torch.tensor(labels)


@pytest.mark.parametrize("scope", ["all", "others", "class"])
@pytest.mark.parametrize("rows", [7, 512])
def test_the_mean_over_examples_is_the_precision(scene, scope, rows, monkeypatch):
    monkeypatch.setattr(module, "ROWS", rows)
    points, attributes, labels = scene
    if scope == "class":
        found = concentration_within_classes(points, attributes, labels, sizes=SIZES)
    else:
        found = attribute_concentration(points, attributes, sizes=SIZES, labels=labels, others_only=scope == "others")
    values = example_values(points, attributes, labels, sizes=SIZES, scope=scope)
    assert values.shape == (432, 4)
    np.testing.assert_allclose(values.mean(dim=0), found.precision, rtol=1e-6)


def test_resampled_means_spread_as_the_precision_of_resampled_examples(scene):
    points, attributes, labels = scene
    values = example_values(points, attributes, labels, sizes=SIZES).numpy()
    told = ~attributes.isnan().all(dim=1)
    points, attributes = points[told].numpy(), attributes[told].numpy()
    # The fraction of the four nearest, for each example and attribute, by hand.
    order = np.argsort(((points[:, None] - points[None]) ** 2).sum(axis=2), axis=1)[:, 1:5]
    near = attributes[order]
    fraction = np.nansum(near, axis=1) / np.maximum((~np.isnan(near)).sum(axis=1), 1)
    has = ((attributes == 1) & (~np.isnan(near)).any(axis=1))[:, :5]
    rng, drawn, exact = np.random.default_rng(0), [], []
    for _ in range(1000):
        weights = np.bincount(rng.integers(432, size=432), minlength=432)
        exact.append(((weights @ np.where(has, fraction[:, :5], 0)) / (weights @ has)).mean())
        drawn.append(weights @ values[:, 1] / 432)
    assert np.std(drawn) == pytest.approx(np.std(exact), rel=0.05)
    assert np.corrcoef(drawn, exact)[0, 1] > 0.98
