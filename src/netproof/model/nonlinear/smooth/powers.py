"""Powers of one variable: its square, square root and reciprocal."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.nonlinear.smooth.base import Smooth
from netproof.numerics import HUGE

ROOT = HUGE**0.5
STEEP = 2.0**-32  # below this a line on a square root is no steeper than here, where its slope is 2^15


@dataclass(frozen=True)
class Square(Smooth):
    turns = (0.0,)
    least = 0.0
    undefined = "its square overflows"

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * x, 2.0 * x

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * x, 2.0 * x.abs()

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return (lower >= -ROOT) & (upper <= ROOT)


@dataclass(frozen=True)
class Sqrt(Smooth):
    least = 0.0
    undefined = "its argument may be negative"

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sqrt(), 0.5 / x.clamp(min=STEEP).sqrt()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.both(x)

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower >= 0.0

    def carried(self, x: Tensor, e: Tensor) -> Tensor:
        """Bound it by √e where no slope does."""
        return torch.where(x - e > STEEP, super().carried(x, e), e.sqrt())


@dataclass(frozen=True)
class Reciprocal(Smooth):
    undefined = "its argument may be 0"

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.reciprocal()
        return value, -value * value

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value = x.reciprocal().abs()
        return value, value * value

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return (lower >= 1.0 / ROOT) | (upper <= -1.0 / ROOT)
