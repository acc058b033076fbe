"""Planes of the rows that a network bounds, in every precision that they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from netproof.bounds.condensed.network import Condensed
from netproof.bounds.condensed.single import Single
from netproof.bounds.net import Net
from netproof.bounds.planes.planes import Planes
from netproof.bounds.planes.reads import Reads


@dataclass(frozen=True, eq=False)
class RowPlanes:
    """The slopes of planes above the first layer's neurons, for some of the targets."""

    reads: Reads  # in proofs, counted from 0
    slope: Tensor  # (n, J, K) float32
    row: Tensor | None = None  # (target,): which of the n each target has; None: n are all, in their order

    @cached_property
    def _search(self) -> Planes:
        return Planes.on(self.reads.to_search, self.slope, self.row, kept=True)

    @cached_property
    def _proof(self) -> Planes:
        return Planes.on(self.reads, self.slope.double(), self.row, kept=True)

    @cached_property
    def _single(self) -> Planes:
        return Planes.on(self.reads.about_centre, self.slope, self.row, kept=True)

    def some(self, index: Tensor) -> RowPlanes:
        """Return those of some rows (k,), where each target has its own."""
        assert self.row is None
        return RowPlanes(self.reads, self.slope[index])

    def on(self, net: Net) -> Net:
        """Return a network, to search or to prove with, that has these planes."""
        assert isinstance(net, Condensed)
        return net.with_planes(self._proof if net.proof else self._search)

    def on_single(self, net: Single | None) -> Single | None:
        """Return a network to prove with in float32 that has them; None where numbers are too large for it."""
        return None if net is None else net.with_planes(self._single)
