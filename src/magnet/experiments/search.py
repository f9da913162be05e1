"""The random search that chooses each method's settings: as many trials for each, judged on validation data."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from magnet.errors import UserError
from magnet.experiments.outcome import Table, pretty
from magnet.files import read_json
from magnet.training.config import TrainConfig
from magnet.training.search import ADAMW, Range, Space, draw

# Narrower than those of `magnet tune`, for the few trials that an experiment can afford.
_RATE: Space = {"learning_rate": Range(0.001, 0.1, log=True)}
_WHITENED_RATE: Space = {"learning_rate": Range(0.0003, 0.03, log=True)}  # representations are larger there
_CHOSEN_BY_START = ("clusters_per_class", "batch")  # not searched from the whitened start
_SCALING: Space = {"scaling": Range(2.0, 16.0, log=True)}
_CLUSTERS: Space = {"clusters_per_class": (1, 2, 4, 8)}
_BATCH: Space = {"batch": ("12x4", "16x3", "24x2")}
_TRIPLET: Space = {"alpha": Range(0.1, 1.0), "impostor_fraction": Range(0.005, 0.5, log=True)}
SPACES: dict[str, Space] = {  # by method, beside the learning rate, which is searched for all
    "magnet": {"alpha": Range(0.5, 4.0, log=True)} | _SCALING | _CLUSTERS | _BATCH,
    "cluster-nca": _SCALING | _CLUSTERS | _BATCH,
    "nca": _SCALING,
    "ncm": _SCALING,
    "ncmc": _SCALING | _CLUSTERS,
    "contrastive": {"alpha": Range(0.2, 1.8)},
    "triplet": _TRIPLET,
    "semantic-triplet": _TRIPLET,
}
Settings = dict[str, dict[str, list[dict[str, Any]]]]  # by what they were chosen for, then by method, best first
# What the whitened start chooses for a method, and what the rules of a trained representation are.
STARTED = ("start", "power", "shrinkage", "standardize", "start_clusters", "kernel_width", "unit_length",
           "clusters_per_class", "clusters_per_batch", "examples_per_cluster", "scaling", "epochs")  # fmt: skip
VOTES = ("votes_scaling", "votes_clusters", "centres", "pull", "knn_scaling", "knn_neighbours")
CLASSES = "classes"  # settings chosen for the classes as they are
DROPOUTS = (0.2, 0.5)  # tried after the random trials; beside 0, a linear map's own
FINALISTS = 3  # of the random trials, which are tried with dropout too


class SeededTrial:
    """Draws the numbers of one trial, by (seed, trial) alone, as a trial of Optuna would."""

    def __init__(self, seed: int, trial: int) -> None:
        self._rng = np.random.default_rng([seed, trial])

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """A number of a range."""
        share = self._rng.random()
        return float(low * (high / low) ** share if log else low + (high - low) * share)

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        """One of some values."""
        return choices[int(self._rng.integers(len(choices)))]


def searched_space(config: TrainConfig, fixed: frozenset[str] = frozenset()) -> Space:
    """What is searched for a method; settings that were given are left as they are."""
    whitened = config.start == "whitened"
    rate = ADAMW if config.optimiser == "adamw" else _WHITENED_RATE if whitened else _RATE
    space = rate | SPACES.get(config.method, {})
    if whitened:
        space = {name: where for name, where in space.items() if name not in _CHOSEN_BY_START}
    if {"clusters_per_batch", "examples_per_cluster"} & fixed:
        space.pop("batch", None)
    return {name: where for name, where in space.items() if name not in fixed}


def trials(config: TrainConfig, count: int, fixed: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """The settings of each trial; a method with nothing to search has one trial only."""
    space = searched_space(config, fixed)
    if not space:
        return [{}]
    drawn = [draw(SeededTrial(config.seed, trial), space) for trial in range(count)]
    return [{}, *drawn[1:]] if config.start == "whitened" else drawn  # the first is what the start suggests


def with_dropout(best: list[TrainConfig], fixed: frozenset[str] = frozenset()) -> list[TrainConfig]:
    """The best of the random trials again with dropout, for a linear map; other networks have dropout of their own.

    How much a method overfits is its own affair: softmax and Magnet can gain from dropout where triplet loses. Among
    the random trials it would waste two thirds of triplet's.
    """
    some = [config for config in best[:FINALISTS] if config.backbone == "linear" and "dropout" not in fixed]
    return [replace(config, dropout=share) for config in some for share in DROPOUTS]


def chosen(config: TrainConfig, fixed: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The searched settings of a configuration and their values."""
    both = ["clusters_per_batch", "examples_per_cluster"]
    names = [name for word in searched_space(config, fixed) for name in (both if word == "batch" else [word])]
    dropout = {"dropout": max(0.0, config.dropout)} if with_dropout([config], fixed) else {}
    names += [name for name in STARTED if config.start == "whitened" and name not in names]
    names += [name for name in VOTES if config.votes == "chosen" and config.votes_scaling]
    return {name: getattr(config, name) for name in names if name not in fixed} | dropout


def record(ranked: list[tuple[float, TrainConfig]], fixed: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What the results file keeps of a search: the best settings, and the validation errors of all trials."""
    errors = [error if math.isfinite(error) else None for error, _ in ranked]
    return {"settings": chosen(ranked[0][1], fixed), "validation_error": errors[0], "trials": errors}


def settings_table(title: str, found: dict[str, list[dict[str, Any]]], caption: str = "") -> Table:
    """Chosen settings as the paper's appendix prints them: one row each, by method.

    Values of several trials of a method share a row.
    """
    rows = [
        [pretty(method), name.replace("_", " "), ", ".join(_text(settings[name]) for settings in several)]
        for method, several in found.items()
        for name in several[0]
    ]
    return Table(title, ["method", "setting", "value"], rows, caption)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def with_errors(settings: list[dict[str, Any]], errors: list[float | None]) -> list[dict[str, Any]]:
    """Settings with the validation errors that they had, where they were searched, for `settings_table`."""
    return [
        one if error is None else one | {"validation error, %": round(100 * error, 1)}
        for one, error in zip(settings, errors, strict=False)
    ]


def read_settings(path: Path) -> Settings:
    """The settings that an experiment chose, out of its results.json."""
    try:
        found = read_json(path)["settings"]
        settings = {
            part: {m: [dict(one) for one in several] for m, several in by.items()} for part, by in found.items()
        }
        names = {name for by in settings.values() for several in by.values() for one in several for name in one}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} does not hold chosen settings ({type(error).__name__}: {error}): give the results.json of an "
            "experiment"
        ) from error
    unknown = names - {field.name for field in fields(TrainConfig)}
    if unknown:
        raise UserError(f"{path} names settings that do not exist: {', '.join(sorted(unknown))}")
    return settings


def settings_for(path: Path, settings: Settings, part: str, methods: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The settings of each row for a part, or else for all classes; ``magnet(alpha=1)`` may take ``magnet``'s."""
    found = settings.get(part) or settings.get(CLASSES, {})
    found = {row: found.get(row) or found.get(row.partition("(")[0], []) for row in methods}
    missing = [method for method in methods if not found.get(method)]
    if missing:
        raise UserError(
            f"{path} has no settings of {', '.join(missing)} for {part}: name other --methods, or search "
            "without --settings"
        )
    return found
