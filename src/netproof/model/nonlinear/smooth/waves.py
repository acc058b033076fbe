"""Sine and cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.nonlinear.smooth.base import Smooth

FURTHEST = 2.0**20  # beyond, an argument says nothing of a wave: its library's reduction is not trusted there


@dataclass(frozen=True)
class Sin(Smooth):
    least, most = -1.0, 1.0
    origin = -math.pi  # the period that is bounded begins here, where it is about to be convex
    turns = tuple((k + 0.5) * math.pi for k in range(-1, 3))

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin(), x.cos()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones_like(x)
        return one, one

    def steepest(self, lower: Tensor, upper: Tensor) -> Tensor:
        return torch.full_like(lower, 1.0 + 1e-12)

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.where(x.abs() + e > FURTHEST, 2.0, super().error(x, e, dtype))


@dataclass(frozen=True)
class Cos(Sin):
    origin = -1.5 * math.pi
    turns = tuple(k * math.pi for k in range(-1, 3))

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.cos(), -x.sin()
