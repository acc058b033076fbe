"""What sub-domains are sub-domains of: a whole problem, or one layer's neurons as a problem of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from netproof.bounds.condense import Condensed


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
    def packed(self) -> Condensed: ...  # to search with

    @property
    def condensed(self) -> Condensed: ...  # to prove with


@dataclass(frozen=True, eq=False)
class Part:
    """The neurons before one layer; its targets are that layer's neurons."""

    device: torch.device
    bias: Tensor
    leaks: Tensor
    valid: Tensor
    packed: Condensed
    condensed: Condensed

    @property
    def count(self) -> int:
        return self.packed.count

    @classmethod
    def of(cls, scope: Scope, search: Condensed, proof: Condensed, forms: Tensor, errors: Tensor) -> Part:
        """forms (n, columns), float64, of the neurons with errors (n,); search and proof: what comes before them."""
        return cls(
            scope.device,
            scope.bias,
            scope.leaks,
            torch.ones(len(forms), 1, dtype=torch.bool, device=scope.device),
            replace(search, rows=forms.float()[:, None], error=errors.float()[:, None]),
            replace(proof, rows=forms[:, None], error=errors[:, None]),
        )
