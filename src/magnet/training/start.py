"""The whitened start of a run: settings chosen from its training data, and the last layer fitted in closed form."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from magnet.data import Dataset
from magnet.methods import Discriminant
from magnet.recipe import Chosen, Recipe
from magnet.start import Start
from magnet.training.config import TrainConfig
from magnet.training.features import features_for
from magnet.votes import Examples, cluster, stratified_part

MOST = 20_000  # examples by which settings are chosen: of more, a stratified part
MOST_IMAGES = 100_000  # whose features the start is fitted to
LARGEST = 2**28  # numbers in the features that the start is fitted to: of more, a stratified part of the examples


class Prepared(NamedTuple):
    """What a run begins with."""

    config: TrainConfig  # with all that was chosen
    start: Start | None = None  # None: random
    discriminant: Discriminant | None = None
    seconds: Mapping[str, float] = MappingProxyType({})  # what it took


def prepare(config: TrainConfig, data: Dataset, say: Callable[[str], None] = lambda line: None) -> Prepared:
    """Choose what the configuration leaves to the data, and fit the start; with a random start nothing is to be done.

    Of images, the vectors are features of the trunk (`magnet.training.features`). Magnet on vectors, or on a frozen
    trunk, follows the whole recipe (`magnet.recipe`), which trains a trial. Other methods, and a network whose trunk
    learns too, have the same start, and length and rate as they are given.

    Args:
        config: with every "auto" decided that the kind of data decides.
        data: whose training part is looked at.
        say: is told what is being done.
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
        x = features_for(config, data, rows[some], lambda done, of: say(f"features of {done:,} of {of:,} images"))
    passed = time.perf_counter()
    say("choosing the start")
    data_all = Examples(x, labels[some])
    few = data_all.take(stratified_part(data_all.labels, MOST, config.seed))
    few = Examples(few.x.double(), few.labels)
    recipe, class_weight = recipe_of(config), torch.ones(len(data.classes), dtype=torch.float64)
    dim = recipe.dim_for(data_all.x)
    if config.method == "magnet" and config.epochs < 0:
        chosen = recipe.choose(few, class_weight, config.seed, say)
    else:
        chosen = _given(recipe) or _choose_start(recipe, few, class_weight, config.seed, say)
    start = chosen.start(data_all, dim, config.seed)
    means = cluster(start(few.x), few.labels, 1, config.seed)
    discriminant = Discriminant.of(means, 2 * chosen.training_scaling)
    filled = _filled(replace(config, dim=dim), recipe, chosen, len(rows), labels)
    seconds = {"features": passed - begun, "start": time.perf_counter() - passed}
    return Prepared(filled, start, discriminant, seconds)


def recipe_of(config: TrainConfig) -> Recipe:
    """The recipe with the settings that the configuration gives."""
    return Recipe(
        dim=config.dim or 512,
        power=config.power or None,
        standardize=None if config.standardize == "auto" else config.standardize == "yes",
        shrinkage=None if config.shrinkage < 0 else config.shrinkage,
        n_clusters=config.clusters_per_class or None,
        scaling=config.scaling or None,
        centres=config.centres,
        alpha=config.alpha,
        clusters_per_batch=config.clusters_per_batch,
        examples_per_cluster=config.examples_per_cluster or None,
        learning_rate=config.learning_rate,
        neighbours=config.neighbours,
    )


def _given(recipe: Recipe) -> Chosen | None:
    """The settings of a recipe that leaves nothing to choose for the start."""
    power, standardize, shrinkage = recipe.power, recipe.standardize, recipe.shrinkage
    if power is None or standardize is None or shrinkage is None or recipe.n_clusters is None or recipe.scaling is None:
        return None
    return Chosen(power, standardize, shrinkage, recipe.n_clusters, recipe.scaling, 0.0, None, 0, None)


def _choose_start(
    recipe: Recipe, data: Examples, class_weight: Tensor, seed: int, say: Callable[[str], None]
) -> Chosen:
    """The start alone, without a trial of training."""
    folds = recipe.hold_out(data, class_weight, seed)
    if folds is None:
        return recipe.choose(data, class_weight, seed, say)
    best = recipe.choose_start(folds, recipe.dim_for(data.x), say)[0]
    votes = best.votes.scaling
    scaling = votes / 2 if recipe.scaling is None else recipe.scaling
    return Chosen(best.power, best.standardize, best.shrinkage, best.n_clusters, scaling, votes, None, 0, None)


def _filled(config: TrainConfig, recipe: Recipe, chosen: Chosen, examples: int, labels: Tensor) -> TrainConfig:
    """The configuration with what was chosen."""
    sizes = torch.bincount(labels)
    clusters = int(sizes.clamp_max(chosen.n_clusters).sum())
    together, drawn = recipe.batches_for(clusters)
    config = replace(
        config,
        power=chosen.power,
        standardize="yes" if chosen.standardize else "no",
        shrinkage=chosen.shrinkage,
        clusters_per_class=chosen.n_clusters,
        scaling=chosen.training_scaling,
        clusters_per_batch=max(2, together),
        examples_per_cluster=drawn,
    )
    if config.epochs >= 0:
        return config
    steps = recipe.steps_for(examples, clusters)
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
