"""max(h, a·h): ReLU with a = 0, leaky ReLU with a < 1. Equation (5) of the paper, for any a."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.numerics import UNIT, up
from netproof.relax.lines import Relaxation


@dataclass(frozen=True)
class HingeRelaxation(Relaxation):
    """Convex, so any slope in [a, 1] is a lower line and the chord is the best upper one."""

    leak: float

    @property
    def steepest(self) -> float:
        return max(1.0, abs(self.leak))

    def upper_line(self, lower: Tensor, upper: Tensor, *, proof: bool) -> tuple[Tensor, Tensor]:
        unstable = self.unstable(lower, upper)
        width = torch.where(unstable, upper - lower, torch.ones_like(lower))
        chord = (upper - self.leak * lower) / width
        slope = torch.where(unstable, chord, self.stable_slope(lower, upper))
        intercept = torch.where(unstable, (self.leak - slope) * lower, torch.zeros_like(lower))
        if proof:
            # The chord's slope is rounded, so the line must be lifted to lie above g at both ends; g is
            # convex, so between them it then lies above too. Three roundings make each product.
            right = torch.where(unstable, (1.0 - slope) * upper, torch.zeros_like(lower))
            lifted = up(torch.maximum(intercept, right) * (1.0 + 8.0 * UNIT[lower.dtype]))
            intercept = torch.where(unstable, lifted, torch.zeros_like(lower))
        return slope, intercept

    def stable_slope(self, lower: Tensor, upper: Tensor) -> Tensor:
        return torch.where(lower >= 0, torch.ones_like(lower), torch.full_like(lower, self.leak))

    def initial(self, lower: Tensor, upper: Tensor) -> Tensor:
        """CROWN's choice: 1 where u > |l|, else a."""
        return torch.where(upper > -lower, torch.ones_like(lower), torch.full_like(lower, self.leak))

    def project(self, slopes: Tensor) -> Tensor:
        return slopes.clamp(self.leak, 1.0)
