import pytest
import torch

from magnet.errors import UserError
from magnet.index import ClusterIndex
from magnet.methods import Batch, Options, Setting, method_class
from magnet.methods.variants import AdaptiveClusters, CachedRepresentations, RandomClusters, UniformSeeds

LABELS = torch.arange(6).repeat_interleave(10)
OPTIONS = Options(clusters_per_class=2, clusters_per_batch=4, examples_per_cluster=3)


def _space(seed: int = 0) -> torch.Tensor:
    return torch.randn(60, 5, generator=torch.Generator().manual_seed(seed)) + 4 * LABELS[:, None]


@pytest.fixture
def index() -> ClusterIndex:
    return ClusterIndex.fit(_space(), LABELS, 2)


def test_they_are_methods_by_name() -> None:
    assert method_class("magnet/uniform-seeds") is UniformSeeds
    assert method_class("magnet/random-clusters") is RandomClusters


def test_uniform_seeds_pay_no_heed_to_losses(index: ClusterIndex) -> None:
    method = UniformSeeds(Setting(LABELS, 6, 5), OPTIONS)
    method.refresh(None, index)
    sampler = method.sampler
    seeds = torch.zeros(len(index))
    for _ in range(200):
        for batch in sampler:
            drawn = sampler.clusters(batch)
            seeds[drawn[0]] += 1
            sampler.update(batch, (drawn == 0).float() * 100)  # all of the loss is in one cluster
    assert seeds.min() > 0.5 * seeds.mean()
    assert seeds.max() < 1.5 * seeds.mean()


def test_random_clusters_are_of_other_classes_and_not_the_nearest(index: ClusterIndex) -> None:
    method = RandomClusters(Setting(LABELS, 6, 5), OPTIONS)
    method.refresh(None, index)
    table = method.sampler.index.nearest_impostors(3)
    assert (index.centre_labels[table] != index.centre_labels[:, None]).all()
    assert all(len(set(row)) == 3 for row in table.tolist())
    assert not torch.equal(table, index.nearest_impostors(3))
    for batch in method.sampler:
        labels = LABELS[torch.tensor(batch)].view(4, 3)
        assert (labels[1:] != labels[0, 0]).all()


def test_cached_representations_are_those_of_the_last_batch_of_each_example(index: ClusterIndex) -> None:
    method = CachedRepresentations(Setting(LABELS, 6, 5), OPTIONS)
    method.refresh(None, index)
    torch.testing.assert_close(method.seen, index.centres[index.assignments])
    expected = method.seen.clone()
    space = _space(1)
    for number, batch in enumerate(method.sampler):
        rows = torch.tensor(batch)
        now = space + number  # the network moves on
        clusters = method.clusters(rows)
        output = method.loss(lambda x, now=now: now[x], Batch(rows, LABELS[rows], clusters))
        method.sampler.update(batch, output.per_example)
        expected[rows] = now[rows]
    torch.testing.assert_close(method.seen, expected)
    method.refresh(None, index)
    assert method.sampler.index == ClusterIndex.fit(expected, LABELS, 2, seed=0)


def test_cached_representations_of_several_processes_are_refused() -> None:
    with pytest.raises(UserError, match="found 2 processes: train it with one"):
        CachedRepresentations(Setting(LABELS, 6, 5, world_size=2), OPTIONS)


def test_adaptive_clusters_find_the_modes_of_every_class() -> None:
    modes = (1, 4, 2, 1, 2, 4)  # that the six classes have, far apart inside a class
    mode = torch.cat([torch.arange(10) % count for count in modes])
    noise = torch.randn(60, 30, generator=torch.Generator().manual_seed(0))
    space = noise + 100 * LABELS[:, None] + 50 * torch.nn.functional.one_hot(mode, 30)
    method = AdaptiveClusters(Setting(LABELS, 6, 5), OPTIONS)
    method.refresh(space, ClusterIndex.fit(space, LABELS, modes))
    found = method.sampler.index
    assert torch.bincount(found.centre_labels).tolist() == list(modes)
    pairs = torch.stack([found.assignments, mode + 10 * LABELS])
    assert len(pairs.unique(dim=1).T) == len(found), "every cluster is one mode"
