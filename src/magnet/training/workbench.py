"""Everything that a run needs, made from its configuration: data, network, method, views."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from magnet.backbones import VectorBackbone, build, freeze, freeze_batchnorm, load_weights
from magnet.data import SOURCES, Dataset, open_data
from magnet.errors import UserError
from magnet.methods import Options, Setting, method_class
from magnet.training.config import TrainConfig
from magnet.training.learner import Learner
from magnet.training.views import Views

MANY = 100_000  # rows that the scale of vectors is estimated from


@dataclass
class Workbench:
    """The parts of a run."""

    config: TrainConfig
    data: Dataset
    learner: Learner
    views: Views
    train: Tensor  # (N,) the training examples, ids into data
    labels: Tensor  # (N,) their classes

    @property
    def workers(self) -> int:
        """Processes that decode images."""
        if self.config.workers >= 0:
            return self.config.workers
        return 2 if self.data.kind == "images" else 0


def open_for(config: TrainConfig) -> Dataset:
    """The data of a run, decoded for its image size where that is known already."""
    data = open_data(
        config.data,
        seed=config.seed,
        validation=config.validation,
        on_bad_image=config.bad_images,
        hash_images=config.hash_images,
    )
    return data.with_image_size(config.image_size) if data.kind == "images" and config.image_size else data


def absolute(spec: str) -> str:
    """What --data names, as it can be found from any folder."""
    name, colon, folder = spec.partition(":")
    if colon and name in SOURCES:
        return f"{name}:{Path(folder).expanduser().resolve()}"
    path = Path(spec).expanduser()
    return str(path.resolve()) if path.exists() else spec


def complete(config: TrainConfig, data: Dataset) -> TrainConfig:
    """The configuration with every "auto" decided by the data, as it is written into the run."""
    config = replace(config, data=absolute(config.data))
    if config.backbone == "auto":
        config = replace(config, backbone="mlp" if data.kind == "vectors" else "convnet")
    if data.kind == "images" and not config.image_size:
        size = min(data.image_size, 96)
        if config.backbone != "convnet":
            probe = build(config.backbone.removesuffix("@pretrained"), example_shape=(3, 224, 224))
            size = probe.input_size or 224
        config = replace(config, image_size=size)
    return config


def make_workbench(
    config: TrainConfig, *, data: Dataset | None = None, rank: int = 0, world_size: int = 1, fresh: bool = True
) -> Workbench:
    """The parts of a run; a ``fresh`` one starts from the configured weights, another will be loaded into."""
    method = method_class(config.method)
    data = open_for(config) if data is None else data
    train = data.indices("train")
    labels = data.labels[train]
    if len(labels.unique()) < 2:
        raise UserError(
            f"{config.data}: the training part holds {len(train)} examples of {len(labels.unique())} class(es); "
            "at least two classes are needed"
        )
    if len(labels.unique()) < world_size:
        raise UserError(f"{world_size} processes share the classes among them: there are {len(labels.unique())} only")
    backbone = config.backbone if fresh else config.backbone.removesuffix("@pretrained")
    shape = data.shape if data.kind == "vectors" else (3, config.image_size, config.image_size)
    network = build(
        backbone,
        example_shape=shape,
        dim=config.dim or None,
        seed=config.seed,
        dropout=None if config.dropout < 0 else config.dropout,
        hidden=config.hidden or None,
    )
    if fresh and isinstance(network, VectorBackbone):
        network.fit_inputs(data.batch(train[:: max(1, len(train) // MANY)]))
    if fresh and config.weights:
        load_weights(network, config.weights)
    if config.freeze:
        freeze(network)
    if config.freeze_batchnorm:
        freeze_batchnorm(network)
    setting = Setting(labels, len(data.classes), network.dim, config.seed, rank, world_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        learner = Learner(network, method(setting, Options.of(config)))
    views = Views(
        network,
        config.image_size or 1,
        rescale=config.rescale,
        flip=config.flip,
        draws=config.test_draws,
    )
    return Workbench(config, data, learner, views, train, labels)
