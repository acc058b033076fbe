"""Functions that are constant between jumps: a step, floor and rounding.

Their derivative is 0 wherever they have one, which would leave an attack blind: it follows a slope across the jumps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.ops import Nonlinear
from netproof.numerics import down, up


class Stairs(Nonlinear):
    """A function that never falls and whose values are integers."""

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        """Return how many jumps lie within e: what is computed of an exact x is exact."""
        low, high = (torch.where(e > 0, side, x) for side in (down(x - e), up(x + e)))
        here = self.forward(x)
        return torch.maximum(self.forward(high) - here, here - self.forward(low))


@dataclass(frozen=True, eq=False)
class Within(Nonlinear):
    """x itself, where it lies between two numbers; beyond there is no value."""

    least: float
    most: float

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return torch.where((x >= self.least) & (x <= self.most), x, torch.nan)

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        return coef

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the error of x; beyond the numbers nothing is known."""
        return torch.where((x - e >= self.least) & (x + e <= self.most), e, torch.inf)


@dataclass(frozen=True, eq=False)
class Step(Stairs):
    """1 where x >= 0, and 0 below."""

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return (x >= 0).to(x.dtype)

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        return coef / (1.0 + x * x)


@dataclass(frozen=True, eq=False)
class Floor(Stairs):
    """The largest integer that is not above x."""

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.floor()

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        return coef


@dataclass(frozen=True, eq=False)
class Round(Stairs):
    """The integer nearest to x; of two, the even one."""

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.round()

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        return coef
