"""The s-shaped functions: convex up to 0 and concave from there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.nonlinear.smooth.base import Smooth

_ERF = 2.0 / math.sqrt(math.pi)  # the slope of erf at 0


@dataclass(frozen=True)
class Sigmoid(Smooth):
    bends = (0.0,)
    least, most = 0.0, 1.0

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.sigmoid()
        return value, value * (1.0 - value)

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones_like(x)
        return one, one


@dataclass(frozen=True)
class Tanh(Smooth):
    bends = (0.0,)
    least, most = -1.0, 1.0

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.tanh()
        return value, 1.0 - value * value

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones_like(x)
        return one, 3.0 * one


@dataclass(frozen=True)
class Erf(Smooth):
    bends = (0.0,)
    least, most = -1.0, 1.0

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.erf(), _ERF * (-x * x).exp()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1, and of the slope more: x² is rounded, and so is exp(−x²), by x²·exp(−x²) < 1 at most."""
        one = torch.ones_like(x)
        return one, 3.0 * one


@dataclass(frozen=True)
class Atan(Smooth):
    bends = (0.0,)
    least, most = -1.6, 1.6

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.atan(), 1.0 / (1.0 + x * x)

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones_like(x)
        return 2.0 * one, one


@dataclass(frozen=True)
class Softsign(Smooth):
    """x / (1 + |x|)."""

    bends = (0.0,)
    least, most = -1.0, 1.0

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        inverse = 1.0 / (1.0 + x.abs())
        return x * inverse, inverse * inverse

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones_like(x)
        return one, one
