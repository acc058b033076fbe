"""A smooth function of one variable as bounds see it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.nonlinear.smooth.base import TOO_LARGE, Smooth
from netproof.numerics import HUGE, UNIT, enlarged
from netproof.relax.lines import Family, Line, Lines
from netproof.relax.relaxation import Relaxation
from netproof.relax.smooth.shape import Shape
from netproof.relax.smooth.sides import Ends, Side, side, some

_SHARES = (0.25, 0.5, 0.75)  # of bounds: where g is compared with its lines
_SPLITS = (0.5, 0.3, 0.7)  # of bounds: where they may be split
_POINT = 1e-30  # a width that counts as none
_BETTER = 0.95  # of what the middle misses, at most, where another point is taken instead


@dataclass(frozen=True, eq=False)
class Tangents(Family):
    """Lines below and above that touch the function at points that t moves, from the first to the last."""

    lower: Side
    upper: Side

    def at(self, t: Tensor) -> Lines:
        up, down = _halves(t)
        lower, upper = self.lower.at(up, down), self.upper.at(up, down)
        return Lines(lower.slope, upper.slope, upper.intercept, lower.intercept)

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        up, down = _halves(t)
        out.copy_(coef.clamp(min=0) * self.lower.pull(up, down, h) - coef.clamp(max=0) * self.upper.pull(up, down, h))

    def select(self, index: Tensor) -> Tangents:
        return Tangents(self.lower.select(index), self.upper.select(index))


@dataclass(frozen=True, eq=False)
class Partly(Family):
    """Another family, but one exact line where the function is one."""

    curved: Tangents
    linear: Tensor  # bool
    line: Line

    def at(self, t: Tensor) -> Lines:
        found = self.curved.at(t)
        assert found.lower_intercept is not None
        below, above = (torch.where(self.linear, self.line.slope, own) for own in found[:2])
        intercepts = found.upper_intercept, found.lower_intercept
        lift, drop = (torch.where(self.linear, self.line.intercept, own) for own in intercepts)
        return Lines(below, above, lift, drop)

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        self.curved.gradient(t, coef, h, out)

    def select(self, index: Tensor) -> Partly:
        line = Line(*(some(part, index) for part in self.line))
        return Partly(self.curved.select(index), some(self.linear, index), line)


def _halves(t: Tensor) -> tuple[Tensor, Tensor]:
    centred = 2.0 * t - 1.0
    return centred.clamp(min=0), centred.clamp(max=0)


@dataclass(frozen=True)
class SmoothRelaxation(Relaxation):
    """A function and its shape. Every slope has a sound line, so t moves the point where it touches."""

    function: Smooth
    shape: Shape

    @property
    def undefined(self) -> str | None:  # type: ignore[override]
        return self.function.undefined

    def why_infinite(self, h: Interval) -> str | None:
        return TOO_LARGE if bool(self.function.exists(*h).all()) else self.function.undefined

    def linear_on(self, h: Interval) -> Tensor:
        linear = torch.zeros_like(h.lower, dtype=torch.bool)
        for low, high, _, _ in self.function.straight:
            linear = linear | ((h.lower >= low) & (h.upper <= high))
        return linear

    def family(self, h: Interval, *, proof: bool) -> Family:
        found = self._tangents(h, proof=proof)
        return Partly(found, *self._straight(h)) if self.function.straight else found

    def _straight(self, h: Interval) -> tuple[Tensor, Line]:
        """Say where g is one line on the bounds, and which."""
        slope, intercept = torch.zeros_like(h.lower), torch.zeros_like(h.lower)
        for low, high, steep, offset in self.function.straight:
            here = (h.lower >= low) & (h.upper <= high)
            slope, intercept = slope.masked_fill(here, steep), intercept.masked_fill(here, offset)
        return self.linear_on(h), Line(slope, intercept)

    def _ends(self, h: Interval, *, proof: bool) -> Ends:
        """Return the ends of the bounds, of empty ones the other way round; in a proof a chord is no steeper than g."""
        h = Interval(torch.minimum(*h), torch.maximum(*h))
        at_lower, at_upper = (self.function.value(end) for end in h)
        width = (h.upper - h.lower).maximum(h.magnitude * UNIT[h.lower.dtype] + _POINT)
        chord = (at_upper - at_lower) / width
        if proof:
            steepest = self.function.steepest(*h)
            chord = chord.clamp(-steepest, steepest)
        return Ends(h, at_lower, at_upper, chord)

    def _tangents(self, h: Interval, *, proof: bool = False) -> Tangents:
        ends = self._ends(h, proof=proof)
        below = side(self.function, self.shape.below, 1.0, ends, proof=proof)
        return Tangents(below, side(self.function, self.shape.above, -1.0, ends, proof=proof))

    def missed(self, h: Interval) -> tuple[Tensor, Tensor]:
        """Return how far g is at most from the lines below and above that come nearest to it, roughly."""
        h = Interval(torch.minimum(*h), torch.maximum(*h))
        found = self._tangents(h)
        below = above = torch.zeros_like(h.lower)
        for share in _SHARES:
            x = torch.lerp(h.lower, h.upper, share)
            value = self.function.value(x)
            below = torch.maximum(below, value - found.lower.best(x))
            above = torch.maximum(above, found.upper.best(x) - value)
        linear = self.linear_on(h)
        return below.masked_fill(linear, 0.0), above.masked_fill(linear, 0.0)

    def lost(self, coef: Tensor, h: Interval, lines: Lines, *, free: bool) -> Tensor:
        """Return what lies between g and the line that a bound may choose; where it does not choose, both lines."""
        if not free:
            return super().lost(coef, h, lines, free=False)
        below, above = self.missed(h)
        return coef.clamp(min=0) * below - coef.clamp(max=0) * above

    def sides(self, h: Interval) -> tuple[Tensor, Tensor]:
        """Return the slopes of g in the middle of both halves."""
        left, right = (self.function.slope(torch.lerp(h.lower, h.upper, share)) for share in (0.25, 0.75))
        return left, right

    def split_point(self, h: Interval) -> Tensor:
        """Return the point of a few whose halves miss g by least together."""
        best = point = None
        for share in _SPLITS:
            middle = torch.lerp(h.lower, h.upper, share)
            left, right = self.missed(Interval(h.lower, middle)), self.missed(Interval(middle, h.upper))
            cost = left[0] + left[1] + right[0] + right[1]
            if best is None or point is None:
                best, point = cost, middle
            else:
                point = torch.where(cost < _BETTER * best, middle, point)
                best = torch.where(cost < _BETTER * best, cost, best)
        assert point is not None
        return point

    def initial(self, h: Interval) -> Tensor:
        """Return the tangent at the middle, or as near to it as one may be: it encloses the least area."""
        return torch.full_like(h.lower, 0.5)

    def range(self, h: Interval) -> Interval:
        """Return the extremes, at the ends or where g turns; infinite where g is not defined."""
        g = self.function
        h = Interval(torch.minimum(*h), torch.maximum(*h))
        values = [(g.value(x), g.noise(x)[0]) for x in g.places(*h, g.turns)]
        lower = torch.stack([value - off for value, off in values]).amin(0)
        upper = torch.stack([value + off for value, off in values]).amax(0)
        fine = g.defined(*h) & (g.steepest(*h) <= HUGE) & (lower > -HUGE) & (upper < HUGE)
        lower, upper = lower.clamp(min=g.least), upper.clamp(max=g.most)
        return Interval(torch.where(fine, lower, -torch.inf), torch.where(fine, upper, torch.inf))

    def steepest(self, h: Interval) -> Tensor:
        return enlarged(self.function.steepest(torch.minimum(*h), torch.maximum(*h)))
