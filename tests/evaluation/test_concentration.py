import numpy as np
import pytest
import torch

from magnet.evaluation import concentration as module
from magnet.evaluation.concentration import attribute_concentration, concentration_within_classes

SIZES = (1, 2, 4, 8, 16)


def naive(points, attributes, labels=None, scope="all"):
    """The definition in loops: precision (A, S), chance (A,) and counted examples (A,)."""
    points, attributes, count = np.asarray(points, float), np.asarray(attributes, float), len(points)
    precision, chance, counted = [], [], []
    for a in range(attributes.shape[1]):
        fractions, rates, values = [[] for _ in SIZES], [], attributes[:, a]
        for i in range(count):
            if values[i] != 1 or np.isnan(attributes[i]).all():
                continue
            order = [int(j) for j in np.argsort(((points - points[i]) ** 2).sum(1), kind="stable") if j != i]
            order = [j for j in order if not np.isnan(attributes[j]).all()]
            if scope == "others":
                order = [j for j in order if labels[j] != labels[i]]
            if scope == "class":
                order = [j for j in order if labels[j] == labels[i]]
            everyone = [values[j] for j in order if not np.isnan(values[j])]
            if scope == "class" and (not everyone or sum(everyone) in (0, len(everyone))):
                continue
            if everyone:
                rates.append(np.mean(everyone))
            for place, size in enumerate(SIZES):
                near = [values[j] for j in order[:size] if not np.isnan(values[j])]
                if near:
                    fractions[place].append(np.mean(near))
        precision.append([np.mean(f) if f else np.nan for f in fractions])
        chance.append(np.mean(rates) if rates else np.nan)
        counted.append(len(fractions[0]))
    return np.array(precision), np.array(chance), np.array(counted)


@pytest.fixture
def scene():
    """80 points in 4 classes; five attributes follow place and class, some are unknown, the last nobody has."""
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=80)
    points = rng.normal(size=(80, 3)) + labels[:, None] / 2
    attributes = (points @ rng.normal(size=(3, 6)) + rng.normal(size=(80, 6)) > 0.5).astype(np.float32)
    attributes[rng.random((80, 6)) < 0.15] = np.nan
    attributes[::9] = np.nan
    attributes[:, 5] = np.where(np.isnan(attributes[:, 5]), np.nan, 0)
    return torch.tensor(points), attributes, torch.tensor(labels)


def agree(found, expected):
    precision, chance, counted = expected
    np.testing.assert_array_equal(found.counts, counted)
    np.testing.assert_allclose(found.per_attribute, precision, rtol=1e-9)
    np.testing.assert_allclose(found.chance, chance, rtol=1e-6)
    spoken = counted > 0
    np.testing.assert_allclose(found.precision, precision[spoken].mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.lift, precision[spoken].mean(0) / chance[spoken].mean(), rtol=1e-6)


def test_precision_is_the_naive_one(scene):
    points, attributes, _ = scene
    found = attribute_concentration(points, attributes, sizes=SIZES)
    agree(found, naive(points, attributes))
    assert found.counts[5] == 0


def test_neighbours_of_other_classes_only(scene):
    points, attributes, labels = scene
    found = attribute_concentration(points, attributes, sizes=SIZES, labels=labels, others_only=True)
    agree(found, naive(points, attributes, labels, "others"))


def test_within_classes_is_the_naive_one(scene):
    points, attributes, labels = scene
    found = concentration_within_classes(points, attributes, labels, sizes=SIZES)
    agree(found, naive(points, attributes, labels, "class"))


def test_small_chunks_change_nothing(scene, monkeypatch):
    points, attributes, labels = scene
    whole = attribute_concentration(points, attributes, sizes=SIZES, labels=labels, others_only=True)
    within = concentration_within_classes(points, attributes, labels, sizes=SIZES)
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 300)
    again = attribute_concentration(points, attributes, sizes=SIZES, labels=labels, others_only=True)
    np.testing.assert_allclose(again.per_attribute, whole.per_attribute, rtol=1e-12)
    again = concentration_within_classes(points, attributes, labels, sizes=SIZES)
    np.testing.assert_allclose(again.per_attribute, within.per_attribute, rtol=1e-12)


def test_a_worked_example():
    # On a line: has, has, not, unknown, has.
    points = torch.tensor([[0.0], [1.0], [2.5], [4.5], [7.0]])
    attributes = np.array([[1, 0], [1, 0], [0, 0], [np.nan, 0], [1, 0]], np.float32)
    found = attribute_concentration(points, attributes, sizes=(1, 2, 4))
    # The last one's nearest is unknown, so at size 1 it does not speak.
    np.testing.assert_allclose(found.per_attribute[0], [1, (1 / 2 + 1 / 2 + 0) / 3, 2 / 3])
    assert found.chance[0] == pytest.approx(2 / 3)


def test_a_neighbourhood_of_everyone_is_chance(scene):
    points, attributes, labels = scene
    for found in (
        attribute_concentration(points, attributes, sizes=(200,)),
        attribute_concentration(points, attributes, sizes=(200,), labels=labels, others_only=True),
        concentration_within_classes(points, attributes, labels, sizes=(200,)),
    ):
        assert found.lift == pytest.approx([1.0])
        assert found.precision - found.base == pytest.approx([0.0], abs=1e-9)


def test_a_space_ordered_by_the_attribute_lifts_it_within_the_class():
    rng = np.random.default_rng(1)
    attributes = rng.integers(2, size=(400, 1)).astype(np.float32)
    labels = torch.tensor(rng.integers(2, size=400))
    noise = torch.tensor(rng.normal(size=(400, 2)))
    blind = concentration_within_classes(noise + 9 * labels[:, None], attributes, labels)
    ordered = concentration_within_classes(noise + 9 * torch.tensor(attributes), attributes, labels)
    assert blind.lift[3] == pytest.approx(1, abs=0.1)
    assert ordered.lift[3] == pytest.approx(2, abs=0.2)


def test_equal_points_are_never_their_own_neighbours():
    attributes = np.eye(6, dtype=np.float32)  # nobody shares anything
    assert attribute_concentration(torch.zeros(6, 2), attributes, sizes=(1, 5)).precision.tolist() == [0, 0]


def test_no_attributes_and_nothing_known():
    nothing = attribute_concentration(torch.randn(5, 2), np.zeros((5, 0), np.float32), sizes=(1, 2))
    unknown = attribute_concentration(torch.randn(5, 2), np.full((5, 2), np.nan), sizes=(1, 2))
    for found in (nothing, unknown):
        assert np.isnan(found.precision).all()
        assert np.isnan(found.lift).all()


def test_wrong_shapes_and_sizes_are_refused():
    with pytest.raises(ValueError, match=r"\(3, 2\), expected \(4, A\)"):
        attribute_concentration(torch.zeros(4, 2), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="ascending"):
        attribute_concentration(torch.zeros(4, 2), np.zeros((4, 2)), sizes=(4, 1))
    with pytest.raises(ValueError, match="needs labels"):
        attribute_concentration(torch.zeros(4, 2), np.zeros((4, 2)), others_only=True)


@pytest.fixture
def annotated():
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=480)
    points = rng.normal(size=(480, 2)) + labels[:, None]
    table = (points @ rng.normal(size=(2, 6)) + rng.normal(size=(480, 6)) > 0.8).astype(np.float32)
    table[:, 5] = 0  # which nobody has
    table[rng.random((480, 6)) < 0.1] = np.nan
    table[::10] = np.nan  # of these nothing is known
    return torch.tensor(points), torch.tensor(table), torch.tensor(labels)


@pytest.mark.parametrize("scope", ["all", "others", "class"])
@pytest.mark.parametrize("elements", [9000, module.CHUNK_ELEMENTS])
def test_the_mean_over_examples_is_the_precision(annotated, scope, elements, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", elements)
    points, table, labels = annotated
    if scope == "class":
        found = concentration_within_classes(points, table, labels, sizes=SIZES, per_example=True)
    else:
        others = scope == "others"
        found = attribute_concentration(points, table, sizes=SIZES, labels=labels, others_only=others, per_example=True)
    assert found.per_example.shape == (432, 5)
    np.testing.assert_allclose(found.per_example.mean(axis=0), found.precision, rtol=1e-6)


def test_resampled_means_spread_as_the_precision_of_resampled_examples(annotated):
    points, table, _ = annotated
    values = attribute_concentration(points, table, sizes=SIZES, per_example=True).per_example
    told = ~table.isnan().all(dim=1)
    points, table = points[told].numpy(), table[told].numpy()
    # The fraction of the four nearest, for each example and attribute, by hand.
    order = np.argsort(((points[:, None] - points[None]) ** 2).sum(axis=2), axis=1)[:, 1:5]
    near = table[order]
    fraction = np.nansum(near, axis=1) / np.maximum((~np.isnan(near)).sum(axis=1), 1)
    has = ((table == 1) & (~np.isnan(near)).any(axis=1))[:, :5]
    rng, drawn, exact = np.random.default_rng(0), [], []
    for _ in range(1000):
        weights = np.bincount(rng.integers(432, size=432), minlength=432)
        exact.append(((weights @ np.where(has, fraction[:, :5], 0)) / (weights @ has)).mean())
        drawn.append(weights @ values[:, 2] / 432)
    assert np.std(drawn) == pytest.approx(np.std(exact), rel=0.05)
    assert np.corrcoef(drawn, exact)[0, 1] > 0.98
