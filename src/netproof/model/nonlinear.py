"""Elementwise nonlinear ops. Their relaxations live in `netproof.relax`."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from netproof.model.ops import Nonlinear


@dataclass(frozen=True, eq=False)
class Relu(Nonlinear):
    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.relu()


@dataclass(frozen=True, eq=False)
class LeakyRelu(Nonlinear):
    """x where x >= 0, alpha·x below."""

    alpha: float

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return F.leaky_relu(x, self.alpha)
