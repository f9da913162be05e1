"""What a search varies: the settings that the paper tunes (its appendix B), and where they are looked for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from magnet.errors import UserError
from magnet.training.config import TrainConfig

LARGEST_BATCH = 48  # M D, "upper-bounded by 48 due to memory constraints"
M_VALUES = (2, 4, 6, 8, 12, 16, 24)
D_VALUES = (2, 3, 4, 6, 8, 12)  # M = D = 2 is among them: it comes down to triplet loss


@dataclass(frozen=True)
class Range:
    """A stretch of numbers, uniform or uniform in the logarithm."""

    low: float
    high: float
    log: bool = False


Space = dict[str, "Range | tuple[Any, ...]"]

EVERYONE: Space = {"learning_rate": Range(1e-4, 0.1, log=True), "annealing": Range(0.9, 1.0)}
TRIPLET: Space = {
    "alpha": Range(0.1, 1.0),
    "impostor_fraction": Range(0.005, 0.5, log=True),
    "neighbours": (16, 32, 64, 128, 256),
}
BY_METHOD: dict[str, Space] = {
    "magnet": {
        "alpha": Range(0.25, 8.0, log=True),
        "scaling": Range(1.0, 16.0, log=True),
        "clusters_per_class": (1, 2, 4, 8, 16),
    },
    "triplet": TRIPLET,
    "semantic-triplet": TRIPLET,
    "contrastive": {"alpha": Range(0.2, 1.8)},
}


class Chance(Protocol):
    """What a trial of Optuna offers."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """A number of a range."""

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        """One of some values."""


def space_of(config: TrainConfig, fixed: Collection[str] = ()) -> Space:
    """The settings to vary for the method of a configuration, without those that are ``fixed``."""
    space = EVERYONE | BY_METHOD.get(config.method, {})
    if config.schedule == "cosine":
        space.pop("annealing")  # which does nothing then
    space = {name: where for name, where in space.items() if name not in fixed}
    if config.method == "magnet" and not {"clusters_per_batch", "examples_per_cluster"} <= set(fixed):
        space["batch"] = _batches(config, fixed)
    if not space:
        raise UserError("all settings that could be searched are given: nothing is left to search")
    return space


def draw(chance: Chance, space: Space) -> dict[str, Any]:
    """Settings of one trial."""
    drawn = {
        name: chance.suggest_categorical(name, where)
        if isinstance(where, tuple)
        else chance.suggest_float(name, where.low, where.high, log=where.log)
        for name, where in space.items()
    }
    return settings_of(drawn)


def settings_of(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Drawn values as settings: three digits, as they are printed, and M = 12, D = 4 for "12x4"."""
    settings: dict[str, Any] = {
        name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in drawn.items()
    }
    if "batch" in settings:
        clusters, examples = map(int, settings.pop("batch").split("x"))
        settings |= {"clusters_per_batch": clusters, "examples_per_cluster": examples}
    return settings


def _batches(config: TrainConfig, fixed: Collection[str]) -> tuple[str, ...]:
    # One choice of pairs, since the two limit each other.
    clusters = (config.clusters_per_batch,) if "clusters_per_batch" in fixed else M_VALUES
    examples = (config.examples_per_cluster,) if "examples_per_cluster" in fixed else D_VALUES
    pairs = tuple(f"{m}x{d}" for m in clusters for d in examples if m * d <= LARGEST_BATCH)
    if not pairs:
        raise UserError(f"batches of M x D examples are searched up to {LARGEST_BATCH}: give both M and D, or less")
    return pairs
