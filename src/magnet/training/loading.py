"""Raw examples in batches: gathered at once for vectors, decoded by workers for images."""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from magnet.data import Dataset as Data
from magnet.errors import UserError

PASS_BATCH = {"vectors": 4096, "images": 64}


class _Rows(Dataset[tuple[int, Tensor]]):
    """Some rows of a dataset, each with its place among them."""

    def __init__(self, data: Data, rows: Tensor) -> None:
        self.data, self.rows = data, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> tuple[int, Tensor]:
        return place, self.data[int(self.rows[place])]


def batches(data: Data, rows: Tensor, drawn: Iterable[list[int]], workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(places (B,), raw examples (B, ...)) of each list of places drawn among the rows."""
    if data.kind == "vectors" or workers == 0:
        for places in drawn:
            chosen = torch.tensor(places)
            yield chosen, data.batch(rows[chosen])
    else:
        _ = data.cache  # made here, so that the workers share it
        # Two batches ahead for each worker: at most the eight after which a sampler's losses take effect.
        loader = DataLoader(_Rows(data, rows), batch_sampler=drawn, num_workers=workers, prefetch_factor=2)
        try:
            with _signals_held():
                started = iter(loader)
            yield from started
        except UserError as error:  # comes with the worker's traceback as its text
            raise UserError(str(error).rpartition("UserError: ")[2].strip()) from None


@contextmanager
def _signals_held() -> Iterator[None]:
    """SIGINT and SIGTERM wait until the block has ended; processes started in it never get them.

    Both often go to a whole process group. The main process then ends its step and its workers; a worker that ended by
    itself would take the main process down with it.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where a process group gets neither
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def in_order(data: Data, rows: Tensor, workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All rows once, in order."""
    size = PASS_BATCH[data.kind]
    drawn = (list(range(start, min(start + size, len(rows)))) for start in range(0, len(rows), size))
    return batches(data, rows, drawn, workers)
