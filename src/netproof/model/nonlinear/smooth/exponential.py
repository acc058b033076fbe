"""exp, its inverse, and the functions of hyperbolas and circles that are made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.model.nonlinear.smooth.base import TOO_LARGE, Smooth
from netproof.numerics import HUGE

_MOST = math.log(HUGE)


@dataclass(frozen=True)
class Exp(Smooth):
    least = 0.0
    undefined = TOO_LARGE

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.exp()
        return value, value

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.both(x)

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return upper <= _MOST


@dataclass(frozen=True)
class Log(Smooth):
    undefined = "its argument may be 0 or less"

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.log(), x.reciprocal()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.log().abs(), x.reciprocal()

    def exists(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower > 0.0

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower >= 1.0 / HUGE


@dataclass(frozen=True)
class Softplus(Smooth):
    """log(1 + exp(x))."""

    least = 0.0

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.clamp(min=0) + (-x.abs()).exp().log1p(), x.sigmoid()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return 5.0 * F.softplus(x), torch.ones_like(x)  # exp(−|x|) < 3/2 of it, and it grows


@dataclass(frozen=True)
class LogSigmoid(Smooth):
    """log(sigmoid(x)) = −log(1 + exp(−x)): of a sigmoid that rounds to 0 or 1 the logarithm alone says nothing."""

    most = 0.0

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.clamp(max=0) - (-x.abs()).exp().log1p(), (-x).sigmoid()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return 5.0 * F.softplus(-x), torch.ones_like(x)  # exp(−|x|) < 3/2 of it


@dataclass(frozen=True)
class Sinh(Smooth):
    undefined = TOO_LARGE
    bends = (0.0,)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        up, down = x.exp() / 2, (-x).exp() / 2
        return up - down, up + down

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        size = 2.0 * x.abs().exp()
        return size, size

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return (lower >= -_MOST) & (upper <= _MOST)


@dataclass(frozen=True)
class Cosh(Smooth):
    undefined = TOO_LARGE
    turns = (0.0,)
    least = 1.0

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        up, down = x.exp() / 2, (-x).exp() / 2
        return up + down, up - down

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        size = 2.0 * x.abs().exp()
        return size, size

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return (lower >= -_MOST) & (upper <= _MOST)
