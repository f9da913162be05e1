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

Report = Callable[[int, int], None]  # how many examples are done, of how many

PASS_BATCH = {"vectors": 4096, "images": 64}  # examples that are embedded at a time


class Views:
    """The inputs of a network made from raw examples, on their device. Vectors pass as they are.

    Args:
        network: says how images are to be normalised.
        size: side of the views.
        rescale, flip: of the augmentation.
        draws: augmented views of a test example; 1: the plain view alone.
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
        """The views where features of images take the place of the images: they pass as they are."""
        other = copy.copy(self)
        other.augment = None
        return other

    def train(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        """One augmented view of each example."""
        return self._normalised(self.augment(raw, generator)) if self.augment else raw

    def plain(self, raw: Tensor) -> Tensor:
        """The plain view, without chance: the centre, in the middle of the range of scales of the augmentation."""
        return self._normalised(self.augment.centre(raw)) if self.augment else raw

    def test(self, raw: Tensor, seed: int) -> Iterator[Tensor]:
        """The test views, whose representations are averaged, one after the other.

        Their windows are drawn by the seed and are the same for every example, so that what is said of an example does
        not depend on those beside it.
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
    """Some rows of a dataset, each with its place among them."""

    def __init__(self, data: Dataset, rows: Tensor) -> None:
        self.data, self.rows = data, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> tuple[int, Tensor]:
        return place, self.data[int(self.rows[place])]


def batches(data: Dataset, rows: Tensor, drawn: Iterable[list[int]], workers: int) -> Iterator[tuple[Tensor, Tensor]]:
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
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            reason = " ".join(str(error).split())[:120]
            raise ChildProcessError(f"a process that decodes images has ended ({reason}): lower --workers") from error
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


def passes(count: int, kind: str) -> Iterator[list[int]]:
    """The places 0..count-1 in the batches of a pass over all of them."""
    size = PASS_BATCH[kind]
    return (list(range(start, min(start + size, count))) for start in range(0, count, size))


def decoding_workers(config: TrainConfig, kind: str) -> int:
    """How many processes decode examples of this kind, unless the configuration says."""
    return config.workers if config.workers >= 0 else 2 if kind == "images" else 0
