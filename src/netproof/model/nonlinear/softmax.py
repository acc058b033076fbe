"""One entry of a softmax, as a function of all entries of its row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.ops import Nonlinear
from netproof.numerics import LIBM, RUNTIME, enlarged, few_roundings, with_vanishing


@dataclass(frozen=True)
class SoftmaxEntry(Nonlinear):
    """exp(x_0) / Σ_i exp(x_i): its own entry is the first operand, (arity, *shape) -> shape."""

    arity: int

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.softmax(1)[:, 0]

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        every = x.softmax(1)
        own = every[:, :1]
        slope = -own * every
        slope[:, :1] += own
        return coef[:, None] * slope

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        """Bound it by exp(2·max e) − 1 of the value for what its operands are off by, and roundings of its own.

        Each exponential is of a difference from the largest operand, whose rounding counts as often as it is large.
        """
        value = self.forward(x)
        carried = torch.expm1((2.0 * e.amax(1)).clamp(max=700.0))
        apart = x.amax(1) - x.amin(1) + 2.0 * e.amax(1)
        roundings = self.arity + 8 + 2 * (LIBM if dtype == torch.float64 else RUNTIME)
        own = few_roundings(value * (1.0 + carried), roundings, dtype) * (1.0 + apart)
        return enlarged(with_vanishing(value * carried + own, self.arity, dtype)).clamp(max=2.0)
