"""Sine and cosine: bounds are moved by whole periods to where the shape is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.nonlinear.smooth.waves import FURTHEST, Sin
from netproof.numerics import few_roundings, with_vanishing
from netproof.relax.lines import Family, Lines
from netproof.relax.smooth.relaxation import SmoothRelaxation
from netproof.relax.smooth.sides import some

_PERIOD = 2.0 * math.pi


@dataclass(frozen=True, eq=False)
class Moved(Family):
    """The family of h − shift as one of h; where `wide`, −1 and 1."""

    family: Family
    shift: Tensor
    wide: Tensor  # bool
    off: float  # in a proof, how far the shift may be from whole periods, of its size; else 0

    def at(self, t: Tensor) -> Lines:
        found = self.family.at(t)
        assert found.lower_intercept is not None
        below = self._intercept(found.lower_slope, found.lower_intercept, -1.0)
        above = self._intercept(found.upper_slope, found.upper_intercept, 1.0)
        lower, upper = (slope.masked_fill(self.wide, 0.0) for slope in found[:2])
        return Lines(lower, upper, above, below)

    def _intercept(self, slope: Tensor, intercept: Tensor, outward: float) -> Tensor:
        moved = torch.addcmul(intercept, slope, self.shift, value=-1.0)
        if self.off:
            moved = moved + outward * with_vanishing((self.shift.abs() + intercept.abs()) * self.off)
        return moved.masked_fill(self.wide, outward)

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        self.family.gradient(t, coef, h - self.shift, out)

    def select(self, index: Tensor) -> Moved:
        return Moved(self.family.select(index), some(self.shift, index), some(self.wide, index), self.off)


@dataclass(frozen=True)
class WaveRelaxation(SmoothRelaxation):
    """On bounds of one period or more, and where the argument is large, a wave is anything between −1 and 1."""

    def family(self, h: Interval, *, proof: bool) -> Moved:
        inside, shift, wide = self._moved(h)
        off = few_roundings(1.0, 8, h.lower.dtype) if proof else 0.0
        return Moved(super().family(inside, proof=proof), shift, wide, off)

    def _moved(self, h: Interval) -> tuple[Interval, Tensor, Tensor]:
        """Return the bounds moved to begin within a period of the origin, outward; by how much, and which are wide."""
        assert isinstance(self.function, Sin)
        h = Interval(torch.minimum(*h), torch.maximum(*h))
        wide = (h.upper - h.lower >= _PERIOD) | (h.magnitude > FURTHEST)
        lower, upper = h.lower.masked_fill(wide, 0.0), h.upper.masked_fill(wide, 0.0)
        shift = ((lower - self.function.origin) / _PERIOD).detach().floor() * _PERIOD
        pad = few_roundings(1.0, 8, lower.dtype) * (lower.abs() + upper.abs() + shift.abs())
        return Interval(lower - shift - pad, upper - shift + pad), shift, wide

    def range(self, h: Interval) -> Interval:
        inside, _, wide = self._moved(h)
        lower, upper = super().range(inside)
        return Interval(lower.masked_fill(wide, -1.0), upper.masked_fill(wide, 1.0))

    def missed(self, h: Interval) -> tuple[Tensor, Tensor]:
        inside, _, wide = self._moved(h)
        below, above = super().missed(inside)
        return below.masked_fill(wide, 2.0), above.masked_fill(wide, 2.0)
