import pytest
import torch

from magnet.classify import NearestClusters
from magnet.evaluation.explain import voters
from magnet.index import ClusterIndex


def test_voters_are_the_nearest_clusters_with_distances_in_sigma():
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 20.0]])
    references = centres.repeat_interleave(3, 0) + torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]).repeat(3, 1)
    index = ClusterIndex.fit(references, torch.arange(3).repeat_interleave(3), 1)
    rule = NearestClusters(index, variance=4.0)
    ((first, second),) = voters(rule, index, references, torch.tensor([[2.0, 0.0]]), count=2, examples=2)
    assert (first.label, first.size, first.nearest) == (0, 3, [1, 0])
    assert first.distance == pytest.approx(1.0)  # 2 away, sigma is 2
    assert (second.label, second.nearest) == (1, [5, 3])
    assert second.distance == pytest.approx(4.0)
    share = torch.softmax(-torch.tensor([4.0, 64.0, 404.0]) / 8, dim=0)
    assert [first.vote, second.vote] == pytest.approx(share[:2].tolist())
