"""Operators that are neither affine nor a ReLU: each lies between two planes, and that is all that a pass back uses.

**The lemma.** Let z = g(h), entry by entry, where h is one number or several, and let s, c, t, d be numbers such that

    s·h + c <= g(h) <= t·h + d    wherever the bounds of h's nodes hold.

Then a·g(h) >= a·(s·h + c) where a >= 0, and a·g(h) >= a·(t·h + d) where a <= 0. An operator may take any slopes s and
t. Its c must not be above the least value of g(h) − s·h, its d not below the largest value of g(h) − t·h.

**Curves.** Let g be a function of one number, convex up to a bend m and concave behind it. Let l <= h <= u, and let s
be any slope. Then f(h) = g(h) − s·h is convex where g is, and concave where g is.

    Where f is concave, from m to u, no value is below the smaller one of those at the ends.
    Where f is convex, from l to m, no value is below the tangent at any point of that part, and so none is below the
    smaller one of the tangent's values at the ends.

c is the least of these four numbers; one of the parts may be missing. No minimum has to be found: the point only
decides how good c is. What is above g is −(what is below −g), and h → −g(−h) is convex up to −m: one routine does both.

A curve gives bounds of g and of g' at a float, which pay for all of their roundings (`at`). The tangent at t is
g(t) + g'(t)·(h − t). At the left end h − t <= 0, and the largest g'(t) counts; at the right end the least does.

Charge: each of the four numbers is a sum of three terms, with three roundings in a term at most, and two of the sums.
So it is off by less than 8·u·Σ|terms|. Twice as much is taken away, and 2^-700 for underflow.

**Slopes.** All are sound, and these are good. Where g is concave on all of [l, u]: the chord. Where it is convex: the
tangent in the middle, which cuts off the least area. Where it is both: the line through (u, g(u)) that touches the
convex part, at a t with g(u) − g(t) = g'(t)·(u − t); but the tangent in the middle if that lies before t, and the chord
where no such t is in [l, m].
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npcheck.bound import UNDERFLOW, UNIT
from npcheck.network import Nonlinear, Plane, Planes
from npcheck.statement import Array

Pair = tuple[Array, Array]  # of bounds
At = Callable[[Array], "Enclosure"]

HALVINGS = 16  # of the part on which a line may touch
ENTRIES = 1 << 14  # whose lines are computed at once: more need memory and are no faster


def below(x: Array) -> Array:
    """Return less than a number that up to three roundings made, none of them of a difference."""
    return np.nextafter(x - 4.0 * UNIT * np.abs(x), -np.inf)


def above(x: Array) -> Array:
    """Return more than such a number."""
    return np.nextafter(x + 4.0 * UNIT * np.abs(x), np.inf)


@dataclass(frozen=True)
class Enclosure:
    """What is known of a function at a point."""

    value: Pair
    slope: Pair  # of its derivative

    @property
    def guess(self) -> Pair:
        """Return a value and a slope that no proof rests on."""
        return 0.5 * (self.value[0] + self.value[1]), 0.5 * (self.slope[0] + self.slope[1])

    def mirrored(self) -> Enclosure:
        """Return what is known of h → −g(−h) at −h."""
        return Enclosure((-self.value[1], -self.value[0]), self.slope)


class Curve(Nonlinear):
    """A function of one number: convex up to `bend`, then concave. It increases, or has an `interval` that differs."""

    operands = 1
    is_monotone = True
    bend: float = np.inf
    keeps_order = False  # whether it is defined everywhere, and increases strictly

    @abstractmethod
    def at(self, x: Array) -> Enclosure:
        """Return bounds of the function and of its derivative at floats; an infinite one is the limit."""

    def is_defined(self, low: Array, high: Array) -> NDArray[np.bool_]:
        """Say where the function is defined on the whole of [low, high]."""
        return np.ones(np.broadcast_shapes(low.shape, high.shape), dtype=np.bool_)

    def bends(self, low: Array, high: Array) -> Array:
        """Return where it bends, for each [low, high] on which it is defined."""
        return np.full(np.broadcast_shapes(low.shape, high.shape), self.bend)

    def interval(self, lows: Sequence[Array], highs: Sequence[Array]) -> Pair:
        (low,), (high,) = lows, highs
        known = self.is_defined(low, high)
        least, most = self.at(low).value[0], self.at(high).value[1]
        return np.where(known, least, -np.inf), np.where(known, most, np.inf)

    def near(self, values: Sequence[Array]) -> Array:
        return self.at(values[0]).guess[0]

    def planes(self, lows: Sequence[Array], highs: Sequence[Array]) -> Planes:
        low, high = np.broadcast_arrays(lows[0], highs[0])
        floor, under, roof, over = (np.empty(low.shape) for _ in range(4))
        width = max(1, ENTRIES // len(low))
        for begin in range(0, low.shape[1], width):
            some = np.s_[:, begin : begin + width]
            floor[some], under[some], roof[some], over[some] = self._lines(low[some], high[some])
        return Planes(Plane((floor,), under), Plane((roof,), over))

    def _lines(self, low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
        """Return slope and constant of the line below, and of the line above."""
        least, most = self.interval([low], [high])
        lined = np.isfinite(low) & np.isfinite(high) & (low <= high) & self.is_defined(low, high)
        left, right = np.where(lined, low, 1.0), np.where(lined, high, 1.0)  # 1: defined everywhere
        bend = self.bends(left, right)
        floor, under = _line_below(self.at, left, right, bend)
        roof, over = _line_below(lambda x: self.at(-x).mirrored(), -right, -left, -bend)
        level = np.zeros_like(left)
        return (
            np.where(lined, floor, level),
            np.where(lined, under, least),
            np.where(lined, roof, level),
            np.where(lined, -over, most),
        )


def _line_below(at: At, low: Array, high: Array, bend: Array) -> Pair:
    """Return s and c with s·h + c <= g(h) for low <= h <= high, where g is convex up to a bend and then concave."""
    convex, concave = low < bend, high > bend
    ends = at(low), at(high)
    inner = np.clip(bend, low, high)  # where the convex part ends, and the concave part begins
    slope, touch = _slopes(at, low, high, bend, ends)
    touch = np.clip(touch, low, inner)
    tangent = at(touch)
    level = np.zeros_like(low)
    terms = [
        (concave, at(inner).value[0], level, inner),
        (concave, ends[1].value[0], level, high),
        (convex, tangent.value[0], tangent.slope[1] * (low - touch), low),
        (convex, tangent.value[0], tangent.slope[0] * (inner - touch), inner),
        (~convex & ~concave, ends[0].value[0], level, low),  # low = high = bend
    ]
    least = np.full(slope.shape, np.inf)
    for counts, value, rise, point in terms:
        sizes = np.abs(value) + np.abs(rise) + np.abs(slope * point)
        number = (value + rise) - slope * point - (16.0 * UNIT * sizes + UNDERFLOW)
        least = np.where(counts, np.minimum(least, number), least)
    constant = np.nextafter(least, -np.inf)
    return slope, np.where(np.isfinite(constant), constant, -np.inf)


def _slopes(at: At, low: Array, high: Array, bend: Array, ends: tuple[Enclosure, Enclosure]) -> Pair:
    """Return a good s, and where the tangent of the convex part is taken."""
    rise = ends[1].guess[0] - ends[0].guess[0]
    chord = rise / np.where(high > low, high - low, 1.0)
    middle = 0.5 * low + 0.5 * high
    touch = np.where(high <= bend, middle, low)
    mixed = (low < bend) & (bend < high)
    touches = mixed & ~_overshoots(at, low, high, ends[1].guess[0])
    if touches.any():
        first, last, end = low[touches], bend[touches], high[touches]
        value = ends[1].guess[0][touches]
        for _ in range(HALVINGS):
            between = 0.5 * first + 0.5 * last
            beyond = _overshoots(at, between, end, value)
            first, last = np.where(beyond, first, between), np.where(beyond, between, last)
        touch[touches] = np.minimum(first, middle[touches])
    slope = np.where((high <= bend) | touches, at(touch).guess[1], chord)
    return np.where(np.isfinite(slope), slope, 0.0), touch


def _overshoots(at: At, point: Array, end: Array, value: Array) -> NDArray[np.bool_]:
    """Say where the tangent at a point is above g at the end."""
    height, slope = at(point).guess
    return np.asarray(height + slope * (end - point) > value)
