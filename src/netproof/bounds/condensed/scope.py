"""What sub-domains are sub-domains of: a whole problem, or one layer's neurons as a problem of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from netproof.bounds.condensed.network import Condensed
from netproof.bounds.domains import Domains, split
from netproof.bounds.linear.lined_graph import Layer, split_points


class Scope(Protocol):
    """What bounding by multipliers and branching need to know; a `Root` is one."""

    @property
    def device(self) -> torch.device: ...
    @property
    def count(self) -> int: ...  # U

    @property
    def layers(self) -> list[Layer]: ...

    @property
    def bias(self) -> Tensor: ...  # (U,)

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
    valid: Tensor
    net32: Condensed
    net64: Condensed
    settled: Tensor  # (target,) float64: the bound past which no better one is wanted

    @property
    def count(self) -> int:
        return self.net32.count

    @property
    def layers(self) -> list[Layer]:
        return self.net32.layers

    @classmethod
    def of(
        cls, scope: Scope, search: Condensed, proof: Condensed, forms: Tensor, errors: Tensor, settled: Tensor
    ) -> LayerScope:
        """forms (n, columns), float64, of the neurons with errors (n,); search and proof: what comes before them."""
        return cls(
            scope.device,
            scope.bias,
            torch.ones(len(forms), 1, dtype=torch.bool, device=scope.device),
            replace(search, rows=forms.float()[:, None], error=errors.float()[:, None]),
            replace(proof, rows=forms[:, None], error=errors[:, None]),
            settled,
        )


def split_on(scope: Scope, domains: Domains, neurons: Tensor) -> Domains:
    """Split each sub-domain on all of its `neurons` (domain, k), each where its nonlinearity says."""
    points = split_points(scope.layers, domains.lower, domains.upper)
    return split(domains, neurons, None if points is None else points.gather(1, neurons.clamp(min=0)))
