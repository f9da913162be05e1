"""Clusters that take in new examples."""

import torch

from magnet import ClusterIndex
from magnet.export.growth import grow


def test_a_new_class_makes_clusters_of_its_own_however_far_the_reach():
    index = ClusterIndex.fit(torch.tensor([[0.0], [1.0], [9.0], [10.0]]), torch.tensor([0, 0, 1, 1]), 1)
    grown = grow(index, torch.tensor([[5.0], [5.1]]), torch.tensor([2, 2]), reach=torch.inf, clusters_per_class=1)
    assert grown.centre_labels.tolist() == [0, 1, 2]
    torch.testing.assert_close(grown.centres[:2], index.centres)
