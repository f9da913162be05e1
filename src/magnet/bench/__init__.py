"""Benchmarks: speed and memory beside other libraries and simpler code, as ratios.

Each part is a module with ``measure(progress) -> list[Measurement]``. `magnet bench` runs each part in a new process,
so that the parts do not disturb each other.
"""

from collections.abc import Callable
from importlib import import_module

from magnet.bench.measurement import Measurement

PARTS = {
    "step": "a training step of Magnet against one of softmax, and what a refresh spends its time on",
    "loss": "the loss alone against the losses of pytorch-metric-learning",
    "draw": "drawing a batch and taking its losses, as the index grows",
    "compiled": "torch.compile against eager, and the error of half precision",
    "processes": "what 1, 2 and 4 processes tell each other",
    "clusters": "K-means of all classes",
    "impostors": "the nearest impostors of all clusters",
    "evaluation": "classifying and retrieval",
    "growth": "time and memory as the data grows",
}


def measure(part: str, progress: Callable[[str], None]) -> list[Measurement]:
    """The measurements of one part, in this process."""
    found: list[Measurement] = import_module(f"magnet.bench.{part}").measure(progress)
    return found
