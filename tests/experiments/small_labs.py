"""Small labs: the conditions of an experiment, with runs of two epochs."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from magnet.experiments.lab import Lab, methods_of
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset

TINY = {"epochs": 2, "dim": 8, "clusters_per_class": 2, "device": "cpu", "quiet": True}
FIXED = frozenset({"learning_rate", "alpha", "scaling", "impostor_fraction", "batch", "clusters_per_class"})


def lab_of(data: str, out: Path, seeds: int = 2) -> Lab:
    """Nothing is searched: each method has one trial, with its preset."""

    def configure(method: str) -> TrainConfig:
        return replace(with_preset(TrainConfig(data=data, method=method)), **TINY)

    methods = methods_of(out.name)
    return Lab(configure, out, fixed=FIXED, methods=methods, seeds=seeds, trials=1, console=Console(quiet=True))
