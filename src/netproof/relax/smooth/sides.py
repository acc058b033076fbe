"""The lines on one side of a smooth function, and why they do not pass it.

With sign +1 for lines below and −1 for lines above, f = sign·g must not be passed from below by sign·line. On a region
where f is convex, f(h) >= f(d) + f'(d)(h − d) for any d in it. Outside of its regions f is concave, so that it lies
above a line wherever it does so at the ends of such a part; and those are ends of regions or of the bounds. So with
slope m the intercept may be as large as the least of f(h) − sign·m·h at both ends of the bounds, and of
f(d) − f'(d)·d + (f'(d) − sign·m)·h at both ends of every region, for one d in each; where the line is the tangent at d,
m is f'(d) and the last term nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.nonlinear.smooth import Smooth
from netproof.numerics import few_roundings, with_vanishing
from netproof.relax.lines import Line
from netproof.relax.smooth.shape import Region

_ROUNDINGS = 8  # of an intercept: two products, two sums, and what pays for them
_AWAY = 1.0 / 16  # of the way between the outermost tangents: what the middle one keeps from them, so that t moves it


class Side(ABC):
    """The lines on one side of neurons."""

    @abstractmethod
    def at(self, up: Tensor, down: Tensor) -> Line:
        """Return the lines at parameters t, given as max(2t − 1, 0) and min(2t − 1, 0)."""

    @abstractmethod
    def pull(self, up: Tensor, down: Tensor, h: Tensor) -> Tensor | float:
        """Return ∂/∂t of sign·(line at h), but for a positive factor."""

    @abstractmethod
    def best(self, h: Tensor) -> Tensor:
        """Return the value at h of the line that comes nearest to g there."""

    @abstractmethod
    def select(self, index: Tensor) -> Side:
        """Return those of some sub-domains."""


def some(t: Tensor, index: Tensor) -> Tensor:
    """Return the entries at `index` of the first axis; where all share one, that one."""
    return t if t.shape[0] == 1 else t[index]


@dataclass(frozen=True, eq=False)
class Straight(Side):
    """One line for each neuron."""

    line: Line

    def at(self, up: Tensor, down: Tensor) -> Line:
        return self.line

    def pull(self, up: Tensor, down: Tensor, h: Tensor) -> float:
        return 0.0

    def best(self, h: Tensor) -> Tensor:
        return torch.addcmul(self.line.intercept, self.line.slope, h)

    def select(self, index: Tensor) -> Straight:
        return Straight(Line(*(some(t, index) for t in self.line)))


@dataclass(frozen=True, eq=False)
class Curved(Side):
    """Tangents from `first` by `middle` to `last` along g, or one line where `fixed`."""

    function: Smooth
    first: Tensor
    middle: Tensor
    last: Tensor
    before: Tensor  # middle − first
    after: Tensor  # last − middle
    fixed: Tensor  # bool
    slope: Tensor  # of the line, where it is fixed; it passes through g at `middle`
    proof: Enclosure | None  # None: to search with

    def contact(self, up: Tensor, down: Tensor) -> Tensor:
        """Return how far along g the lines touch it."""
        along = torch.addcmul(torch.addcmul(self.middle, up, self.after), down, self.before)
        if self.proof is None and self.function.undefined is None:
            return along
        return along.maximum(self.first).minimum(self.last)  # rounding may not take it where g is not defined

    def at(self, up: Tensor, down: Tensor) -> Line:
        along = self.contact(up, down)
        point, value, slope = self.function.touch(along)
        slope = torch.where(self.fixed, self.slope, slope)
        if self.proof is not None:
            return self.proof.moved(point, value, slope)
        return Line(slope, torch.addcmul(value, slope, point, value=-1.0))

    def pull(self, up: Tensor, down: Tensor, h: Tensor) -> Tensor:
        """Return h less the contact point: past it, a steeper tangent of a convex f rises, and f'' is left out."""
        along = self.contact(up, down)
        point = self.function.touch(along)[0] if self.function.corners else along
        return (h - point).masked_fill(self.fixed, 0.0)

    def best(self, h: Tensor) -> Tensor:
        """Return that of the tangent at h, or at the nearest point that one may touch."""
        along = self.function.along(h).maximum(self.first).minimum(self.last)
        point, value, slope = self.function.touch(along)
        return torch.addcmul(value, torch.where(self.fixed, self.slope, slope), h - point)

    def select(self, index: Tensor) -> Curved:
        names = "first", "middle", "last", "before", "after", "fixed", "slope"
        parts: dict[str, Any] = {name: some(getattr(self, name), index) for name in names}
        return replace(self, **parts, proof=None if self.proof is None else self.proof.select(index))


@dataclass(frozen=True, eq=False)
class Held:
    """A region's own tangent that holds a line off where it does not touch it; nothing where the weight is inf."""

    slope: Tensor  # sign·g' at the point
    height: Tensor  # sign·(g − g'·point), less what it may be off by; inf where it is not needed
    low: Tensor  # the ends of the region within the bounds
    high: Tensor

    def select(self, index: Tensor) -> Held:
        return Held(*(some(t, index) for t in (self.slope, self.height, self.low, self.high)))


@dataclass(frozen=True, eq=False)
class Enclosure:
    """What the intercepts of a proof rest on."""

    function: Smooth
    sign: float
    lower: Tensor  # the bounds
    upper: Tensor
    at_lower: Tensor  # sign·g there, less what it may be off by
    at_upper: Tensor
    touches: Tensor  # bool: the line is the tangent at its contact point
    held: tuple[Held, ...]

    def moved(self, point: Tensor, value: Tensor, slope: Tensor) -> Line:
        """Return the line of this slope, moved until it does not pass g: the tangent at the point, or any other."""
        steep = self.sign * slope
        ends = torch.minimum(self.at_lower - steep * self.lower, self.at_upper - steep * self.upper)
        off, off_slope = self.function.noise(point)
        off = off + off_slope * torch.maximum(self.upper - point, point - self.lower)
        tangent = self.sign * value - steep * point - off
        found = torch.minimum(ends, tangent.masked_fill(~self.touches, torch.inf))
        size = torch.maximum(self.lower.abs(), self.upper.abs()) * steep.abs()
        size = size + torch.maximum(self.at_lower.abs(), self.at_upper.abs()) + off
        for held in self.held:
            rest = held.slope - steep
            least = held.height + torch.minimum(rest * held.low, rest * held.high)
            found = torch.minimum(found, least)
            size = size + torch.maximum(held.low.abs(), held.high.abs()) * held.slope.abs()
        found = found - with_vanishing(few_roundings(size + value.abs(), _ROUNDINGS, found.dtype))
        return Line(slope, self.sign * found)

    def select(self, index: Tensor) -> Enclosure:
        names = "lower", "upper", "at_lower", "at_upper", "touches"
        parts: dict[str, Any] = {name: some(getattr(self, name), index) for name in names}
        return replace(self, **parts, held=tuple(held.select(index) for held in self.held))


@dataclass(frozen=True, eq=False)
class Ends:
    """Bounds that are not empty, with g at both ends and the slope of the chord."""

    h: Interval
    at_lower: Tensor
    at_upper: Tensor
    chord: Tensor


def side(function: Smooth, regions: Sequence[Region], sign: float, ends: Ends, *, proof: bool) -> Side:
    """Return the lines on one side."""
    if not regions and not proof:
        return Straight(Line(ends.chord, torch.addcmul(ends.at_lower, ends.chord, ends.h.lower, value=-1.0)))
    lower, upper = ends.h
    first, last, touches, held = _contacts(function, regions, sign, ends, proof)
    room = (last - first) * _AWAY
    middle = function.along(lower / 2 + upper / 2).maximum(first + room).minimum(last - room)
    middle, last = (torch.where(touches, t, first) for t in (middle, last))
    enclosure = None
    if proof:
        off_lower, off_upper = (function.noise(end)[0] for end in ends.h)
        at_ends = sign * ends.at_lower - off_lower, sign * ends.at_upper - off_upper
        enclosure = Enclosure(function, sign, lower, upper, *at_ends, touches, held)
    if not regions:
        assert enclosure is not None
        return Straight(enclosure.moved(lower, ends.at_lower, ends.chord))
    return Curved(function, first, middle, last, middle - first, last - middle, ~touches, ends.chord, enclosure)


def _contacts(
    function: Smooth, regions: Sequence[Region], sign: float, ends: Ends, proof: bool
) -> tuple[Tensor, Tensor, Tensor, tuple[Held, ...]]:
    """Return between which points along g lines touch it, whether they do, and what holds those of a proof off."""
    lower, upper = (function.along(end) for end in ends.h)
    first = last = lower
    touches = torch.zeros_like(lower, dtype=torch.bool)
    held = []
    for region in regions:
        start, stop = region.contacts(lower, upper)
        here = (start <= stop) & (lower <= region.high) & (upper >= region.low) & ~touches
        first, last = torch.where(here, start, first), torch.where(here, stop, last)
        touches = touches | here
        if proof:
            held.append(_held(function, region, sign, Interval(lower, upper), here))
    return first, last, touches, tuple(held)


def _held(function: Smooth, region: Region, sign: float, along: Interval, touched: Tensor) -> Held:
    """Return the tangent at the bounds' end that the region reaches, or at its own middle; `along`: the bounds."""
    unneeded = touched | (along.lower > region.high) | (along.upper < region.low)
    low, high = (torch.where(unneeded, along.lower, end.clamp(region.low, region.high)) for end in along)
    from_low, to_high = along.lower >= region.low, along.upper <= region.high
    point = torch.where(from_low, low, torch.where(to_high, high, low / 2 + high / 2))
    x, value, slope = function.touch(point)
    low, high = (function.touch(end)[0] for end in (low, high))
    off, off_slope = function.noise(x)
    height = sign * (value - slope * x) - off - off_slope * (high - low)
    return Held(sign * slope, height.masked_fill(unneeded, torch.inf), low, high)
