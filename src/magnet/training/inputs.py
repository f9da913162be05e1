"""What a network is given: raw examples in batches, the views of them that it sees, and features of images.

Vectors are gathered at once; images are decoded by worker processes. Features are the outputs of an image network's
trunk for the plain views. They are cached in the user's cache folder by the content of each image, in a folder for each
network (its weights, the size and crop of its views). So other runs and `magnet features` find the features of the same
images again, whatever the files are called, and a pass that was interrupted continues.
"""

import atexit
import copy
import hashlib
import json
import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from magnet.backbones import PRETRAINED, Backbone, build, load_weights
from magnet.data import Augmentation, Dataset, normalise
from magnet.data.images import room
from magnet.errors import UserError
from magnet.files import read_tensors, write_tensors
from magnet.training.config import REVISION, TrainConfig

Report = Callable[[int, int], None]  # called with the number of examples done and the total

PASS_BATCH = {"vectors": 4096, "images": 64}  # examples that are embedded at a time
SHARD = 512  # images whose features are written together; a pass that is killed loses no more than these
MOST = 4 * 2**30  # bytes of all features in the cache; beyond, features of the least recently used networks are removed


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
        yield from self.several(raw, seed, self.draws)

    def several(self, raw: Tensor, seed: int, count: int) -> Iterator[Tensor]:
        """Yield as many views as ``count`` says, of images, in windows that the seed draws for all of them."""
        assert self.augment is not None, "views are of images"
        drawn = self.augment.shared(raw, torch.Generator().manual_seed(seed))
        yield from map(self._normalised, islice(drawn, count))

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
        started = None
        try:
            with _signals_held():
                started = iter(loader)
            _started.add(started)
            yield from started
        except (RuntimeError, ConnectionError, EOFError) as error:  # the last two where it was about to hand over
            if isinstance(error, RuntimeError) and "DataLoader worker" not in str(error):
                raise
            reason = " ".join(str(error).split())[:120]
            raise ChildProcessError(f"a process that decodes images has ended ({reason}): lower --workers") from error
        except UserError as error:  # its text contains the traceback of the worker
            raise UserError(str(error).rpartition("UserError: ")[2].strip()) from None
        finally:
            if started is not None:
                _end(started)


def _end(started: Any) -> None:
    """Let the workers of a loader end, where they have not.

    torch asks them when the iterator is deleted, which a traceback that is kept puts off. At the end of this process,
    workers that were not asked would only be sent a SIGTERM, which they hold back, and be waited for in vain.
    """
    started._shutdown_workers()


_started: WeakSet[Any] = WeakSet()


@atexit.register
def _end_all() -> None:
    for each in list(_started):
        _end(each)


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


@dataclass(frozen=True)
class Pass:
    """How a pass over examples goes: what the network sees of them, and where it computes."""

    data: Dataset
    views: Views
    device: torch.device
    workers: int = 0  # processes that decode images
    report: Report | None = None

    def over(self, rows: Tensor, before: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (places (B,), raw examples (B, ...) on the device) of the examples ``rows``.

        The examples that were done ``before`` count in the report.
        """
        done, total = before, before + len(rows)
        for places, raw in batches(self.data, rows, passes(len(rows), self.data.kind), self.workers):
            yield places, raw.to(self.device)
            done += len(places)
            if self.report:
                self.report(done, total)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Inside, the module is in evaluation mode, and no gradients are recorded."""
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:  # also after an interrupted pass
        module.train(was_training)


def decoding_workers(config: TrainConfig, kind: str) -> int:
    """The number of processes that decode examples: as configured, or else by the kind of the data."""
    return config.workers if config.workers >= 0 else 2 if kind == "images" else 0


def cache_folder() -> Path:
    """The cache of features: ``$MAGNET_CACHE``, or the user's cache folder."""
    import pooch  # here, since only a pass over images needs it

    return Path(os.environ.get("MAGNET_CACHE") or pooch.os_cache("magnet")) / "features"


def trunk_features(rows: Tensor, network: Backbone, name: str, images: Pass) -> Tensor:
    """Features (n, f), float32 on the CPU, of the plain views of the examples ``rows``, with the current weights.

    Args:
        rows: (n,) ids into the data.
        network: an image network, on the device of the pass.
        name: of the network, as `magnet.backbones.build` takes it.
        images: the pass; images whose features are in the cache count as done.
    """
    digests = images.data.example_digests(rows)
    cache = _Cache(cache_folder() / _key(network, name, images.views, images.device))
    known = cache.read(digests)
    keys = [digest.tobytes() for digest in digests]
    missing = list({key: place for place, key in enumerate(keys) if key not in known}.values())
    fresh: dict[bytes, Tensor] = {}  # not written yet
    try:
        with evaluating(network):
            for places, raw in images.over(rows[torch.tensor(missing, dtype=torch.long)], before=len(known)):
                found = network.trunk_features(images.views.plain(raw)).float().cpu()
                fresh |= {keys[missing[place]]: row for place, row in zip(places.tolist(), found, strict=True)}
                if len(fresh) >= SHARD:
                    cache.add(fresh)
                    known.update(fresh)
                    fresh = {}
    finally:  # also after an interrupted pass
        cache.add(fresh)
    known |= fresh
    return torch.stack([known[key] for key in keys])


def features_of_views(rows: Tensor, network: Backbone, images: Pass, *, count: int, seed: int) -> Tensor:
    """Features (n, count, f), float32 on the CPU, of several views of the images ``rows`` (see `Views.several`).

    They are not cached. The other arguments are as for `trunk_features`.
    """
    found: list[Tensor] = []
    with evaluating(network):
        for _, raw in images.over(rows):
            seen = [network.trunk_features(view) for view in images.views.several(raw, seed, count)]
            found.append(torch.stack(seen, dim=1).float().cpu())
    return torch.cat(found)


def features_for(config: TrainConfig, data: Dataset, rows: Tensor, report: Report | None = None) -> Tensor:
    """`trunk_features` of the network that a configuration starts from: vectors (n, f) in place of images."""
    side = config.image_size
    network = build(config.backbone, example_shape=(3, side, side), seed=config.seed)
    if config.weights:
        load_weights(network, config.weights)
    device = device_of(config.device)
    images = Pass(data, Views.of(config, network), device, decoding_workers(config, data.kind), report)
    return trunk_features(rows, network.to(device), config.backbone, images)


def device_of(name: str | torch.device) -> torch.device:
    """The device of that name; "auto" is a GPU if there is one."""
    if isinstance(name, str) and name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(name if isinstance(name, torch.device) else str(name))
    except RuntimeError:
        found = torch.device("meta")
    if found.type == "meta" or not isinstance(name, str | torch.device):
        raise UserError(f'device must be "auto" or one of torch\'s, such as "cpu" or "cuda:0"; found {name!r}')
    return found


def _key(network: Backbone, name: str, views: Views, device: torch.device) -> str:
    """The name of a cache folder: a hash of all that features depend on, apart from the image."""
    weights = hashlib.sha256()
    for module in network.trunk_modules():
        for part, tensor in module.state_dict().items():
            weights.update(part.encode())
            weights.update(tensor.detach().cpu().contiguous().numpy().data)
    assert views.augment is not None, "features are of images"
    augment = views.augment
    seen = [room(augment.size, augment.rescale), augment.size, augment.short_side, views.mean, views.std]
    bare = name.removesuffix(PRETRAINED)
    known = json.dumps([REVISION, bare, weights.hexdigest(), seen, device.type])
    word = "".join(c if c.isalnum() else "-" for c in bare.rpartition("/")[2])
    return f"{word}-{views.augment.size}-{hashlib.sha256(known.encode()).hexdigest()[:16]}"


class _Cache:
    """Rows of features by the digest of their image, in safetensors files of one folder.

    Files are written whole and never changed, so processes that share the folder need no lock. If the folder cannot be
    written, nothing is cached.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, digests: np.ndarray) -> dict[bytes, Tensor]:
        """The features of those images that are cached, by their digests (n, 32)."""
        wanted = {digest.tobytes() for digest in digests}
        found: dict[bytes, Tensor] = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            with suppress(OSError, UserError):  # damaged files are skipped, and their features computed again
                tensors = read_tensors(path, {"digests": "byte n 32", "features": "float n d"}).tensors
                keys = [row.tobytes() for row in tensors["digests"].numpy()]
                found |= {key: row for key, row in zip(keys, tensors["features"], strict=True) if key in wanted}
        with suppress(OSError):
            os.utime(self.folder)  # used now
        return found

    def add(self, features: dict[bytes, Tensor]) -> None:
        """Write the features of more images."""
        if not features:
            return
        digests = torch.from_numpy(np.frombuffer(b"".join(features), np.uint8).reshape(len(features), -1).copy())
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            tensors = {"digests": digests, "features": torch.stack(list(features.values()))}
            write_tensors(self.folder / f"{secrets.token_hex(8)}.safetensors", tensors)
            _make_room(self.folder)


def _make_room(current: Path) -> None:
    """Remove the features of the least recently used networks until all take no more than MOST bytes."""
    folders = sorted(current.parent.iterdir(), key=lambda folder: folder.stat().st_mtime)
    sizes = {folder: sum(file.stat().st_size for file in folder.glob("*")) for folder in folders}
    for folder in folders:
        if sum(sizes.values()) <= MOST:
            return
        if folder != current:
            shutil.rmtree(folder, ignore_errors=True)
            sizes[folder] = 0
