"""The unit of length of objectives that are not invariant to scale (NCA, NCM)."""

import torch
from torch import Tensor

from magnet.methods.base import Method, Options, Setting


class FixedUnit(Method):
    """A method with exp(-a d^2) in it, where a = s / (2 sigma^2) and sigma^2 is fixed at the first refresh.

    How long the representations of an untrained network are means nothing, yet such an objective depends on it: with
    a = 1, the equations as printed, a wide space diverges and a narrow one does not learn. So lengths are counted in
    those found at the start, and s is in the unit of Magnet's scaling. From then on the network may stretch the space.
    """

    unit: Tensor  # () sigma^2; 0 until it is fixed

    def __init__(self, setting: Setting, options: Options) -> None:
        super().__init__(setting, options)
        self.register_buffer("unit", torch.zeros(()))

    def fix_unit(self, variance: Tensor) -> None:
        """Take ``variance`` () as sigma^2, unless one was taken before."""
        if not bool(self.unit > 0):
            self.unit.copy_(variance)

    @property
    def scaling(self) -> float:
        """s."""
        return self.options.scaling

    @property
    def variance(self) -> Tensor:
        """sigma^2; 1/2, which gives a = s, until it is fixed."""
        return torch.where(self.unit > 0, self.unit, 0.5)

    @property
    def factor(self) -> Tensor:
        """a."""
        return self.scaling / (2 * self.variance)
