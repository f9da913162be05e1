"""What a model gives back."""

from typing import NamedTuple

from torch import Tensor


class Answers(NamedTuple):
    """What a model says of n inputs."""

    labels: list[str | None]  # None: refused, too far from all that is known
    probabilities: Tensor  # (n, C), calibrated, columns as `Model.classes`
    clusters: Tensor  # (n, k) ids of the nearest clusters, nearest first
    distances: Tensor  # (n, k) to their centres, in sigma
    novelty: Tensor  # (n,) the first of these


class Found(NamedTuple):
    """A training example near an input."""

    name: str
    label: str
    distance: float  # in sigma
    example: int  # its number among the references
