"""What bounds need of a network whose unstable neurons are relaxed: a pass back to the input, and one forward.

For a form c over the network's columns, lines of every packed neuron and a multiplier β >= 0 for every split
s·(h − q) >= 0, with a the coefficient of a neuron's output z and p that of its h:

    p = a⁺ α + a⁻ u − sβ,        bound = constant + Σ (a⁺ b + a⁻ c + sβq) + min_x (coefficient of x)·x

where α·h + b is the lower line and u·h + c the upper one. A split's term −sβ(h − q) is at most 0 where the split holds,
so the bound is sound for any β >= 0. By the envelope theorem its gradient needs no tape: evaluate the relaxed network
forwards at the minimiser x*, each neuron on the line that its coefficient chose; then ∂/∂line = a times the line's own
change at h, ∂/∂β = −s (h − q), and ∂/∂c is the value of each column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from netproof.bounds.linear.layers import Layer
from netproof.bounds.linear.region import BoxRegion, Region
from netproof.bounds.packed import Lagrangian, some
from netproof.bounds.planes.planes import Lift, Planes
from netproof.relax import Line, Lines


class Pulled(NamedTuple):
    """A form carried back to the input."""

    value: Tensor  # (domain,)
    after: Tensor  # (domain, U): a, the coefficient of z
    before: Tensor  # (domain, U): p, the coefficient of h
    at_input: Tensor  # (domain, *input)
    region: Region | BoxRegion  # over which it is bounded
    lines: Lines | None = None  # that it was carried back by; None where it was not by lines
    charge: Tensor | None = None  # (domain,): what a proof in float32 has taken off for rounding; None: another net
    lift: Lift | None = None  # what went to planes of the first layer's neurons; None: nothing

    def select(self, index: Tensor) -> Pulled:
        """Return those of some sub-domains."""
        lines = self.lines and Lines(*(None if t is None else some(t, index) for t in self.lines))  # type: ignore[arg-type]
        value, after, before, at_input = (t[index] for t in (self.value, self.after, self.before, self.at_input))
        charge = None if self.charge is None else self.charge[index]
        lift = None if self.lift is None else self.lift.select(index)
        return Pulled(value, after, before, at_input, self.region.select(index), lines, charge, lift)

    @property
    def line(self) -> Line:
        """Return the line that each neuron's coefficient chose, (domain, U)."""
        lines, falls = self.lines, self.after < 0
        assert lines is not None
        below = 0.0 if lines.lower_intercept is None else lines.lower_intercept
        slope = torch.where(falls, lines.upper_slope, lines.lower_slope)
        return Line(slope, torch.where(falls, lines.upper_intercept, below))

    def add_gain_(self, there: Forwarded, gain: Tensor) -> None:
        """Add what larger shares of planes gain, at the minimiser, to what parameters gain (domain, U), in place."""
        if self.lift is not None and there.above is not None and self.lines is not None:
            of = self.lift.reads.of
            chord = torch.addcmul(of(self.lines.upper_intercept), of(self.lines.upper_slope), of(there.h))
            self.lift.gain_(self.after, chord, there.above, gain)


class Forwarded(NamedTuple):
    """The relaxed network where a bound is attained."""

    h: Tensor  # (domain, U)
    values: Tensor  # (domain, columns)
    above: Tensor | None = None  # (domain, J): the planes of the first layer's neurons; None: there are none

    def z(self, pulled: Pulled) -> Tensor:
        """Return the neurons' outputs (domain, U) in the bound that was carried back."""
        line = pulled.line
        found = torch.addcmul(line.intercept, line.slope, self.h)
        if pulled.lift is not None and self.above is not None:
            pulled.lift.raise_(pulled.after, found, self.above)
        return found


class RelaxedNet(ABC):
    """A network relaxed on its input set, whose forms are bounded by a pass back.

    A form is a row of numbers (columns,): the first stands before 1, the others before values of the network.
    """

    layers: Sequence[Layer]
    region: Region
    origin: Tensor | None = None  # (*input): the point that the region is counted from; None: 0
    rows: Tensor  # (target, row, columns): the forms that are to be bounded
    error: Tensor  # (target, row): what each may be off by
    planes: Planes | None = None  # of each target, above the neurons of the first layer; None: there are none

    @property
    def count(self) -> int:
        """Return U, the number of packed neurons."""
        return self.layers[-1].packed.stop if self.layers else 0

    @property
    def dtype(self) -> torch.dtype:
        """Return the type of forms and lines."""
        return self.rows.dtype

    @property
    @abstractmethod
    def proof(self) -> bool:
        """Say whether values are proofs, with every rounding taken off."""

    def over(self, inside: Tensor | None) -> BoxRegion | None:
        """Return the boxes (domain, 2, input) of sub-domains as this net counts; None: they lie anywhere."""
        if inside is None:
            return None
        # In float64: a thin box far from the origin would vanish in float32.
        sides = inside if self.origin is None else inside - self.origin.flatten().to(inside.dtype)
        lower, upper = sides.to(self.dtype).unbind(1)
        return BoxRegion.of(lower, upper)

    @abstractmethod
    def backward(self, seed: Tensor, relaxed: Lagrangian) -> Pulled:
        """Bound each form of seed (domain, columns) from below, the neurons and splits relaxed."""

    @abstractmethod
    def with_rows(self, rows: Tensor, error: Tensor) -> Self:
        """Return the same with other forms (target, row, columns) to bound, and their errors (target, row)."""

    @abstractmethod
    def mixing(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the weight of |form| (columns,) in the rounding of a mix of `count` forms, and of underflow ()."""


class Net(RelaxedNet):
    """A network in one precision: to search with, or to prove with."""

    @abstractmethod
    def forward(self, pulled: Pulled) -> Forwarded:
        """Evaluate the relaxed network at the minimiser."""

    @abstractmethod
    def upto(self, depth: int) -> Self:
        """Return the network before layer `depth`, over whose columns that layer's neurons are forms; without rows."""

    @abstractmethod
    def neurons(self, depth: int, which: Tensor) -> tuple[Tensor, Tensor]:
        """Return h of neurons (n,) of layer `depth` as forms (n, columns) of `upto(depth)`, and their errors (n,)."""

    @abstractmethod
    def climbs_that_fit(self) -> int:
        """Return how many bounds may be climbed at once."""
