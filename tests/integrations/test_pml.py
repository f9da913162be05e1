"""Magnet as a loss of pytorch-metric-learning."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import magnet
from methods.toy import blobs

pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import distances, reducers, trainers
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from magnet.integrations.pml import MagnetLoss, NeighbourhoodBatches

CPU = torch.device("cpu")


def trainer_of(network, x, y, loss, sampler, **others):
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    return trainers.MetricLossOnly(
        {"trunk": network}, {"trunk_optimizer": optimiser}, None, {"metric_loss": loss}, TensorDataset(x, y),
        sampler=sampler, dataloader_num_workers=0, data_device=CPU, **others,
    )  # fmt: skip


def test_without_batches_every_class_is_one_cluster():
    r, y = torch.randn(12, 5, requires_grad=True), torch.arange(12) % 3
    expected = magnet.magnet_loss(r, y, y, alpha=2.0, scaling=3.0, own_mean="leave-one-out")
    loss = MagnetLoss(2.0, 3.0, "leave-one-out")
    assert torch.equal(loss(r, y), expected.loss)
    torch.testing.assert_close(loss.variance.float(), expected.variance.detach())


def test_reducers_and_normalising_distances_of_the_library_work():
    r, y = torch.randn(12, 5), torch.arange(12) % 3
    kept = MagnetLoss(reducer=reducers.DoNothingReducer())(r, y)["loss"]
    torch.testing.assert_close(kept["losses"], magnet.magnet_loss(r, y, y).per_example)
    on_sphere = MagnetLoss(distance=distances.LpDistance(normalize_embeddings=True, p=2, power=2))
    unit = nn.functional.normalize(r, dim=1)
    torch.testing.assert_close(on_sphere(r, y), magnet.magnet_loss(unit, y, y).loss)
    with pytest.raises(AssertionError):
        MagnetLoss(distance=distances.CosineSimilarity())


@pytest.mark.parametrize("workers", [0, 1])
def test_clusters_are_those_that_the_batch_was_drawn_from(workers):
    x, y = blobs(120)
    sampler = magnet.NeighbourhoodSampler(magnet.ClusterIndex.fit(x, y, 3), clusters_per_batch=4)
    batches = NeighbourhoodBatches(sampler)
    loss = MagnetLoss(batches=batches)
    loader = DataLoader(TensorDataset(torch.arange(120), x, y), batch_sampler=batches, num_workers=workers)
    for _ in range(2):
        for places, inputs, labels in loader:
            clusters = sampler.clusters(places)
            assert len(clusters.unique()) > len(labels.unique())
            assert torch.equal(loss(inputs, labels), magnet.magnet_loss(inputs, clusters, labels).loss)
    assert sampler.state_dict()["position"] == 2 * len(sampler)  # the sampler was told of each
    assert float(loss.eval()(x, y)) > 0  # in evaluation no batch is waited for


def test_a_batch_that_was_not_drawn_is_refused():
    x, y = blobs(120)
    batches = NeighbourhoodBatches(magnet.NeighbourhoodSampler(magnet.ClusterIndex.fit(x, y, 3)))
    with pytest.raises(ValueError, match="got 7 embeddings, but the batch drawn next has 0 examples"):
        MagnetLoss(batches=batches)(x[:7], y[:7])


def test_its_trainer_learns_blobs_and_its_calculator_says_so():
    x, y = blobs()
    x_test, y_test = blobs(seed=1)
    torch.manual_seed(0)
    network = nn.Linear(8, 4)

    def look():
        with torch.no_grad():
            return magnet.ClusterIndex.fit(network(x), y, 2)

    sampler = magnet.NeighbourhoodSampler(look(), clusters_per_batch=4, examples_per_cluster=6)
    batches = NeighbourhoodBatches(sampler)
    loss, refreshed = MagnetLoss(batches=batches), []
    trainer = trainer_of(
        network, x, y, loss, batches, end_of_epoch_hook=lambda t: (refreshed.append(t.epoch), sampler.refresh(look()))
    )
    trainer.train(num_epochs=20)
    assert refreshed == list(range(1, 21))
    with torch.no_grad():
        found = AccuracyCalculator(include=("precision_at_1",), device=CPU).get_accuracy(
            network(x_test), y_test, network(x), y
        )
    assert found["precision_at_1"] > 0.95
    classifier = magnet.NearestClusters(sampler.index, variance=loss.variance)
    assert (classifier.predict(network(x_test).detach()) != y_test).float().mean() < 0.05
