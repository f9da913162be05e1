"""What a network is given: raw examples in batches, and the views of them that it sees.

Vectors are gathered at once; images are decoded by worker processes.
"""

import copy
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from magnet.backbones import Backbone
from magnet.data import Augmentation, Dataset, normalise
from magnet.errors import UserError
from magnet.training.config import TrainConfig

Report = Callable[[int, int], None]  # called with the number of examples done and the total

PASS_BATCH = {"vectors": 4096, "images": 64}  # examples that are embedded at a time


class Views:
    """Makes the inputs of a network from raw examples, on their device. Vectors are passed on unchanged.

    Args:
        network: has the mean and standard deviation that images are normalised by.
        size: the side of the views, in pixels.
        rescale, flip: the augmentation (see `magnet.data.Augmentation`).
        draws: the number of augmented views of a test example; 1: the plain view alone.
    """

    def __init__(self, network: Backbone, size: int, *, rescale: float, flip: bool, draws: int) -> None:
        self.images = network.kind == "images"
        self.mean, self.std = network.mean, network.std
        self.draws = draws if self.images else 1
        self.augment = Augmentation(size, rescale, flip) if self.images else None

    @classmethod
    def of(cls, config: TrainConfig, network: Backbone) -> Self:
        """The views that a configuration asks for."""
        size, draws = config.image_size or 1, config.test_draws
        return cls(network, size, rescale=config.rescale, flip=config.flip, draws=draws)

    def of_features(self) -> Self:
        """The same for data whose images were replaced by features, which are passed on unchanged."""
        other = copy.copy(self)
        other.augment = None
        return other

    def train(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        """One augmented view of each example."""
        return self._normalised(self.augment(raw, generator)) if self.augment else raw

    def plain(self, raw: Tensor) -> Tensor:
        """The plain view, which is not random: the centre, at the middle of the augmentation's range of scales."""
        return self._normalised(self.augment.centre(raw)) if self.augment else raw

    def test(self, raw: Tensor, seed: int) -> Iterator[Tensor]:
        """Yield the test views, whose representations are to be averaged.

        The crop windows are drawn by the seed and shared by all examples, so that the prediction for an example does
        not depend on the rest of its batch.
        """
        if self.augment is None or self.draws == 1:
            yield self.plain(raw)
            return
        generator = torch.Generator().manual_seed(seed)
        for _ in range(self.draws):
            yield self._normalised(self.augment(raw, generator, shared=True))

    def _normalised(self, images: Tensor) -> Tensor:
        return normalise(images, self.mean, self.std)


class _Rows(TorchDataset[tuple[int, Tensor]]):
    """Some rows of a data set; item i is (i, the example of row i)."""

    def __init__(self, data: Dataset, rows: Tensor) -> None:
        self.data, self.rows = data, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> tuple[int, Tensor]:
        return place, self.data[int(self.rows[place])]


def batches(data: Dataset, rows: Tensor, drawn: Iterable[list[int]], workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (places (B,), raw examples (B, ...)) for each list of places in ``drawn``; place i is ``rows[i]``."""
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
        except (RuntimeError, ConnectionError, EOFError) as error:  # the last two where it was about to hand over
            if isinstance(error, RuntimeError) and "DataLoader worker" not in str(error):
                raise
            reason = " ".join(str(error).split())[:120]
            raise ChildProcessError(f"a process that decodes images has ended ({reason}): lower --workers") from error
        except UserError as error:  # its text contains the traceback of the worker
            raise UserError(str(error).rpartition("UserError: ")[2].strip()) from None


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the block has ended; processes started in it never get them.

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


def passes(count: int, kind: str) -> Iterator[list[int]]:
    """The numbers 0..count-1 in consecutive batches, for a pass over all examples."""
    size = PASS_BATCH[kind]
    return (list(range(start, min(start + size, count))) for start in range(0, count, size))


def decoding_workers(config: TrainConfig, kind: str) -> int:
    """The number of processes that decode examples: as configured, or else by the kind of the data."""
    return config.workers if config.workers >= 0 else 2 if kind == "images" else 0
