import copy

import numpy as np
import torch
from torch import nn

from magnet.methods import Batch, Options
from magnet.methods.nca import ClusterNCA, cluster_nca_loss
from magnet.objective import magnet_loss
from methods.numerical import assert_same
from methods.toy import setting_of, train, xor

CLUSTERS = [5, 5, 5, 1, 1, 2, 2, 3]
LABELS = [0, 0, 0, 0, 0, 1, 1, 2]


def naive_cluster_nca(r: np.ndarray, scaling: float) -> np.ndarray:
    rows = range(len(r))
    means = {j: np.mean([r[i] for i in rows if CLUSTERS[i] == j], axis=0) for j in set(CLUSTERS)}
    variance = sum(np.sum((r[i] - means[CLUSTERS[i]]) ** 2) for i in rows) / (len(r) - 1)
    losses = []
    for i in rows:
        weight = {j: np.exp(-scaling * np.sum((r[i] - means[j]) ** 2) / (2 * variance)) for j in means}
        own = sum(w for j, w in weight.items() if LABELS[CLUSTERS.index(j)] == LABELS[i])
        losses.append(-np.log(own / sum(weight.values())))
    return np.array(losses)


def loss(r: torch.Tensor, scaling: float = 1.0) -> torch.Tensor:
    return cluster_nca_loss(r, torch.tensor(CLUSTERS), torch.tensor(LABELS), scaling)[0]


def test_the_loss_and_its_gradient_are_those_of_the_equation():
    at = np.random.default_rng(0).normal(size=(8, 3))
    assert_same(lambda r: loss(r, 1.5), lambda r: naive_cluster_nca(r, 1.5), at)


def test_the_loss_is_invariant_to_moving_turning_and_scaling_the_space():
    r = torch.randn(8, 3, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    torch.testing.assert_close(loss(7 * r @ turn + 100), loss(r))


def test_the_variance_is_that_of_magnet_and_its_running_average_is_saved():
    r, clusters, labels = torch.randn(8, 3), torch.tensor(CLUSTERS), torch.tensor(LABELS)
    method = ClusterNCA(setting_of(labels), Options())
    assert method.variance is None
    output = method.loss(lambda x: x, Batch(r, labels, clusters))
    torch.testing.assert_close(output.variance, magnet_loss(r, clusters, labels).variance)
    torch.testing.assert_close(method.variance, output.variance.double())
    method.eval().loss(lambda x: x, Batch(9 * r, labels, clusters))
    torch.testing.assert_close(method.variance, output.variance.double())
    again = ClusterNCA(setting_of(labels), Options())
    again.load_state_dict(method.state_dict())
    assert torch.equal(again.variance, method.variance)


def test_rows_on_their_means_give_the_limit():
    r = torch.tensor([[0.0, 0.0]] * 5 + [[1.0, 0.0]] * 2 + [[0.0, 1.0]])
    assert loss(r).tolist() == [0.0] * 8
    r = torch.zeros(8, 2, requires_grad=True)
    losses = loss(r)
    losses.sum().backward()
    torch.testing.assert_close(losses, torch.tensor([2.0] * 5 + [4.0] * 3).log())  # four clusters, all alike
    assert r.grad.isfinite().all()


def test_two_clusters_a_class_solve_xor_which_one_cannot():
    x, y = xor()
    start = nn.Linear(6, 2)
    options = {k: Options(clusters_per_class=k, clusters_per_batch=3, examples_per_cluster=8) for k in (1, 2)}
    models = {k: train("cluster-nca", copy.deepcopy(start), x, y, options[k]) for k in (1, 2)}
    assert models[2].error(*xor(seed=1), "knc", 2) < 0.05
    assert models[1].error(*xor(seed=1), "knc", 1) > 0.3
