"""Everything that a run needs, made from its configuration: data, network, method, views.

With the whitened start, settings are chosen from the training data and the last layer is fitted in closed form.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from magnet.backbones import (
    PRETRAINED,
    Backbone,
    VectorBackbone,
    WhitenedEmbedding,
    build,
    find_weights,
    freeze,
    freeze_batchnorm,
    freeze_part,
    load_weights,
)
from magnet.backbones.weights import backbone_of
from magnet.clustering import ClustersPerClass, clusters_by_size
from magnet.data import SOURCES, Dataset, open_data
from magnet.data.sources import SMALLEST
from magnet.errors import UserError
from magnet.methods import Batch, Discriminant, Method, MethodLoss, Options, Setting, method_class
from magnet.recipe import Chosen, Recipe
from magnet.start import LANDMARKS, Start, StartSettings
from magnet.training.config import COPIES, TrainConfig, check_memory
from magnet.training.distribution import ALONE, Ranks, shared_pass
from magnet.training.inputs import (
    Pass,
    Report,
    Views,
    decoding_workers,
    device_of,
    features_for,
    features_of_views,
    trunk_features,
)
from magnet.votes import LEAST_MEMBERS, Examples, cluster, stratified_part

PLAIN = 1.15  # the enlargement of the plain view
LARGEST_TRUNK = 2048  # features that an image network gives, about
MANY = 100_000  # rows that the scale of vectors is estimated from
# Of more data than this, a stratified sample of the training examples is used:
MOST_IMAGES = 100_000  # images to fit the start to, and views of images to fit it again
VIEWS = 4  # of each image, to fit the whitening again
LARGEST = 2**28  # numbers (examples times features) to fit the start to


class Learner(nn.Module):
    """The network and the method: the module that is trained, saved and distributed."""

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


@dataclass
class Workbench:
    """The parts of a run."""

    config: TrainConfig
    data: Dataset
    learner: Learner
    views: Views
    train: Tensor  # (N,) the training examples, ids into data
    labels: Tensor  # (N,) their classes
    ranks: Ranks = ALONE
    seconds: dict[str, float] = field(default_factory=dict)  # that features and start took

    @property
    def workers(self) -> int:
        """Processes that decode images."""
        return decoding_workers(self.config, self.data.kind)

    def examples(self, device: torch.device, report: Report | None = None) -> Pass:
        """A pass over the data."""
        return Pass(self.data, self.views, device, self.workers, report)

    @cached_property
    def clusters_per_class(self) -> ClustersPerClass:
        """K of the index, the same for all classes or by their sizes."""
        config = self.config
        if config.clusters_by == "class":
            return config.clusters_per_class
        return clusters_by_size(self.labels, config.clusters_per_class, LEAST_MEMBERS)


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
        max_pixels=config.max_pixels,
    )
    return (
        data.with_image_size(config.image_size, config.rescale) if data.kind == "images" and config.image_size else data
    )


def absolute(spec: str) -> str:
    """The value of --data with absolute paths, so that it is valid from any working directory."""
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
    if config.backbone == "auto" and config.weights and data.kind == "images":
        config = replace(config, backbone=backbone_of(config.weights))
    if config.backbone == "auto":
        vectors = "linear" if config.start == "whitened" else "mlp"
        config = replace(config, backbone=vectors if data.kind == "vectors" else "convnet")
    if data.kind == "images" and not config.image_size:
        config = replace(config, image_size=_image_size(config.backbone, data))
    return config


class _Wishes(NamedTuple):
    """The size and the normalisation of images that a network expects."""

    size: int  # side
    fixed: bool  # the network takes no other size
    mean: tuple[float, ...]
    std: tuple[float, ...]


@lru_cache
def _wishes(backbone: str) -> _Wishes:
    probe = build(backbone.removesuffix(PRETRAINED), example_shape=(3, 224, 224))
    return _Wishes(probe.input_size or 224, getattr(probe, "fixed_size", False), probe.mean, probe.std)


def _image_size(backbone: str, data: Dataset) -> int:
    """The side of the views: the network's own, or less where the images have fewer pixels, in steps of 32."""
    if backbone == "convnet":
        return max(8, min(data.short_side or data.image_size, 96))
    own, fixed, *_ = _wishes(backbone)
    if fixed or not data.short_side:
        return own
    shown = data.short_side / PLAIN  # pixels of the short side that the plain view shows
    return max(min(own, SMALLEST), min(own, round(shown / 32) * 32))


def describe_images(config: TrainConfig, data: Dataset) -> str:
    """A line for people on the inputs of an image network: size, normalisation, and the source of its weights."""
    if config.backbone == "convnet":
        return f"images of {config.image_size} pixels; weights from scratch"
    own, _, *scale = _wishes(config.backbone)
    found = f", the files have {data.short_side}" if data.short_side else ""
    mean, deviation = ("/".join(f"{x:g}" for x in dict.fromkeys(channels)) for channels in scale)
    file = config.weights or (
        find_weights(config.backbone.removesuffix(PRETRAINED)) if config.backbone.endswith(PRETRAINED) else None
    )
    weights = (file.name if file else "") or config.warm_start
    weights = weights or ("timm" if config.backbone.endswith(PRETRAINED) else "scratch")
    return (
        f"images of {config.image_size} pixels (the network's own size is {own}{found}), mean {mean}, deviation "
        f"{deviation}; weights from {weights}"
    )


def make_learner(
    config: TrainConfig,
    kind: str,
    shape: tuple[int, ...],
    labels: Tensor,
    classes: int,
    *,
    examples: Tensor | None = None,
    ranks: Ranks = ALONE,
    fresh: bool = True,
) -> Learner:
    """The network and the method of a configuration.

    Args:
        config: all settings, with every "auto" decided.
        kind: "vectors" or "images".
        shape: of one example; images are seen at the size that the configuration names.
        labels: (N,) the classes of the training examples.
        classes: how many there are.
        examples: (n, d) vectors by which a new network standardises its inputs.
        ranks: this process and the others.
        fresh: True: load the configured weights; False: a checkpoint will be loaded instead.
    """
    width = shape[0] if kind == "vectors" else LARGEST_TRUNK
    weights = width * max(config.hidden, config.dim) + config.hidden * config.dim
    check_memory(4 * COPIES * weights, "the network", "--dim or --hidden")
    whitened = config.start == "whitened"
    network = build(
        config.backbone if fresh else config.backbone.removesuffix(PRETRAINED),
        example_shape=shape if kind == "vectors" else (3, config.image_size, config.image_size),
        dim=config.dim or None,
        seed=config.seed,
        dropout=None if config.dropout < 0 else config.dropout,
        hidden=config.hidden or None,
        power=config.power if whitened else None,
        landmarks=LANDMARKS if whitened and config.kernel_width > 0 else 0,
        unit_length=whitened and config.unit_length == "yes",
    )
    if examples is not None and isinstance(network, VectorBackbone):
        network.fit_inputs(examples)
    if fresh and config.weights:
        load_weights(network, config.weights)
    if config.freeze:
        freeze(network)
    if config.freeze_part and kind == "images":
        freeze_part(network, config.freeze_part)
    if config.freeze_batchnorm:
        freeze_batchnorm(network)
    setting = Setting(labels, classes, network.dim, config.seed, *ranks)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return Learner(network, method_class(config.method)(setting, Options.of(config)))


def make_workbench(
    config: TrainConfig,
    *,
    data: Dataset | None = None,
    ranks: Ranks = ALONE,
    fresh: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> Workbench:
    """The parts of a run. Its configuration then has all settings that were chosen from the data.

    ``fresh``: load the configured weights; otherwise a checkpoint will be loaded. ``say`` is called with lines of
    progress.
    """
    data = open_for(config) if data is None else data
    train = data.indices("train")
    labels = data.labels[train]
    if len(labels.unique()) < 2:
        raise UserError(
            f"{config.data}: the training part holds {len(train)} examples of {len(labels.unique())} class(es); "
            "at least two classes are needed"
        )
    if len(labels.unique()) < ranks.world_size:
        raise UserError(
            f"{ranks.world_size} processes share the classes among them: there are {len(labels.unique())} only"
        )
    if config.renew:
        _check_renewal(config, data.kind)
    if data.kind == "vectors" and fresh:
        some = data.batch(train[:: max(1, len(train) // MANY)])
        if bool((some == some[0]).all()):
            raise UserError(f"{config.data}: all {len(train)} training examples are the same: nothing can be learnt")
    prepared = prepare(config, data, say, ranks) if fresh else Prepared(config)
    config = prepared.config
    scaled = fresh and data.kind == "vectors" and prepared.start is None
    examples = data.batch(train[:: max(1, len(train) // MANY)]) if scaled else None
    learner = make_learner(
        config, data.kind, data.shape, labels, len(data.classes), examples=examples, ranks=ranks, fresh=fresh
    )
    if prepared.start is not None and prepared.discriminant is not None:
        embedding = learner.network.embedding
        assert isinstance(embedding, WhitenedEmbedding)
        embedding.begin(prepared.start)
        learner.method.begin(prepared.discriminant)
    _ = learner.method.sampler  # made now, so that its errors come before anything is written
    views = Views.of(config, learner.network)
    return Workbench(config, data, learner, views, train, labels, ranks, dict(prepared.seconds))


def on_features(bench: Workbench, say: Callable[[str], None]) -> Workbench:
    """The parts of a run with a frozen trunk: each image is replaced by its features, which are computed once.

    The network takes features as well as images: trained on the features, it is used on images. The ranks share the
    images among them.
    """
    config, data, begun = bench.config, bench.data, time.perf_counter()
    rows = torch.cat([bench.train, data.indices("validation")])
    device = device_of(config.device)
    images = bench.examples(device, lambda done, of: say(f"features of {done:,} of {of:,} images"))
    network = bench.learner.network.to(device)
    work = partial(trunk_features, network=network, name=config.backbone, images=images)
    features = shared_pass(work, rows, bench.ranks)
    seen = data.as_vectors(rows, features)
    seconds = bench.seconds | {"features": bench.seconds.get("features", 0.0) + time.perf_counter() - begun}
    train, views = torch.arange(len(bench.train)), bench.views.of_features()
    return replace(bench, data=seen, views=views, train=train, seconds=seconds)


def renew(bench: Workbench, device: torch.device, report: Report) -> None:
    """Fit the whitening of the network again, with its settings, to the features that its trunk has now.

    What the start whitened was the variation inside classes as the pretrained trunk saw it. A trunk that was trained
    sees less of it, and in other directions. Several views of each image are features of an example each: so the
    variation that views make is whitened too, and there are more examples to estimate it from.
    """
    config, network = bench.config, bench.learner.network
    embedding = network.embedding
    assert isinstance(embedding, WhitenedEmbedding)
    some = stratified_part(bench.labels, MOST_IMAGES, config.seed)
    count = max(1, min(VIEWS, MOST_IMAGES // len(some)))

    images = bench.examples(device, report)
    work = partial(features_of_views, network=network, images=images, count=count, seed=config.seed)
    x = shared_pass(work, bench.train[some], bench.ranks)
    examples = Examples(x.flatten(0, 1), bench.labels[some].repeat_interleave(count))
    embedding.begin(start_settings(config).fit(examples, network.dim, config.seed))


def _check_renewal(config: TrainConfig, kind: str) -> None:
    """Refuse to renew what is not there, or what has not moved."""
    if config.start != "whitened":
        raise UserError("--renew fits the whitened start again: give --start whitened")
    if kind != "images" or config.freeze:
        raise UserError("--renew follows a trunk that was trained: it is for images, without --freeze")
    if method_class(config.method).classifier == "head":
        raise UserError(f"--renew: {config.method} has a head of its own, trained for the representation as it is")


class Prepared(NamedTuple):
    """The configuration and the start of a run."""

    config: TrainConfig  # with all settings that were chosen
    start: Start | None = None  # None: random
    discriminant: Discriminant | None = None
    seconds: Mapping[str, float] = MappingProxyType({})  # that features and start took


def prepare(
    config: TrainConfig, data: Dataset, say: Callable[[str], None] = lambda line: None, ranks: Ranks = ALONE
) -> Prepared:
    """Choose the settings that the configuration leaves open, and fit the whitened start. A random start needs neither.

    For images, the start is fitted to features of the trunk (`magnet.training.inputs`). Magnet on vectors or on a
    frozen trunk follows the whole recipe (`magnet.recipe`), which includes a trial training. Other methods, and
    networks whose trunk is trained too, get the same start; their length and learning rate stay as configured.

    Args:
        config: from `complete`.
        data: of which the training part is used.
        say: called with lines of progress.
        ranks: this process and the others, which share the images among them.
    """
    if config.start != "whitened" or config.warm_start:  # a warm start brings its own
        return Prepared(config)
    rows = data.indices("train")
    labels = data.labels[rows]
    begun = time.perf_counter()
    if data.kind == "vectors":
        some = stratified_part(labels, LARGEST // max(1, math.prod(data.shape)), config.seed)
        x = data.batch(rows[some]).flatten(1)
    else:
        some = stratified_part(labels, MOST_IMAGES, config.seed)

        def features(chosen: Tensor) -> Tensor:
            return features_for(config, data, chosen, lambda done, of: say(f"features of {done:,} of {of:,} images"))

        x = shared_pass(features, rows[some], ranks)
    passed = time.perf_counter()
    say("choosing the start")
    data_all = Examples(x, labels[some])
    recipe = recipe_of(config).bounded(x) if data.kind == "vectors" else replace(recipe_of(config), kernel_width=0.0)
    if data.kind == "images" and not config.freeze and recipe.unit_length is None:
        recipe = replace(recipe, unit_length=False)  # it was measured only for features that stay as they are
    few = recipe.part_to_choose_by(data_all, config.seed)
    few = Examples(few.x.double(), few.labels)
    class_weight = torch.ones(len(data.classes), dtype=torch.float64)
    if config.method == "magnet" and config.epochs < 0:
        chosen = recipe.choose(few, class_weight, config.seed, say)
    else:
        chosen = _given(recipe) or _choose_start(recipe, few, class_weight, config.seed, say)
    start = chosen.settings.fit(data_all, recipe.dim_for(data_all.x, chosen.settings.kernel_width), config.seed)
    means = cluster(start(few.x), few.labels, 1, config.seed)
    discriminant = Discriminant.of(means, 2 * chosen.training_scaling)
    filled = _filled(replace(config, dim=len(start.components)), recipe, chosen, len(rows), labels)
    seconds = {"features": passed - begun, "start": time.perf_counter() - passed}
    return Prepared(filled, start, discriminant, seconds)


def recipe_of(config: TrainConfig) -> Recipe:
    """The recipe with the settings that the configuration gives."""
    return Recipe(
        dim=config.dim or 512,
        power=config.power or None,
        standardize=None if config.standardize == "auto" else config.standardize == "yes",
        shrinkage=None if config.shrinkage < 0 else config.shrinkage,
        kernel_width=None if config.kernel_width < 0 else config.kernel_width,
        unit_length=None if config.unit_length == "auto" else config.unit_length == "yes",
        n_clusters=config.clusters_per_class or None,
        start_clusters=config.start_clusters or None,
        scaling=config.scaling or None,
        centres=config.centres,
        alpha=config.alpha,
        clusters_per_batch=config.clusters_per_batch or None,
        examples_per_cluster=config.examples_per_cluster or None,
        learning_rate=config.learning_rate,
        neighbours=config.neighbours,
    )


def start_settings(config: TrainConfig) -> StartSettings:
    """The settings of a whitened start, of a configuration in which all of them were chosen."""
    return StartSettings(
        config.power, config.standardize == "yes", config.shrinkage, config.start_clusters,
        max(0.0, config.kernel_width), config.unit_length == "yes",
    )  # fmt: skip


def _given(recipe: Recipe) -> Chosen | None:
    """The settings of the start if the recipe states all of them, else None."""
    settings: list[Any] = [
        recipe.power, recipe.standardize, recipe.shrinkage, recipe.start_clusters, recipe.kernel_width,
        recipe.unit_length,
    ]  # fmt: skip
    if None in settings or recipe.n_clusters is None or recipe.scaling is None:
        return None
    return Chosen(StartSettings(*settings), recipe.n_clusters, recipe.scaling)


def _choose_start(
    recipe: Recipe, data: Examples, class_weight: Tensor, seed: int, say: Callable[[str], None]
) -> Chosen:
    """Choose the settings of the start alone, without a trial training."""
    folds = recipe.hold_out(data, class_weight, seed)
    if folds is None:
        return recipe.choose(data, class_weight, seed, say)
    best = recipe.choose_start(folds, recipe.dim_for(data.x), say)[0]
    scaling = best.votes.scaling / 2 if recipe.scaling is None else recipe.scaling
    return Chosen(best.settings, best.n_clusters, scaling, best.votes.scaling)


def _filled(config: TrainConfig, recipe: Recipe, chosen: Chosen, examples: int, labels: Tensor) -> TrainConfig:
    """The configuration with the chosen settings filled in."""
    wanted = clusters_by_size(labels, chosen.n_clusters, LEAST_MEMBERS)
    clusters, classes = sum(wanted.values()), len(wanted)
    together, drawn = recipe.batches_for(clusters, classes)
    start = chosen.settings
    config = replace(
        config,
        power=start.power,
        kernel_width=start.kernel_width,
        unit_length="yes" if start.unit_length else "no",
        standardize="yes" if start.standardize else "no",
        shrinkage=start.shrinkage,
        clusters_per_class=chosen.n_clusters,
        start_clusters=start.start_clusters,
        scaling=chosen.training_scaling,
        clusters_per_batch=max(2, together),
        examples_per_cluster=drawn,
    )
    if config.epochs >= 0:
        return config
    steps = recipe.steps_for(examples, clusters, classes)
    epoch = math.ceil(examples / (together * drawn))
    config = replace(
        config,
        epochs=math.ceil(chosen.iterations * steps / epoch),
        steps=config.steps or chosen.iterations * steps,
        refresh_every=config.refresh_every or steps,
    )
    if config.votes == "chosen" and chosen.trial is not None:
        config = replace(
            config,
            votes_scaling=config.votes_scaling or chosen.scaling,
            votes_clusters=config.votes_clusters or chosen.n_clusters,
            centres="means" if chosen.pull is None else "refined",
            pull=chosen.pull or 0.0,
        )
    return config
