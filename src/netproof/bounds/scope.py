"""What sub-domains are sub-domains of: a whole problem, or one layer's neurons as a problem of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from netproof.bounds.condensed.single import Single, single_first
from netproof.bounds.domains import Domains, split
from netproof.bounds.linear.layers import Layer, split_points
from netproof.bounds.net import Net, RelaxedNet
from netproof.bounds.planes.rows import RowPlanes
from netproof.bounds.record import Sides


class Scope(Protocol):
    """What bounding by multipliers and branching need to know; a `Root` is one."""

    @property
    def device(self) -> torch.device: ...
    @property
    def count(self) -> int: ...  # U

    @property
    def layers(self) -> Sequence[Layer]: ...

    @property
    def bias(self) -> Tensor: ...  # (U,)

    @property
    def valid(self) -> Tensor: ...  # (target, row) bool

    @property
    def net32(self) -> Net: ...  # to search with

    @property
    def net64(self) -> Net: ...  # to prove with

    @property
    def single(self) -> RelaxedNet | None: ...  # to prove with in float32 first; None: nothing is gained by that


@dataclass(frozen=True, eq=False)
class LayerScope:
    """The neurons before one layer; its targets are that layer's neurons."""

    device: torch.device
    bias: Tensor
    valid: Tensor
    net32: Net
    net64: Net
    settled: Tensor  # (target,) float64: the bound past which no better one is wanted
    single: Single | None = None
    sides: Sides | None = None  # what its targets are, for who records

    @property
    def count(self) -> int:
        return self.net32.count

    @property
    def layers(self) -> Sequence[Layer]:
        return self.net32.layers

    @classmethod
    def of(cls, scope: Scope, search: Net, proof: Net, forms: Tensor, errors: Tensor, settled: Tensor) -> LayerScope:
        """Make the scope of neurons, given by forms (n, columns), float64, with errors (n,)."""
        single = single_first(proof, search)
        return cls(
            scope.device,
            scope.bias,
            torch.ones(len(forms), 1, dtype=torch.bool, device=scope.device),
            search.with_rows(forms.float()[:, None], errors.float()[:, None]),
            proof.with_rows(forms[:, None], errors[:, None]),
            settled,
            None if single is None else single.with_rows(forms[:, None], errors[:, None]),
        )

    def with_planes(self, planes: RowPlanes) -> LayerScope:
        """Return the same with planes of each neuron."""
        nets = planes.on(self.net32), planes.on(self.net64), planes.on_single(self.single)
        return replace(self, net32=nets[0], net64=nets[1], single=nets[2])


def split_on(scope: Scope, domains: Domains, neurons: Tensor) -> Domains:
    """Split each sub-domain on all of its `neurons` (domain, k), each where its nonlinearity says."""
    return split(domains, neurons, split_points(scope.layers, domains.lower, domains.upper, neurons))
