"""Run under torchrun by `test_distribution`: every rank asserts that it holds what the others hold."""

import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from magnet.data import open_data
from magnet.index import ClusterIndex
from magnet.training import inputs, workbench
from magnet.training.distribution import exchange, gather_rows, share_classes, shared_index
from magnet.training.loop import Trainer
from magnet.training.train import train
from training.short_runs import differences, settings


def same_everywhere(tensor: torch.Tensor) -> None:
    others = [torch.empty_like(tensor) for _ in range(2)]
    dist.all_gather(others, tensor.contiguous())
    assert torch.equal(others[0], others[1])


def check_state(trainer: Trainer) -> None:
    if trainer.index is not None:
        for tensor in trainer.index.tensors().values():
            same_everywhere(tensor)
    for value in trainer.method.sampler.state_dict().values():
        same_everywhere(torch.as_tensor(value))
    for parameter in trainer.learner.parameters():
        same_everywhere(parameter.data)
    for name in ("error", "best_log_loss"):  # of validations; early stopping goes by the second
        if name in trainer.progress:
            same_everywhere(torch.tensor(trainer.progress[name], dtype=torch.float64))


def watch(folder: Path, data: str, method: str, **more) -> None:
    """Train, looking at all ranks before every step, and that their batches differ."""
    step = Trainer._step

    def checking(trainer: Trainer) -> None:
        check_state(trainer)
        step(trainer)

    Trainer._step = checking
    train(settings(folder, data, method=method, epochs=2, validation=0.2, dropout=0.1, **more), silent=True)
    Trainer._step = step


def check_interruption(folder: Path, data: str, rank: int) -> None:
    """A signal to one rank stops both after the step in which it is told; the run then goes on to the same end."""
    options = {"steps": 7, "refresh_every": 3, "dropout": 0.1}
    train(settings(folder / "whole", data, **options), silent=True)
    step = Trainer._step

    def stopping(trainer: Trainer) -> None:
        step(trainer)
        if trainer.step == 4 and rank == 1:
            trainer._interrupt(2, None)

    Trainer._step = stopping
    with pytest.raises(KeyboardInterrupt, match="stopped at step 5 of 7"):
        train(settings(folder / "stopped", data, **options), silent=True)
    Trainer._step = step
    train(settings(folder / "stopped", data, **options), resume=True, silent=True)
    dist.barrier()  # rank 0 writes its last lines
    assert differences(folder / "whole", folder / "stopped") == []


def check_gathering(rank: int) -> None:
    own = torch.arange(6.0).view(3, 2)[: 1 + 2 * rank] + 10 * rank
    expected = torch.cat([torch.arange(2.0).view(1, 2), torch.arange(6.0).view(3, 2) + 10])
    assert torch.equal(gather_rows(own, 2), expected)
    assert gather_rows(torch.zeros(rank, dtype=torch.long), 2).tolist() == [0]


def check_exchange(rank: int) -> None:
    """Batches of unlike size, losses and places to the last bit, in one collective."""
    own = torch.arange(1 + 2 * rank) + 2**40 + 10 * rank
    losses = torch.tensor([0.1, 1e-30, 3.3e30])[: 1 + 2 * rank]
    calls = []
    gather = dist.all_gather
    dist.all_gather = lambda *args: calls.append(1) or gather(*args)
    for flag in (rank == 1, False):
        places, found, up = exchange(own, losses, flag, 5, 2)
        assert (places - 2**40).tolist() == [0, 10, 11, 12]
        assert found.tolist() == torch.tensor([0.1, 0.1, 1e-30, 3.3e30]).tolist()
        assert found.dtype == torch.float32
        assert up is (calls == [1])
    dist.all_gather = gather
    assert len(calls) == 2


def check_features(folder: Path, images: str) -> None:
    """Each rank passes half of the images through the trunk, for the start and for the training."""
    counts, whole = [], inputs.trunk_features

    def counted(rows, network, name, images):
        counts.append(len(rows))
        return whole(rows, network, name, images)

    inputs.trunk_features = workbench.trunk_features = counted
    options = {"image_size": 12, "hidden": 0, "workers": 0, "freeze": True, "start": "whitened"}
    watch(folder, images, "magnet", **options)
    inputs.trunk_features = workbench.trunk_features = whole
    examples = len(open_data(images, validation=0.2).indices("train"))
    assert len(counts) == 2
    assert int(gather_rows(torch.tensor(counts[:1]), 2).sum()) == examples


def check_index(rank: int) -> None:
    source = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 7, (300,), generator=source)
    representations = torch.randn(300, 5, generator=source)
    mine = (share_classes(labels, 2) == rank).nonzero().squeeze(1)
    index = shared_index(representations[mine], mine, labels, 4, 0, 2)
    alone = ClusterIndex.fit(representations, labels, 4, seed=0)
    assert torch.equal(index.centre_labels, alone.centre_labels)
    assert torch.equal(index.assignments, alone.assignments)
    assert torch.equal(index.centres, alone.centres)
    assert torch.allclose(index.variance, alone.variance)


def main(folder: Path, vectors: str, images: str) -> None:
    torch.set_num_threads(1)
    watch(folder / "magnet", vectors, "magnet", refresh_every=2)
    watch(folder / "triplet", vectors, "triplet", warm_start_epochs=1)
    watch(folder / "images", images, "magnet", image_size=12, hidden=0, workers=0)
    check_features(folder / "frozen", images)
    check_interruption(folder, vectors, dist.get_rank())
    check_gathering(dist.get_rank())
    check_exchange(dist.get_rank())
    check_index(dist.get_rank())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
