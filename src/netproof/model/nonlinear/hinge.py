"""max(x, a·x): ReLU and leaky ReLU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.model.ops import Nonlinear
from netproof.numerics import down, enlarged, rounding, up, with_vanishing


@dataclass(frozen=True, eq=False)
class Relu(Nonlinear):
    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.relu()

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        kept: Tensor = torch.ops.aten.threshold_backward(coef, x, 0.0)
        return kept

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        """Return e, but for what lies below 0 only as far as it may rise above: 0 is certain behind a negative x."""
        return torch.where(x > 0, e, up(x + e).relu().nan_to_num(nan=torch.inf, posinf=torch.inf))


@dataclass(frozen=True, eq=False)
class LeakyRelu(Nonlinear):
    """x where x >= 0, alpha·x below."""

    alpha: float

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return F.leaky_relu(x, self.alpha)

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        scaled: Tensor = torch.ops.aten.leaky_relu_backward(coef, x, self.alpha, False)
        return scaled

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        slope = abs(self.alpha)
        own = with_vanishing(rounding(slope, 1, dtype) * (x.abs() + e), dtype=dtype)
        steepest = torch.where(up(x + e) < 0, slope, torch.where(down(x - e) > 0, 1.0, max(1.0, slope)))
        return enlarged(steepest * e + own).nan_to_num(nan=torch.inf, posinf=torch.inf)
