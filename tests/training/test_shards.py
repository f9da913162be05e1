"""An index made by shards is the index of all."""

import torch

from magnet.index import ClusterIndex
from magnet.training import refresh
from magnet.training.config import TrainConfig
from magnet.training.refresh import index_by_shards, shards_of
from magnet.training.train import train


def example(n=600, classes=9):
    g = torch.Generator().manual_seed(0)
    labels = torch.cat([torch.arange(classes), torch.randint(classes, (n - classes,), generator=g)])
    return torch.randn(n, 5, generator=g), labels


def test_shards_hold_whole_classes_and_make_the_index_of_all():
    x, labels = example()
    whole = ClusterIndex.fit(x, labels, 4, seed=3)
    for count in (1, 2, 4, 9, 50):
        asked = []

        def represent(places, asked=asked):
            asked.append(places)
            return x[places]

        index = index_by_shards(represent, labels, 4, 3, count)
        assert torch.equal(index.assignments, whole.assignments)
        assert torch.equal(index.centres, whole.centres)
        assert torch.equal(index.centre_labels, whole.centre_labels)
        assert index.iterations == whole.iterations
        torch.testing.assert_close(index.variance, whole.variance)
        assert torch.equal(torch.cat(asked).sort().values, torch.arange(len(x)))
        assert max(map(len, asked)) <= len(x) / count + int(torch.bincount(labels).max())


def test_representations_are_made_at_once_until_they_are_large():
    assert shards_of(60_000, 512) == 1
    assert shards_of(5_000_000, 64) == 3


def test_a_run_by_shards_embeds_every_example_once_a_refresh_and_never_all_at_once(vectors, tmp_path, monkeypatch):
    from magnet.training import loop

    rows, original = [], loop.embed

    def counted(learner, some, *others, **more):
        rows.append(len(some))
        return original(learner, some, *others, **more)

    monkeypatch.setattr(loop, "embed", counted)
    settings = {
        "data": vectors,
        "backbone": "linear",
        "dim": 8,
        "steps": 4,
        "refresh_every": 2,
        "clusters_per_class": 2,
    }
    indexes = []
    for name, size in (("whole", 2**27), ("shards", 8 * 40)):
        monkeypatch.setattr(refresh, "SHARD", size)
        rows.clear()
        run = train(TrainConfig(**settings, out=tmp_path / name), silent=True)
        indexes.append((list(rows), ClusterIndex.load(next(run.glob("checkpoint/*/index.safetensors")))))
    (at_once, whole), (by_shards, parts) = indexes
    assert len(at_once) == 2
    assert sum(by_shards) == sum(at_once)
    assert max(by_shards) < max(at_once)
    assert torch.equal(parts.assignments, whole.assignments)
