"""Communication between ranks: the clusters without the representations, the losses of batches, signs of life."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from magnet.clustering import ClustersPerClass, KMeansResult, distinct, kmeans_per_class
from magnet.errors import one_line
from magnet.index import ClusterIndex

EVERY = 2.0  # seconds between two signs of life
SILENCE = 25  # seconds without one


class Ranks(NamedTuple):
    """This process among those that train together."""

    rank: int = 0
    world_size: int = 1


ALONE = Ranks()


class Heartbeat:
    """Ends this process where another rank has not been heard of for `SILENCE` seconds: it was stopped, or is gone.

    A rank that waits for another in a collective would wait for hours. A thread of each rank counts up in the store
    that the ranks have met in, and looks whether the others do. A process that is stopped cannot be asked to end, so
    it is told to go on first: torchrun, which ends all ranks when one has left, would wait half a minute for it.
    """

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.others = rank, [other for other in range(world_size) if other != rank]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="heartbeat")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that is inside the store when the interpreter ends would abort this process, and with it the others.
        self._end.set()
        self._thread.join(timeout=SILENCE)

    def _watch(self) -> None:
        address, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "0"))
        try:
            store = PrefixStore("heartbeat", TCPStore(address, port, is_master=False, wait_for_workers=False))
            store.set(f"process {self.rank}", f"{os.getpid()} {socket.gethostname()}")
            # Time is counted in beats of our own: where this process, or the machine, was stopped or is very busy, the
            # others are given that time too.
            beats, heard = 0, dict.fromkeys(self.others, (-1, 0))  # the last sign of each, and our beat then
            while not self._end.wait(EVERY):
                beats += 1
                store.set(str(self.rank), str(beats))
                for other in self.others:
                    count = int(store.get(str(other))) if store.check([str(other)]) else 0
                    if count != heard[other][0]:
                        heard[other] = count, beats
                    elif (beats - heard[other][1]) * EVERY > SILENCE:
                        _wake(store, other)
                        self._leave(f"rank {other} has not answered for {SILENCE} seconds")
        except RuntimeError as error:  # the store has gone with the process that held it
            if not self._end.wait(EVERY):
                self._leave(f"the other ranks cannot be reached ({one_line(error, 80)})")

    def _leave(self, reason: str) -> None:
        print(f"magnet: {reason}: rank {self.rank} ends. Go on with --resume", file=sys.stderr, flush=True)
        os._exit(1)


def _wake(store: Store, rank: int) -> None:
    """Let a rank on this machine go on if it is stopped."""
    if hasattr(signal, "SIGCONT") and store.check([f"process {rank}"]):
        process, _, machine = store.get(f"process {rank}").decode().partition(" ")
        if machine == socket.gethostname():
            with suppress(OSError):
                os.kill(int(process), signal.SIGCONT)


def gather_rows(rows: Tensor, world_size: int) -> Tensor:
    """The rows of all ranks, one rank after the other; their numbers may differ."""
    if world_size == 1:
        return rows
    home = rows.device
    if dist.get_backend() == "nccl":  # which moves tensors between GPUs only
        rows = rows.cuda()
    counts = torch.cat(_gather(torch.tensor([len(rows)], device=rows.device), world_size)).tolist()
    padded = rows.new_zeros((max(counts), *rows.shape[1:]))
    padded[: len(rows)] = rows
    return torch.cat([part[:n] for part, n in zip(_gather(padded, world_size), counts, strict=True)]).to(home)


def exchange(places: Tensor, losses: Tensor, flag: bool, room: int, world_size: int) -> tuple[Tensor, Tensor, bool]:
    """What ranks tell each other in a step: one collective, of 8 (2 room + 2) bytes from each.

    Args:
        places: (n,) the examples of this rank's batch, n <= room; their number may differ between ranks.
        losses: (n,) of these examples, in at most single precision.
        flag: something to tell the others.
        room: the largest batch of any rank.
        world_size: how many ranks take part.

    Returns:
        The places and losses of all ranks, and whether the flag is up on any.
    """
    n = len(places)
    told = torch.zeros(2 * room + 2, dtype=torch.float64)  # which holds both kinds exactly
    told[:2] = torch.tensor([n, flag])
    told[2 : 2 + n], told[2 + room : 2 + room + n] = places, losses
    if dist.get_backend() == "nccl":
        told = told.cuda()
    heard = torch.stack(_gather(told, world_size)).cpu()
    counts = heard[:, 0].long().tolist()
    everyone = torch.cat([row[2 : 2 + n] for row, n in zip(heard, counts, strict=True)]).long()
    all_losses = torch.cat([row[2 + room : 2 + room + n] for row, n in zip(heard, counts, strict=True)])
    return everyone, all_losses.to(losses.dtype), bool(heard[:, 1].any())


def _gather(tensor: Tensor, world_size: int) -> list[Tensor]:
    """The tensors of all ranks, which have one shape."""
    parts = [torch.empty_like(tensor) for _ in range(world_size)]
    dist.all_gather(parts, tensor)
    return parts


def share_buffers(module: nn.Module) -> None:
    """Give all ranks the buffers of rank 0: what a rank adds to a running average is its own."""
    for buffer in module.buffers():
        dist.broadcast(buffer, 0)


def share_classes(labels: Tensor, world_size: int) -> Tensor:
    """The rank (N,) that embeds and clusters each example: whole classes, about as many examples for each rank."""
    classes, class_of, sizes = distinct(labels)
    owner, loads = torch.zeros(len(classes), dtype=torch.long), [0] * world_size
    for c in sizes.argsort(descending=True, stable=True).tolist():
        owner[c] = loads.index(min(loads))
        loads[owner[c]] += int(sizes[c])
    return owner[class_of]


def own_places(labels: Tensor, rank: int, world_size: int) -> Tensor:
    """Places (n,) of the examples of a rank among all N."""
    return (share_classes(labels, world_size) == rank).nonzero().squeeze(1)


def in_order(rows: Tensor, places: Tensor, world_size: int) -> Tensor:
    """The rows of all ranks (N, ...), each in its place."""
    everyone, everything = gather_rows(places, world_size), gather_rows(rows, world_size)
    ordered = torch.empty_like(everything)
    ordered[everyone] = everything
    return ordered


def shared_pass(work: Callable[[Tensor], Tensor], rows: Tensor, ranks: Ranks) -> Tensor:
    """``work(rows)`` (n, ...), where each rank works on every ``world_size``-th of the rows (n,)."""
    if ranks.world_size == 1:
        return work(rows)
    own = torch.arange(ranks.rank, len(rows), ranks.world_size)
    return in_order(work(rows[own]), own, ranks.world_size)


def shared_index(
    representations: Tensor,
    places: Tensor,
    labels: Tensor,
    clusters_per_class: ClustersPerClass,
    seed: int,
    world_size: int,
) -> ClusterIndex:
    """The index of the whole training set; each rank clusters the classes that it holds.

    Args:
        representations: (n, d) of this rank's examples; they stay on this rank.
        places: (n,) of these examples among all N training examples, from `own_places`.
        labels: (N,) classes of all training examples.
        clusters_per_class, seed: of K-means.
        world_size: how many ranks take part.
    """
    own = kmeans_per_class(representations, labels[places], clusters_per_class, seed=seed)
    told = gather_rows(torch.tensor([[len(places), len(own.centres), own.iterations]]), world_size)
    examples, clusters, iterations = told.unbind(1)
    results = zip(
        gather_rows(own.centres, world_size).split(clusters.tolist()),
        gather_rows(own.centre_labels, world_size).split(clusters.tolist()),
        gather_rows(own.assignments, world_size).split(examples.tolist()),
        gather_rows(own.inertia[None], world_size),
        iterations.tolist(),
        strict=True,
    )
    everyone = share_classes(labels, world_size).argsort(stable=True)  # the places of all ranks, as gathered
    shards = zip(everyone.split(examples.tolist()), map(KMeansResult._make, results), strict=True)
    return ClusterIndex.joined(shards, len(labels))
