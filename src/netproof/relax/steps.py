"""A step, floor and rounding: constant between jumps of 1, and sound at the jump.

On bounds [l, u] let g rise from a to b, the first jump being at p and the last at q. Where a = b it is constant. With
one jump its hull is a parallelogram: between the constant a and the line through (q, a) and (u, b) below, between
the line through (l, a) and (p, b) and the constant b above. With more jumps it lies between a and b, and between the
lines of slope 1 through the feet and through the heads of the jumps. t mixes two lines on either side.

At a jump itself Step and Floor have the upper value, so what is left of the jump is open: bounds that end at a jump
are no constant. They are split a hair before it, once, and the hair is not split any further.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.numerics import few_roundings, with_vanishing
from netproof.relax.lines import Line, Lines, Mix, One
from netproof.relax.relaxation import THIN, Relaxation

STEEPEST = 2.0**16  # of lines through the foot and the head of a jump: rounding a slope costs its size times |h|


class StairsRelaxation(Relaxation):
    """What is common to them: all is said by the values at both ends and by where the jumps between are."""

    @abstractmethod
    def first(self, lower: Tensor) -> Tensor:
        """Return the least value that g has or comes from at the lower end."""

    @abstractmethod
    def last(self, upper: Tensor) -> Tensor:
        """Return the largest value that g has at the upper end."""

    @abstractmethod
    def jump_to(self, value: Tensor) -> Tensor:
        """Return where g jumps to a value."""

    def _ends(self, h: Interval) -> Interval:
        a = self.first(h.lower)
        return Interval(a, torch.maximum(a, self.last(h.upper)))

    def linear_on(self, h: Interval) -> Tensor:
        a, b = self._ends(h)
        return a == b

    def family(self, h: Interval, *, proof: bool) -> Mix:
        a, b = self._ends(h)
        linear, one = a == b, b - a == 1
        flat, level = torch.zeros_like(a), torch.ones_like(a)
        first, last = (torch.where(linear, h.lower, self.jump_to(value)) for value in (a + 1, b))

        def through(x: Tensor, y: Tensor, slope: Tensor, outward: float) -> Line:
            """Return the line through (x, y), or one a hair outside; where g is constant, that."""
            intercept = y - slope * x
            if proof:
                slack = with_vanishing(few_roundings(y.abs() + 2.0 * (slope * x).abs(), 8, a.dtype))
                intercept = torch.where(slope == 0, intercept, intercept + outward * slack)
            return Line(torch.where(linear, flat, slope), torch.where(linear, a, intercept))

        low_rise = torch.where(one, _slope(h.upper - last), level)
        high_rise = torch.where(one, _slope(first - h.lower), level)
        lower = through(first, a, flat, -1.0), through(first, a, low_rise, -1.0)
        upper = through(last, b, high_rise, 1.0), through(last, b, flat, 1.0)
        return Mix(lower, upper, h.magnitude if proof else None)

    def initial(self, h: Interval) -> Tensor:
        return torch.full_like(h.lower, 0.5)

    def range(self, h: Interval) -> Interval:
        return self._ends(h)

    def steepest(self, h: Interval) -> Tensor:
        return torch.full_like(h.lower, STEEPEST)

    def split_point(self, h: Interval) -> Tensor:
        """Return the jump nearest to the middle; one at an end is left alone, with a hair beside it."""
        a, b = self._ends(h)
        jump = self.jump_to((a + 1 + b).div(2, rounding_mode="floor"))
        low, high = (end + side * (THIN / 2) * (1.0 + end.abs()) for end, side in zip(h, (1.0, -1.0), strict=True))
        beside = torch.where(jump <= h.lower, low, high)
        middle = h.lower / 2 + h.upper / 2
        point = torch.where((jump > h.lower) & (jump < h.upper), jump, beside)
        return torch.where((point > h.lower) & (point < h.upper), point, middle)


def _slope(run: Tensor) -> Tensor:
    """Return a slope of at most 1 / run, and at most the steepest."""
    least = 1.0 / STEEPEST
    return torch.where(run > least, (1.0 - 2.0**-20) / run.clamp(min=least), torch.full_like(run, STEEPEST))


@dataclass(frozen=True)
class WithinRelaxation(Relaxation):
    """One line, x itself; where the bounds leave the numbers it is between, nothing is known.

    Bounds that were rounded to float32 may reach a hair beyond the whole set's: that no value is there, these say.
    """

    least: float
    most: float
    undefined = "its argument may be beyond the integers of its type, or too large for a float to hold them"

    def linear_on(self, h: Interval) -> Tensor:
        hair = [0.25 + abs(end) * 2.0**-10 for end in (self.least, self.most)]
        return (h.lower >= self.least - hair[0]) & (h.upper <= self.most + hair[1])

    def family(self, h: Interval, *, proof: bool) -> One:
        inside = self.linear_on(h)
        slope, beyond = inside.to(h.lower.dtype), torch.where(inside, 0.0, torch.inf).to(h.lower.dtype)
        return One(Lines(slope, slope, beyond, -beyond))

    def initial(self, h: Interval) -> Tensor:
        return torch.zeros_like(h.lower)

    def range(self, h: Interval) -> Interval:
        inside = (h.lower >= self.least) & (h.upper <= self.most)
        return Interval(torch.where(inside, h.lower, -torch.inf), torch.where(inside, h.upper, torch.inf))

    def steepest(self, h: Interval) -> Tensor:
        return torch.ones_like(h.lower)


@dataclass(frozen=True)
class StepRelaxation(StairsRelaxation):
    """1 where h >= 0, and 0 below."""

    def first(self, lower: Tensor) -> Tensor:
        return (lower >= 0).to(lower.dtype)

    def last(self, upper: Tensor) -> Tensor:
        return (upper >= 0).to(upper.dtype)

    def jump_to(self, value: Tensor) -> Tensor:
        return torch.zeros_like(value)


@dataclass(frozen=True)
class FloorRelaxation(StairsRelaxation):
    """The largest integer not above h."""

    def first(self, lower: Tensor) -> Tensor:
        return lower.floor()

    def last(self, upper: Tensor) -> Tensor:
        return upper.floor()

    def jump_to(self, value: Tensor) -> Tensor:
        return value


@dataclass(frozen=True)
class RoundRelaxation(StairsRelaxation):
    """The integer nearest to h; at a jump it may have either value."""

    def first(self, lower: Tensor) -> Tensor:
        below = lower.floor()
        return torch.where(lower - below > 0.5, below + 1, below)

    def last(self, upper: Tensor) -> Tensor:
        above = upper.ceil()
        return torch.where(above - upper > 0.5, above - 1, above)

    def jump_to(self, value: Tensor) -> Tensor:
        return value - 0.5
