"""Features of images: the outputs of an image network's trunk for the plain views, computed once.

They are cached in the user's cache folder by the content of each image, in a folder for each network (its weights, the
size and crop of its views). So other runs and `magnet features` find the features of the same images again, whatever
the files are called, and a pass that was interrupted continues.
"""

import hashlib
import json
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from magnet.backbones import Backbone, build, load_weights
from magnet.backbones.pretrained import PRETRAINED
from magnet.data import Dataset
from magnet.errors import UserError
from magnet.tensors import read_tensors, write_tensors
from magnet.training.config import REVISION, TrainConfig
from magnet.training.inputs import Report, Views, batches, decoding_workers, passes

SHARD = 512  # images whose features are written together; a pass that is killed loses no more than these
MOST = 4 * 2**30  # bytes of all features in the cache; beyond, those of the least recently used networks are removed


def cache_folder() -> Path:
    """The cache of features: ``$MAGNET_CACHE``, or the user's cache folder."""
    import pooch  # here, since only a pass over images needs it

    return Path(os.environ.get("MAGNET_CACHE") or pooch.os_cache("magnet")) / "features"


def trunk_features(
    network: Backbone,
    name: str,
    data: Dataset,
    rows: Tensor,
    views: Views,
    *,
    device: torch.device,
    workers: int = 0,
    report: Report | None = None,
) -> Tensor:
    """Features (n, f), float32 on the CPU, of the plain views of the examples ``rows``, with the current weights.

    Args:
        network: an image network, whose trunk is on ``device``.
        name: of the network, as `magnet.backbones.build` takes it.
        data: images.
        rows: (n,) ids into the data.
        views: of the network.
        device: where to compute.
        workers: processes that decode images.
        report: called with the number of images done and the total; cached ones count as done.
    """
    digests = data.example_digests(rows)
    cache = _Cache(cache_folder() / _key(network, name, views, device))
    known = cache.read(digests)
    keys = [digest.tobytes() for digest in digests]
    missing = list({key: place for place, key in enumerate(keys) if key not in known}.values())
    fresh: dict[bytes, Tensor] = {}  # not written yet
    done, total = len(known), len(known) + len(missing)
    was_training = network.training
    network.eval()
    try:
        chosen = torch.tensor(missing, dtype=torch.long)
        for places, raw in batches(data, rows[chosen], passes(len(missing), data.kind), workers):
            with torch.no_grad():
                found = network.trunk_features(views.plain(raw.to(device))).float().cpu()
            fresh |= {keys[missing[place]]: row for place, row in zip(places.tolist(), found, strict=True)}
            done += len(found)
            if report:
                report(done, total)
            if len(fresh) >= SHARD:
                cache.add(fresh)
                known.update(fresh)
                fresh = {}
    finally:  # also after an interrupted pass
        network.train(was_training)
        cache.add(fresh)
    known |= fresh
    return torch.stack([known[key] for key in keys])


def features_for(config: TrainConfig, data: Dataset, rows: Tensor, report: Report | None = None) -> Tensor:
    """`trunk_features` of the network that a configuration starts from: vectors (n, f) in place of images."""
    side = config.image_size
    network = build(config.backbone, example_shape=(3, side, side), seed=config.seed)
    if config.weights:
        load_weights(network, config.weights)
    device = device_of(config.device)
    return trunk_features(
        network.to(device), config.backbone, data, rows, Views.of(config, network), device=device,
        workers=decoding_workers(config, data.kind), report=report,
    )  # fmt: skip


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
    seen = [views.augment.size, views.augment.short_side, views.mean, views.std]
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
