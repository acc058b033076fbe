"""x·y of two values that both depend on the network's input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.ops import Nonlinear
from netproof.numerics import enlarged, rounding, with_vanishing


@dataclass(frozen=True, eq=False)
class Product(Nonlinear):
    """The first operand times the second: (2, *shape) -> shape."""

    arity = 2

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x[:, 0] * x[:, 1]

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        return coef[:, None] * x.flip(1)

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        """Bound |x̃ỹ − xy| by |x̃||ỹ − y| + |x̃ − x||y|, and one rounding of x̃ỹ."""
        most = x.abs() + e
        off = most[:, 0] * e[:, 1] + e[:, 0] * x[:, 1].abs()
        return enlarged(with_vanishing(off + rounding(most[:, 0] * most[:, 1], 1, dtype), dtype=dtype))
