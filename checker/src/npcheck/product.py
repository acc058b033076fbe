"""Products of two values that depend on the input, and squares, quotients and roots.

**The lemma for x·y.** Let l <= x <= u, m <= y <= v, and let s and t be any numbers. x·y − s·x − t·y is linear in x for
each y, and linear in y for each x. So its least value and its largest are at corners of the box, and

    s·x + t·y + c <= x·y,   c = min over the four corners of x·y − s·x − t·y,

likewise from above. Charge: a corner has three products, each rounded, and two sums: it is off by less than
4·u·(|x·y| + |s·x| + |t·y|). Twice as much is taken away, with the largest |x| and |y|, and 2^-700 for underflow.

s and t are the middles of y and x, the slopes at the middle of the box: what is lost is then at most its area / 4 on
either side, and where the box gets smaller, products that cancel each other to first order do so here too.

All functions here are computed by +, −, ·, / and √ of IEEE 754 alone, which are rounded correctly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npcheck.bound import UNDERFLOW, UNIT
from npcheck.network import Nonlinear, Plane, Planes
from npcheck.smooth import Curve, Enclosure, Pair, above, below
from npcheck.statement import Array

SMALLEST = 2.0**-400  # divisor


class Product(Nonlinear):
    """x·y, entry by entry."""

    name = "product"
    operands = 2

    def interval(self, lows: Sequence[Array], highs: Sequence[Array]) -> Pair:
        corners = [x * y for x in (lows[0], highs[0]) for y in (lows[1], highs[1])]
        least, most = np.minimum.reduce(corners), np.maximum.reduce(corners)  # NaN if one of them is
        return np.nextafter(least, -np.inf), np.nextafter(most, np.inf)

    def near(self, values: Sequence[Array]) -> Array:
        return values[0] * values[1]

    def planes(self, lows: Sequence[Array], highs: Sequence[Array]) -> Planes:
        boxed = np.isfinite(lows[0]) & np.isfinite(lows[1]) & np.isfinite(highs[0]) & np.isfinite(highs[1])
        (left, bottom), (right, top) = ([np.where(boxed, side, 0.0) for side in sides] for sides in (lows, highs))
        s, t = 0.5 * bottom + 0.5 * top, 0.5 * left + 0.5 * right
        corners = [x * y - s * x - t * y for x in (left, right) for y in (bottom, top)]
        widest, tallest = np.maximum(np.abs(left), np.abs(right)), np.maximum(np.abs(bottom), np.abs(top))
        away = 8.0 * UNIT * (widest * tallest + np.abs(s) * widest + np.abs(t) * tallest) + UNDERFLOW
        least = np.nextafter(np.minimum.reduce(corners) - away, -np.inf)
        most = np.nextafter(np.maximum.reduce(corners) + away, np.inf)
        return Planes(
            Plane((s, t), np.where(boxed & np.isfinite(least), least, -np.inf)),
            Plane((s, t), np.where(boxed & np.isfinite(most), most, np.inf)),
        )


class Square(Curve):
    """x²: convex."""

    name = "product"
    is_monotone = False

    def interval(self, lows: Sequence[Array], highs: Sequence[Array]) -> Pair:
        (low,), (high,) = lows, highs
        nearest = np.where((low <= 0.0) & (high >= 0.0), 0.0, np.minimum(np.abs(low), np.abs(high)))
        farthest = np.maximum(np.abs(low), np.abs(high))
        least = np.maximum(np.nextafter(nearest * nearest, -np.inf), 0.0)
        return least, np.nextafter(farthest * farthest, np.inf)

    def at(self, x: Array) -> Enclosure:
        square = x * x
        return Enclosure((np.nextafter(square, -np.inf), np.nextafter(square, np.inf)), (2.0 * x, 2.0 * x))


class Reciprocal(Curve):
    """1 / x, where x has one sign and 1 / x² does not overflow: it falls, convex where x > 0, concave where x < 0."""

    name = "quotient"

    def is_defined(self, low: Array, high: Array) -> NDArray[np.bool_]:
        return np.asarray((low >= SMALLEST) | (high <= -SMALLEST))

    def bends(self, low: Array, high: Array) -> Array:
        return np.where(low > 0.0, np.inf, -np.inf)

    def interval(self, lows: Sequence[Array], highs: Sequence[Array]) -> Pair:
        (low,), (high,) = lows, highs
        known = self.is_defined(low, high)
        return np.where(known, below(1.0 / high), -np.inf), np.where(known, above(1.0 / low), np.inf)

    def at(self, x: Array) -> Enclosure:
        value = 1.0 / x
        slope = -1.0 / (x * x)
        return Enclosure((below(value), above(value)), (below(slope), above(slope)))


class Root(Curve):
    """√x, where x >= 0: concave."""

    name = "root"
    bend = -np.inf

    def is_defined(self, low: Array, high: Array) -> NDArray[np.bool_]:
        return np.asarray(low >= 0.0)

    def at(self, x: Array) -> Enclosure:
        value = np.sqrt(x)
        slope = 0.5 / value
        return Enclosure((below(value), above(value)), (below(slope), above(slope)))
