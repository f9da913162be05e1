"""Learning rates: of each group of parameters, and of each step."""

import math
from typing import Any

from magnet.training.config import TrainConfig
from magnet.training.workbench import Workbench


def parameter_groups(bench: Workbench) -> list[dict[str, Any]]:
    """The parameters that learn, with the factor on their learning rate: lower for the trunk of an image network."""
    network = bench.learner.network
    trunk = {id(p) for p in network.trunk_parameters()} if network.kind == "images" else set()
    parameters = [p for p in bench.learner.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if id(p) not in trunk], "factor": 1.0},
        {"params": [p for p in parameters if id(p) in trunk], "factor": bench.config.trunk_rate},
    ]
    return [group for group in groups if group["params"]]


def rate_at(step: int, config: TrainConfig, *, total: int, epoch_steps: int) -> float:
    """The learning rate of a step: down a cosine over the ``total``, or times a factor every epoch."""
    if config.schedule == "cosine":
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / total))
    return float(config.learning_rate * config.annealing ** (step // epoch_steps))
