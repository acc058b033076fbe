"""What sub-domains are sub-domains of: a whole problem, or one layer's neurons as a problem of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from netproof.bounds.condensed.network import Condensed


class Scope(Protocol):
    """What bounding by multipliers and branching need to know; a `Root` is one."""

    @property
    def device(self) -> torch.device: ...
    @property
    def count(self) -> int: ...  # U

    @property
    def bias(self) -> Tensor: ...  # (U,)

    @property
    def leaks(self) -> Tensor: ...  # (U,)

    @property
    def valid(self) -> Tensor: ...  # (target, row) bool

    @property
    def net32(self) -> Condensed: ...  # to search with

    @property
    def net64(self) -> Condensed: ...  # to prove with


@dataclass(frozen=True, eq=False)
class LayerScope:
    """The neurons before one layer; its targets are that layer's neurons."""

    device: torch.device
    bias: Tensor
    leaks: Tensor
    valid: Tensor
    net32: Condensed
    net64: Condensed

    @property
    def count(self) -> int:
        return self.net32.count

    @classmethod
    def of(cls, scope: Scope, search: Condensed, proof: Condensed, forms: Tensor, errors: Tensor) -> LayerScope:
        """forms (n, columns), float64, of the neurons with errors (n,); search and proof: what comes before them."""
        return cls(
            scope.device,
            scope.bias,
            scope.leaks,
            torch.ones(len(forms), 1, dtype=torch.bool, device=scope.device),
            replace(search, rows=forms.float()[:, None], error=errors.float()[:, None]),
            replace(proof, rows=forms[:, None], error=errors[:, None]),
        )
