"""exp, its inverse, and the s-shaped functions made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.nonlinear.smooth.base import Smooth
from netproof.numerics import HUGE


@dataclass(frozen=True)
class Exp(Smooth):
    least = 0.0

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.exp()
        return value, value

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.exp()
        return value, value

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return upper <= math.log(HUGE)

    undefined = "exp overflows"


@dataclass(frozen=True)
class Log(Smooth):
    undefined = "its argument may be 0 or less"

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.log(), x.reciprocal()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return |log x|, and more so that a value between two points on either side of 1 has none larger."""
        return x.log().abs(), x.reciprocal()

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower >= 1.0 / HUGE


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
        return one, 2.0 * one
