import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from magnet.methods import Batch, Options
from magnet.methods.ncm import NCM, NCMC, centroid_logits
from methods.numerical import assert_same
from methods.toy import mean_rows, setting_of, train, xor

LABELS = torch.tensor([0, 1, 2, 2, 1])
OWNERS = torch.tensor([0, 0, 1, 2, 2, 2])
OPTIONS = Options(clusters_per_class=2, clusters_per_batch=3, examples_per_cluster=8)


def naive_ncm(r: np.ndarray, centroids: np.ndarray, factor: float) -> np.ndarray:
    losses = []
    for row, label in zip(r, LABELS, strict=True):
        weight = [np.exp(-factor * np.sum((row - m) ** 2)) for m in centroids]
        losses.append(-np.log(sum(w for w, c in zip(weight, OWNERS, strict=True) if c == label) / sum(weight)))
    return np.array(losses)


def test_the_loss_and_its_gradient_are_those_of_the_equation():
    # The last six rows are the mapped centroids: gradients flow through them too.
    def loss(r: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(centroid_logits(r[:5], r[5:], OWNERS, 3, 0.8), LABELS, reduction="none")

    at = np.random.default_rng(0).normal(size=(11, 3))
    assert_same(loss, lambda r: naive_ncm(r[:5], r[5:], 0.8), at)


def test_the_map_learns_through_the_centroids_too():
    x, y = xor(5)
    y[0] = 1
    method = NCM(setting_of(y), OPTIONS).double()
    method.prepare(x.double(), mean_rows(x.double()))

    def loss(weight: torch.Tensor) -> torch.Tensor:
        return method.loss(lambda inputs: inputs @ weight.T, Batch(x.double(), y, torch.zeros(5))).loss[None]

    def naive(weight: np.ndarray) -> np.ndarray:
        inputs = x.double().numpy()
        means = [np.mean([row for row, c in zip(inputs, y, strict=True) if c == k], axis=0) for k in (0, 1)]
        shares = []
        for row, c in zip(inputs, y, strict=True):
            near = [np.exp(-np.sum((weight @ row - weight @ mean) ** 2)) for mean in means]
            shares.append(near[c] / sum(near))
        return -np.log(shares).mean(keepdims=True)

    assert_same(loss, naive, np.random.default_rng(0).normal(size=(2, 6)))


def test_logits_do_not_underflow_and_an_absent_class_is_never_chosen():
    r = torch.tensor([[0.0], [100.0]], requires_grad=True)
    logits = centroid_logits(r, torch.tensor([[1.0], [99.0]]), torch.tensor([0, 2]), 3)
    inf = torch.inf
    torch.testing.assert_close(logits, torch.tensor([[-1.0, -inf, -(99.0**2)], [-(99.0**2), -inf, -1.0]]))
    nn.functional.cross_entropy(logits, torch.tensor([0, 0])).backward()
    assert r.grad.isfinite().all()


def test_the_centroids_are_the_class_means_of_the_inputs():
    x, y = xor(40)
    method = NCM(setting_of(y), OPTIONS)
    method.prepare(x, mean_rows(x))
    assert method.centroid_labels.tolist() == [0, 1]
    torch.testing.assert_close(method.centroids, torch.stack([x[y == 0].mean(dim=0), x[y == 1].mean(dim=0)]))


def test_ncmc_has_k_means_of_each_class():
    x, y = xor(40)
    method = NCMC(setting_of(y), OPTIONS)
    method.prepare(x, mean_rows(x))
    assert method.centroid_labels.tolist() == [0, 0, 1, 1]
    corners = method.centroids[:, :2].sign().int().tolist()
    assert sorted(corners[:2]) == [[-1, -1], [1, 1]]
    assert sorted(corners[2:]) == [[-1, 1], [1, -1]]


def test_centroids_of_images_go_through_a_deep_network_with_the_batch():
    images, y = torch.rand(12, 3, 6, 6), torch.arange(12) % 2
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    method = NCM(setting_of(y, 5), OPTIONS)
    method.prepare(images.flatten(1), mean_rows(images))
    assert method.centroids.shape == (2, 3, 6, 6)
    output = method.loss(network, Batch(images[:8], y[:8], torch.zeros(8)))
    output.loss.backward()
    assert output.per_example.shape == (8,)
    assert all(p.grad.isfinite().all() for p in network.parameters())
    assert network[1].num_batches_tracked == 1  # one pass


@pytest.mark.parametrize("kind", [NCM, NCMC])
def test_a_saved_state_goes_into_a_fresh_method(kind):
    x, y = xor(40)
    method, network = kind(setting_of(y, 2), OPTIONS), nn.Linear(6, 2)
    fresh = kind(setting_of(y, 2), OPTIONS)
    fresh.load_state_dict(load(save(method.state_dict())))  # before anything is known
    assert fresh.logits(torch.zeros(1, 2)) is None
    method.prepare(x, mean_rows(x))
    method.refresh(network(x).detach(), None)
    method.observe(network)
    fresh.load_state_dict(load(save(method.state_dict())))
    r = torch.randn(5, 2)
    assert torch.equal(fresh.logits(r), method.logits(r))
    assert not method.mapped.requires_grad
    batch = Batch(x[:6], y[:6], torch.zeros(6))
    assert torch.equal(fresh.loss(network, batch).loss, method.loss(network, batch).loss)


def test_the_head_agrees_with_the_loss():
    x, y = xor(40)
    method, network = NCMC(setting_of(y, 2), OPTIONS), nn.Linear(6, 2)
    method.prepare(x, mean_rows(x))
    method.refresh(network(x).detach(), None)
    method.observe(network)
    expected = nn.functional.cross_entropy(method.logits(network(x)), y)
    torch.testing.assert_close(method.loss(network, Batch(x, y, torch.zeros(40))).loss, expected)


def test_the_class_mean_cannot_solve_xor_but_two_centroids_can():
    x, y = xor()
    assert train("ncm", nn.Linear(6, 2), x, y, OPTIONS).error(*xor(seed=1), "head") > 0.3
    assert train("ncmc", nn.Linear(6, 2), x, y, OPTIONS).error(*xor(seed=1), "head") < 0.05


def test_a_deep_map_gets_around_the_class_mean():
    x, y = xor()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))
    assert train("ncm", network, x, y, OPTIONS).error(*xor(seed=1), "head") < 0.05
