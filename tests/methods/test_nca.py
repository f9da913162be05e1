import numpy as np
import pytest
import torch

from magnet.classify import SoftNeighbours
from magnet.index import ClusterIndex
from magnet.methods import Batch, Options
from magnet.methods.nca import NCA, centred_squared_distances, nca_loss
from methods.numerical import assert_same
from methods.toy import setting_of, xor

LABELS = torch.tensor([0, 0, 1, 1, 1, 2, 0])


def naive_nca(r: np.ndarray, factor: float) -> np.ndarray:
    losses = []
    for n in range(len(r)):
        weight = {m: np.exp(-factor * np.sum((r[n] - r[m]) ** 2)) for m in range(len(r)) if m != n}
        own = sum(w for m, w in weight.items() if LABELS[m] == LABELS[n])
        losses.append(-np.log(own / sum(weight.values())) if own > 0 else 0.0)
    return np.array(losses)


@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_the_loss_and_its_gradient_are_those_of_the_equation(factor):
    at = np.random.default_rng(0).normal(size=(7, 3))
    assert_same(lambda r: nca_loss(r, LABELS, factor), lambda r: naive_nca(r, factor), at)


def test_the_loss_is_finite_and_not_negative_however_far_apart_the_rows_are():
    for scale in (0.0, 1e-6, 1e3, 1e8):
        r = (scale * torch.randn(7, 3, generator=torch.Generator().manual_seed(0))).requires_grad_()
        losses = nca_loss(r, LABELS)
        losses.sum().backward()
        assert (losses >= 0).all()
        assert losses.isfinite().all()
        assert r.grad.isfinite().all()


def test_the_objective_is_what_soft_neighbours_say_of_a_row_left_out():
    x, y = xor(12)
    method = NCA(setting_of(y, 6), Options(scaling=2.0))
    method.refresh(None, ClusterIndex.fit(x, y, 2))
    losses = method.loss(lambda inputs: inputs, Batch(x, y, torch.zeros(12))).per_example
    for n in range(12):
        rest = torch.arange(12) != n
        neighbours = SoftNeighbours(x[rest], y[rest], variance=method.variance, scaling=method.scaling)
        torch.testing.assert_close(neighbours.predict_proba(x[n : n + 1])[0, y[n]].log(), -losses[n])


def test_the_unit_of_length_is_that_of_the_first_refresh_and_is_saved():
    x, y = xor(40)
    method = NCA(setting_of(y), Options())
    assert float(method.factor) == 1  # the equation as printed
    first = ClusterIndex.fit(x, y, 2)
    method.refresh(None, first)
    method.refresh(None, ClusterIndex.fit(3 * x, y, 2))
    assert torch.equal(method.variance, first.variance)
    again = NCA(setting_of(y), Options())
    again.load_state_dict(method.state_dict())
    again.refresh(None, ClusterIndex.fit(3 * x, y, 2))
    assert torch.equal(again.variance, first.variance)


def test_batches_are_neighbourhoods_of_the_index():
    x, y = xor(80)
    method, index = NCA(setting_of(y), Options(clusters_per_batch=2, examples_per_cluster=4)), ClusterIndex.fit(x, y, 2)
    method.refresh(None, index)
    rows = next(iter(method.sampler))
    clusters = index.assignments[rows].view(2, 4)
    assert (clusters == clusters[:, :1]).all()
    assert clusters[1, 0] == index.impostors(int(clusters[0, 0]), 1)


def test_distances_keep_their_digits_between_points_near_each_other_and_far_from_the_mean():
    g = torch.Generator().manual_seed(0)
    near, far = (side + torch.randn(10, 16, generator=g) for side in (1e4, -1e4))
    points = torch.cat([near, far])
    exact = (points.double()[:, None] - points.double()).square().sum(dim=2)
    torch.testing.assert_close(centred_squared_distances(points, points).double(), exact, rtol=1e-3, atol=1e-3)
