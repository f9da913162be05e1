import torch

from magnet.methods import Options
from magnet.methods.triplet import SemanticTriplet
from methods.toy import setting_of


def drawn(labels: torch.Tensor, epochs: int) -> torch.Tensor:
    method = SemanticTriplet(setting_of(labels, 2), Options(clusters_per_batch=4, examples_per_cluster=3))
    rows = []
    for _ in range(epochs):
        for batch in method.sampler:
            method.sampler.update(torch.tensor(batch), torch.zeros(len(batch)))
            rows.append(torch.tensor(batch).view(-1, 3))
    return torch.cat(rows)


def test_positives_are_all_others_of_the_class_equally_often():
    labels = torch.tensor([2, 0, 2, 1, 0, 2, 1, 2, 0, 1])
    triplets = drawn(labels, 3000)
    assert len(triplets) > 8000
    counts = torch.zeros(10, 10, dtype=torch.long)
    counts.index_put_((triplets[:, 0], triplets[:, 1]), torch.ones(len(triplets), dtype=torch.long), accumulate=True)
    others = (labels[:, None] == labels[None, :]) & ~torch.eye(10, dtype=torch.bool)
    assert (counts[~others] == 0).all()
    expected = counts.sum(dim=1, keepdim=True) / others.sum(dim=1, keepdim=True)
    assert ((counts - expected)[others].abs() < 5 * expected.expand(10, 10)[others].sqrt()).all()
    assert (labels[triplets[:, 2]] != labels[triplets[:, 0]]).all()


def test_an_example_alone_in_its_class_is_its_own_positive():
    triplets = drawn(torch.tensor([0, 1, 1, 1]), 20)
    alone = triplets[triplets[:, 0] == 0]
    assert len(alone) > 0
    assert (alone[:, 1] == 0).all()
