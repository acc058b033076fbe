"""Planes over the input above the neurons of the first layer, some for each target.

The chord is the least line in h above g(h) = max(h, a·h). But h is a plane over a box, and there are planes in x above
g that are lower at a given x: at corners of the box they may touch g. g is the larger of two lines, so a plane lies
above it on the box where it lies above both:

    P_j(x) = G_j·x + H_j,   H_j = max over the box of max(h_j, a·h_j) − G_j·x,

whatever G_j is. With the slope of the chord times that of h it is the chord itself. A coefficient c < 0 of z_j is
shared: c·z_j >= (c − q)·chord(h_j) + q·P_j(x) for every q between c and 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.bounds.linear.memory import entries_at_once
from netproof.bounds.planes.reads import Reads
from netproof.core.batch import in_slices, ranks
from netproof.numerics import enlarged, few_roundings, rounding
from netproof.relax import Lines

MATRIX = 1 << 22  # entries of one target's planes up to which they are products of matrices, not of windows,
MATRICES = 1 << 26  # and of those of all targets
GATHERED = 32  # numbers of a product of matrices that take a CPU as long as one of a window
SKEWED = 4  # times as many rows as there are, for which targets are not padded to the same number of them


@dataclass(frozen=True, eq=False)
class Planes:
    """Planes of each target above the J neurons of the first layer, in one precision."""

    reads: Reads
    slope: Tensor  # (n, J, K): G at the places of the windows
    height: Tensor  # (n, J): H, where x is 0 as `reads` counts
    row: Tensor | None = None  # (target,): which of the n each target has; None: n are all targets
    kept: bool = False  # whether they are asked for again and again, so that matrices of them pay

    @classmethod
    def on(cls, reads: Reads, slope: Tensor, row: Tensor | None = None, *, kept: bool = False) -> Planes:
        """Return planes of given slopes (n, J, K), as low as they may be; a proof where `reads` are float64."""
        return cls(reads, slope, reads.height(slope), row, kept)

    def of(self, target: Tensor, *, whole: bool = False) -> Above:
        """Return the planes of sub-domains of targets (domain,)."""
        return Above(self, target if self.row is None else self.row[target], whole)

    @cached_property
    def matrix(self) -> Tensor | None:
        """Return the slopes over the whole input, (n, J, input); None where windows take far less."""
        reads = self.reads
        if reads.places is None:
            return self.slope
        sparse = self.slope.device.type == "cpu" and reads.inputs > GATHERED * reads.width
        most = min(MATRIX, MATRICES // max(1, len(self.slope)))
        if sparse or not self.kept or reads.count * reads.inputs > most:
            return None
        none = self.slope.new_zeros(len(self.slope), reads.count, reads.inputs)
        return none.scatter_add_(2, reads.places.expand_as(self.slope), self.slope)

    @property
    def work(self) -> int:
        """Return the numbers that a pass of one sub-domain multiplies, as a product of matrices would."""
        return self.reads.count * min(self.reads.inputs, GATHERED * self.reads.width)

    @cached_property
    def charge(self) -> Tensor:
        """Return (n, J): the weight of |q_j| in what rounding may cost a proof."""
        reads = self.reads
        size = (self.slope.abs() * (reads.centre.abs() + reads.radius)).sum(2)
        # Of each coefficient of x a sum over neurons, then in float64 the least over the box, a sum over inputs.
        sums = rounding(size, reads.count + 8, self.slope.dtype) + rounding(size, reads.inputs + 8)
        return enlarged(sums + rounding(self.height.abs(), reads.count + 16))


@dataclass(frozen=True, eq=False)
class Above:
    """The planes of a batch of sub-domains."""

    planes: Planes
    row: Tensor  # (domain,): which planes each has
    whole: bool  # whether all that falls goes to planes; else as much as the neurons' parameters say

    def select(self, index: Tensor) -> Above:
        """Return those of some sub-domains."""
        return Above(self.planes, self.row[index], self.whole)

    def lift(self, t: Tensor, lines: Lines) -> Lift:
        """Return how much goes to planes, for parameters (domain, U) and lines of neurons: nothing where g is one."""
        reads = self.planes.reads
        bent = (reads.of(lines.upper_intercept) > 0).to(t.dtype).expand(len(t), -1)
        return Lift(self, bent if self.whole else bent * reads.of(t), bent)

    @cached_property
    def height(self) -> Tensor:
        """Return (domain, J)."""
        return self.planes.height[self.row]

    @cached_property
    def charge(self) -> Tensor:
        """Return (domain, J): the weight of |q_j| in what rounding may cost a proof."""
        return self.planes.charge[self.row]

    def over_input(self, q: Tensor) -> Tensor:
        """Return Σ_j q_j G_j for q (domain, J): (domain, input)."""
        planes = self.planes
        if planes.matrix is not None:
            return self._each(q, planes.matrix)
        reads, slope = planes.reads, planes.slope
        return self._in_slices(lambda some: reads.given(q[some][:, :, None] * slope[self.row[some]]))

    def at(self, x: Tensor) -> Tensor:
        """Return what the planes are at points x (domain, input): (domain, J)."""
        planes = self.planes
        if planes.matrix is not None:
            return self._each(x, planes.matrix.mT) + self.height
        reads, slope = planes.reads, planes.slope
        return self._in_slices(lambda some: (reads.taken(x[some]) * slope[self.row[some]]).sum(2)) + self.height

    def _in_slices(self, make: Callable[[slice], Tensor]) -> Tensor:
        """Make what all have, as many sub-domains at a time as their windows leave room for."""
        slope = self.planes.slope
        size = max(1, entries_at_once(slope.device) // max(1, slope[0].numel()))
        return in_slices(make, len(self.row), size)

    def _each(self, rows: Tensor, matrices: Tensor) -> Tensor:
        """Return what each has (domain, a) times its own of the matrices (n, a, b): (domain, b)."""
        if len(matrices) == 1:
            return rows @ matrices[0]
        kinds, slot, most = self._padding
        if most == 0:
            found = rows.new_empty(len(rows), matrices.shape[2])
            for kind in kinds.tolist():
                mine = (self.row == kind).nonzero()[:, 0]
                found[mine] = rows[mine] @ matrices[kind]
            return found
        padded = rows.new_zeros(len(kinds) * most, rows.shape[1]).index_copy_(0, slot, rows)
        some = matrices if len(kinds) == len(matrices) else matrices[kinds]
        return torch.bmm(padded.view(len(kinds), most, rows.shape[1]), some).flatten(0, 1)[slot]

    @cached_property
    def _padding(self) -> tuple[Tensor, Tensor, int]:
        """Return the planes there are, a place for each sub-domain where all have as many, and how many; 0: too many.

        So all of them are one product of matrices.
        """
        kinds, which, counts = self.row.unique(return_inverse=True, return_counts=True)
        most = int(counts.max()) if len(kinds) else 1
        if len(kinds) * most > SKEWED * len(which) + 64:
            return kinds, which, 0
        return kinds, which * most + ranks(which, counts), most


class Lift(NamedTuple):
    """How much of the neurons of the first layer goes to planes in a bound."""

    above: Above
    share: Tensor  # (domain, J) in [0, 1]
    bent: Tensor  # (domain, J): 1 where g is no line, else 0, and so is the share

    def select(self, index: Tensor) -> Lift:
        """Return that of some sub-domains."""
        return Lift(self.above.select(index), self.share[index], self.bent[index])

    @property
    def reads(self) -> Reads:
        return self.above.planes.reads

    def carried(self, after: Tensor) -> Tensor:
        """Return q (domain, J): what planes carry of coefficients of z (domain, U)."""
        return self.reads.of(after).clamp(max=0) * self.share

    def raise_(self, after: Tensor, z: Tensor, at: Tensor) -> None:
        """Make z (domain, U) on lines what it is on these and planes, in place; at (domain, J): on planes."""
        more = (at - self.reads.of(z)) * (self.reads.of(after) < 0) * self.share
        self.reads.add_(z, more)

    def gain_(self, after: Tensor, chord: Tensor, at: Tensor, gain: Tensor) -> None:
        """Add what the bound gains by larger shares to what it does by parameters (domain, U), in place.

        chord, at (domain, J): what chords and planes are. Where a coefficient does not fall it is 0.
        """
        self.reads.add_(gain, self.reads.of(after).clamp(max=0) * self.bent * (at - chord))

    def charged(self, after: Tensor, before: Tensor, carried: Tensor, read: Tensor) -> Tensor:
        """Return what rounding costs a proof at most, more than without planes: (domain,) float64.

        after, before (domain, U): the coefficients of z and h. read (U,): the largest |h|. What stays with a chord is a
        difference, so its rounding is that of both parts.
        """
        largest = self.reads.of(read[None])[0] * max(1.0, self.reads.leak)
        q, parts = carried.double().abs(), (self.reads.of(t).double().abs() for t in (after, before))
        kept = sum(part @ few_roundings(largest, 8, carried.dtype) for part in parts)
        return (q * self.above.charge).sum(1) + kept

    def narrow(self) -> Lift:
        """Return the same with shares in float32, rounded: any share is sound."""
        return self._replace(share=self.share.float())
