"""Everything that a run needs, made from its configuration: data, network, method, views."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from magnet.backbones import Backbone, VectorBackbone, WhitenedEmbedding, build, freeze, freeze_batchnorm, load_weights
from magnet.data import SOURCES, Augmentation, Dataset, normalise, open_data
from magnet.errors import UserError
from magnet.methods import Batch, Discriminant, Method, MethodLoss, Options, Setting, method_class
from magnet.start import Start
from magnet.training.config import TrainConfig
from magnet.training.start import Prepared, prepare


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


class Learner(nn.Module):
    """What is trained, saved and distributed."""

    def __init__(self, network: Backbone, method: Method) -> None:
        super().__init__()
        self.network, self.method = network, method

    def represent(self, inputs: Tensor) -> Tensor:
        """Inputs (B, ...) to representations (B, d), on the unit sphere if the method wants that."""
        representations = self.network(inputs)
        return functional.normalize(representations, dim=1) if self.method.normalised else representations

    def forward(self, inputs: Tensor, labels: Tensor, clusters: Tensor) -> MethodLoss:
        """The loss of a batch."""
        return self.method.loss(self.represent, Batch(inputs, labels, clusters))


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
        return decoding_workers(self.config, self.data.kind)


def open_for(config: TrainConfig) -> Dataset:
    """The data of a run, decoded for its image size where that is known already."""
    data = open_data(
        config.data,
        label=config.label,
        judge=config.judge,
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
    start = "random" if config.start == "auto" else config.start
    label, judge = config.label, config.judge
    if config.data.lower().endswith(".npy"):  # labels are files
        label, judge = (name and absolute(name) for name in (label, judge))
    config = replace(config, data=absolute(config.data), start=start, label=label, judge=judge)
    if config.backbone == "auto":
        vectors = "linear" if config.start == "whitened" else "mlp"
        config = replace(config, backbone=vectors if data.kind == "vectors" else "convnet")
    if data.kind == "images" and not config.image_size:
        size = min(data.image_size, 96)
        if config.backbone != "convnet":
            probe = build(config.backbone.removesuffix("@pretrained"), example_shape=(3, 224, 224))
            size = probe.input_size or 224
        config = replace(config, image_size=size)
    return config


def decoding_workers(config: TrainConfig, kind: str) -> int:
    """How many processes decode examples of this kind, unless the configuration says."""
    return config.workers if config.workers >= 0 else 2 if kind == "images" else 0


def make_learner(
    config: TrainConfig,
    kind: str,
    shape: tuple[int, ...],
    labels: Tensor,
    classes: int,
    *,
    examples: Tensor | None = None,
    rank: int = 0,
    world_size: int = 1,
    fresh: bool = True,
) -> Learner:
    """The network and the method of a configuration.

    Args:
        config: all settings, with every "auto" decided.
        kind: "vectors" or "images".
        shape: of one example; images are seen at the size that the configuration names.
        labels: (N,) the classes of the training examples.
        classes: how many there are.
        examples: (n, d) vectors that a fresh network takes the scale of its inputs from.
        rank: this process among ``world_size`` ones.
        world_size: processes that train side by side.
        fresh: True: start from the configured weights; False: saved weights will be loaded.
    """
    network = build(
        config.backbone if fresh else config.backbone.removesuffix("@pretrained"),
        example_shape=shape if kind == "vectors" else (3, config.image_size, config.image_size),
        dim=config.dim or None,
        seed=config.seed,
        dropout=None if config.dropout < 0 else config.dropout,
        hidden=config.hidden or None,
        power=config.power if config.start == "whitened" else None,
    )
    if examples is not None and isinstance(network, VectorBackbone):
        network.fit_inputs(examples)
    if fresh and config.weights:
        load_weights(network, config.weights)
    if config.freeze:
        freeze(network)
    if config.freeze_batchnorm:
        freeze_batchnorm(network)
    setting = Setting(labels, classes, network.dim, config.seed, rank, world_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return Learner(network, method_class(config.method)(setting, Options.of(config)))


def begin(learner: Learner, start: Start, discriminant: Discriminant) -> None:
    """Give a learner its whitened start."""
    embedding = learner.network.embedding
    assert isinstance(embedding, WhitenedEmbedding)
    embedding.begin(start)
    learner.method.begin(discriminant)


def make_workbench(
    config: TrainConfig,
    *,
    data: Dataset | None = None,
    rank: int = 0,
    world_size: int = 1,
    fresh: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> Workbench:
    """The parts of a run; a ``fresh`` one starts from the configured weights, another will be loaded into.

    The configuration in it has all that was chosen from the data. ``say`` is told what is being chosen.
    """
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
    prepared = prepare(config, data, say) if fresh else Prepared(config)
    config = prepared.config
    scaled = fresh and data.kind == "vectors" and prepared.start is None
    examples = data.batch(train[:: max(1, len(train) // MANY)]) if scaled else None
    learner = make_learner(
        config, data.kind, data.shape, labels, len(data.classes), examples=examples, rank=rank, world_size=world_size,
        fresh=fresh,
    )  # fmt: skip
    if prepared.start is not None and prepared.discriminant is not None:
        begin(learner, prepared.start, prepared.discriminant)
    _ = learner.method.sampler  # made now, so that what it refuses is refused before anything is written
    return Workbench(config, data, learner, Views.of(config, learner.network), train, labels)
