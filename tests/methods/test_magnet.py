import copy

import numpy as np
import pytest
import torch
from torch import nn

from magnet.index import ClusterIndex
from magnet.methods import Batch, MethodLoss, Options
from magnet.methods.magnet import Magnet
from methods.numerical import assert_same
from methods.toy import setting_of, train, xor

CLUSTERS = [0, 0, 0, 1, 1, 2, 2, 3]
LABELS = [0, 0, 0, 0, 0, 1, 1, 2]


def naive_magnet(r: np.ndarray, alpha: float, scaling: float, leave_one_out: bool) -> np.ndarray:
    """Section 3.2, term by term."""
    rows = range(len(r))
    means = {j: np.mean([r[i] for i in rows if CLUSTERS[i] == j], axis=0) for j in set(CLUSTERS)}
    variance = sum(np.sum((r[i] - means[CLUSTERS[i]]) ** 2) for i in rows) / (len(r) - 1)
    losses = []
    for i in rows:
        others = [r[k] for k in rows if CLUSTERS[k] == CLUSTERS[i] and k != i]
        own = np.mean(others, axis=0) if leave_one_out and others else means[CLUSTERS[i]]
        numerator = np.exp(-scaling * np.sum((r[i] - own) ** 2) / (2 * variance) - alpha)
        denominator = sum(
            np.exp(-scaling * np.sum((r[i] - means[j]) ** 2) / (2 * variance))
            for j in means
            if LABELS[CLUSTERS.index(j)] != LABELS[i]
        )
        losses.append(max(0.0, -np.log(numerator / denominator)))
    return np.array(losses)


@pytest.mark.parametrize("own_mean", ["batch", "leave-one-out"])
def test_the_loss_and_its_gradient_are_those_of_the_equation(own_mean):
    options = Options(alpha=0.7, scaling=1.5, own_mean=own_mean)
    method = Magnet(setting_of(torch.tensor(LABELS)), options)

    def loss(r: torch.Tensor) -> MethodLoss:
        return method.loss(lambda x: x, Batch(r, torch.tensor(LABELS), torch.tensor(CLUSTERS)))

    def naive(r: np.ndarray) -> np.ndarray:
        return naive_magnet(r, 0.7, 1.5, own_mean == "leave-one-out")

    at = np.random.default_rng(0).normal(size=(8, 3))
    assert_same(lambda r: loss(r).loss[None], lambda r: naive(r).mean(keepdims=True), at)
    np.testing.assert_allclose(loss(torch.tensor(at)).per_example, naive(at))


def test_the_variance_of_the_batches_is_kept_and_saved():
    labels, clusters = torch.tensor(LABELS), torch.tensor(CLUSTERS)
    method = Magnet(setting_of(labels), Options())
    assert method.variance is None
    output = method.loss(lambda x: x, Batch(torch.randn(8, 3), labels, clusters))
    torch.testing.assert_close(method.variance, output.variance)
    again = Magnet(setting_of(labels), Options())
    again.load_state_dict(method.state_dict())
    assert torch.equal(again.variance, method.variance)


def test_batches_are_a_seed_cluster_and_its_nearest_impostors():
    x, y = xor(80)
    options = Options(clusters_per_class=2, clusters_per_batch=2, examples_per_cluster=5)
    method, index = Magnet(setting_of(y), options), ClusterIndex.fit(x, y, 2)
    method.refresh(None, index)
    for rows in method.sampler:
        drawn = method.clusters(torch.tensor(rows))
        assert drawn.tolist() == index.assignments[rows].tolist()
        seed, impostor = drawn[0], drawn[5]
        assert impostor == index.impostors(int(seed), 1)
        assert drawn.tolist() == [int(seed)] * 5 + [int(impostor)] * 5
        assert len(set(rows)) == 10


def test_before_the_first_refresh_a_cluster_is_a_class():
    y = torch.tensor([4, 1, 1, 4, 7, 7])
    method = Magnet(setting_of(y), Options(clusters_per_batch=2, examples_per_cluster=2))
    rows = next(iter(method.sampler))
    assert y[rows[0]] == y[rows[1]] != y[rows[2]] == y[rows[3]]


def test_two_clusters_a_class_solve_xor_which_one_cannot():
    x, y = xor()
    test_x, test_y = xor(seed=1)
    start = nn.Linear(6, 2)
    options = {k: Options(clusters_per_class=k, clusters_per_batch=3, examples_per_cluster=8) for k in (1, 2)}
    two = train("magnet", copy.deepcopy(start), x, y, options[2])
    one = train("magnet", copy.deepcopy(start), x, y, options[1])
    assert two.error(test_x, test_y, "knc", 2) < 0.05
    assert one.error(test_x, test_y, "knc", 1) > 0.3


def test_at_a_refresh_the_losses_of_all_examples_can_be_renewed():
    x, y = xor(80)
    index = ClusterIndex.fit(x, y, 2)
    setting, options = (
        setting_of(y),
        Options(alpha=0.5, clusters_per_batch=2, examples_per_cluster=5, losses="refreshed"),
    )
    method = Magnet(setting, options)
    method.refresh(x, index)
    centres = index.centres.numpy()
    own = ((x.numpy() - centres[index.assignments.numpy()]) ** 2).sum(1)
    variance = own.sum() / (len(x) - 1)
    losses = np.zeros(len(x))
    for i, row in enumerate(x.numpy()):
        others = sum(
            np.exp(-((row - centre) ** 2).sum() / (2 * variance))
            for centre, label in zip(centres, index.centre_labels, strict=True)
            if label != y[i]
        )
        losses[i] = max(0.0, own[i] / (2 * variance) + 0.5 + np.log(others))
    for _ in range(20):  # until what was told has taken effect
        rows = next(iter(method.sampler))
        method.sampler.update(torch.tensor(rows), torch.tensor(losses[rows]))
    means = [losses[index.assignments.numpy() == j].mean() for j in range(len(index))]
    np.testing.assert_allclose(method.sampler.mean_losses(), means, rtol=1e-4, atol=1e-5)
    drawn = Magnet(setting, Options(clusters_per_batch=2, examples_per_cluster=5))
    drawn.refresh(x, index)
    assert drawn.sampler.mean_losses().isnan().all()  # nothing is known before a batch has been seen
