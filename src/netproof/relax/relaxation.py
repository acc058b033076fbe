"""What a nonlinearity must provide so that everything else can bound, split and prove with it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.numerics import enlarged
from netproof.relax.lines import Corners, Family, Lines

_BEYOND = 2.0**-22  # of its size that a bound may grow by when it is rounded to float32, and more
THIN = 2.0**-16  # of their size: bounds that are kept in float32 are not split any further


class Relaxation(ABC):
    """A function g as bounds see it. Those of h are tensors of any one shape; lower > upper is empty.

    A function of several operands has them on the last axis but one: bounds are (*lead, arity, n), and so is what is
    said of each operand (slopes, parameters, where to split); what is said of g alone (an intercept, a range) is
    (*lead, n). Its lines are planes.
    """

    arity: int = 1  # the number of operands
    undefined: str | None = None  # why `range` may be infinite: where g is not defined; None: it is everywhere
    kink: float | None = None  # the only point to the left and right of which g is linear; None: there is none
    # How many times the largest |h| wider bounds may reach, so that lines hold and `rounding` covers them. None: g need
    # not be defined there, as 1/h is not beyond 0, so lines rest on the best bounds that are known.
    stretch: float | None = None

    @abstractmethod
    def linear_on(self, h: Interval) -> Tensor:
        """Say where g is exactly one line on the bounds; on empty ones anything that is one will do.

        There `family` must give that line, as both of its lines and without any rounding.
        """

    @abstractmethod
    def family(self, h: Interval, *, proof: bool) -> Family:
        """Return the lines on the bounds; with `proof` rounded so that they enclose g in real arithmetic.

        Each comes near g somewhere on the bounds, so that its intercept is no larger than `rounding` takes it for.
        """

    def with_free_splits(self) -> Relaxation:
        """Return the same, with a free lower slope where a split holds h on one side: hinges alone have one."""
        return self

    @abstractmethod
    def initial(self, h: Interval) -> Tensor:
        """Return the parameters to start from, in [0, 1]."""

    def parallel(self, h: Interval) -> Tensor:
        """Return the parameters whose lower line is parallel to the upper one; where there are none, `initial`."""
        return self.initial(h)

    @abstractmethod
    def range(self, h: Interval) -> Interval:
        """Return bounds of g(h), rounded outward."""

    def why_infinite(self, h: Interval) -> str | None:
        """Say why the range on these bounds, of one entry, is infinite; None where that is for no reason of g's."""
        return self.undefined

    @abstractmethod
    def steepest(self, h: Interval) -> Tensor:
        """Return a bound on |slope| of g and of all lines that `family` may give on any part of the bounds."""

    def rounding(self, h: Interval, unit: float, times: int = 1) -> Tensor:
        """Return what rounding may cost the coefficient of g(h), per unit of it, on any part of the bounds.

        `times` roundings of slope·h and one of the intercept, each of a relative size `unit`. The bounds of a
        sub-domain are those of the whole set rounded to float32, so they may reach a little beyond, but never past 0:
        where a function ends there, as a root does, what lies beyond is no matter.
        """
        below, above = (end.abs() * _BEYOND + 1e-37 for end in h)  # by end: a function may not be defined far beyond
        wide = Interval(h.lower - below, h.upper + above)
        found = self._sizes(wide, times)
        if not bool(found.isfinite().all()):
            lower = wide.lower.where(h.lower < 0, wide.lower.clamp(min=0))
            upper = wide.upper.where(h.upper > 0, wide.upper.clamp(max=0))
            found = found.where(found.isfinite(), self._sizes(Interval(lower, upper), times))
        return enlarged(unit) * found

    def _sizes(self, wide: Interval, times: int) -> Tensor:
        """Return `times` + 1 slopes times h and one value, each as large as any on the bounds; never quite 0."""
        slope = self.over_operands(self.steepest(wide) * (wide.magnitude + 1e-37))
        return (times + 1) * slope + self.range(wide).magnitude + 1e-37

    def splittable(self, h: Interval) -> Tensor:
        """Say where a split may help: g is not linear, and the bounds are not so thin that halves are no smaller."""
        unstable = self.unstable(h) if self.arity == 1 else self.unstable(h).unsqueeze(-2)
        return unstable & (h.upper - h.lower > THIN * (1.0 + h.magnitude))

    def split_point(self, h: Interval) -> Tensor:
        """Return where to split the bounds: at the kink, or in the middle."""
        return h.lower / 2 + h.upper / 2 if self.kink is None else torch.full_like(h.lower, self.kink)

    def sides(self, h: Interval) -> tuple[Tensor, Tensor]:
        """Return the slopes of g to the left and right of the split point, roughly: for choosing what to split."""
        point = self.split_point(h)
        parts = Interval(h.lower, point), Interval(point, h.upper)
        return tuple(self.family(part, proof=False).at(self.initial(part)).upper_slope for part in parts)  # type: ignore[return-value]

    def gap(self, h: Interval, lines: Lines) -> Tensor:
        """Return the largest distance between the lines on the bounds: what a lower line may lose, roughly."""
        low, high = ((lines.upper_slope - lines.lower_slope) * end for end in h)
        offset = lines.upper_intercept - (0.0 if lines.lower_intercept is None else lines.lower_intercept)
        return (self.over_operands(torch.maximum(low, high)) + offset).clamp(min=0)

    def lost(self, coef: Tensor, h: Interval, lines: Lines, *, free: bool) -> Tensor:
        """Return what the lines take from a bound with these coefficients of g(h), roughly.

        free: whether the parameters of the lines are optimised, so that some lines may lose next to nothing.
        """
        return coef.abs() * self.gap(h, lines)

    def hull(self, h: Interval) -> Corners | None:
        """Return the corners of the hull, or None: then there is no decomposition of g.

        LPs and MIPs are written for max(h, a·h) alone, see `without_lp_form`.
        """
        return None

    def loss(self, h: Interval) -> Tensor:
        """Return what the relaxation may lose on the bounds, roughly."""
        return self.gap(h, self.family(h, proof=False).at(self.initial(h)))

    def unstable(self, h: Interval) -> Tensor:
        """Say where g is not linear on the bounds, so that a split may help."""
        return ~self.linear_on(h)

    def over_operands(self, each: Tensor) -> Tensor:
        """Return the sum over the operands."""
        return each if self.arity == 1 else each.sum(-2)
