"""Bounds of e^x and log x, and the curves that are made of them, without a mathematical library that must be believed.

**e^x** for |x| <= 700. With n the whole number nearest to x / ln 2 and r = x − n·ln 2, e^x = 2^n·e^r and |r| < 0.35.

    r    is computed as (x − n·H) − n·L, where H + L is ln 2 to within 2^-85. H has 33 bits and |n| <= 1011, so n·H is
         exact; both subtractions give less than 0.36 and are rounded once, n·L is below 2^-22 and rounded once, and
         n·2^-85 is below 2^-74: r is off by less than u = 2^-53, which is a factor within e^(±u).
    e^r  is Σ r^k / k! for k <= 14, by Horner's rule. What is left out is below 0.35^15 / 15!·e^0.35 < 2^-61. A
         coefficient is off by u, and Horner's 28 operations by γ_28 Σ |r|^k / k!: together 30·u·e^0.35 at most.
    2^n  scales exactly: the sum is between 0.7 and 1.5, so nothing underflows or overflows.

Since e^r > 0.7, all of this is below (u + 2^-61/0.7 + 30·u·e^0.35/0.7) < 64·u of e^x. The charge is twice as much,
2^-46 of what was computed, which pays for the rounding of the last product too. Beyond ±700 only e^x > 0 and its growth
are used.

**log y** is not computed but tried: t is whatever numpy says, and t − η counts as a lower bound if e^(t − η) <= y by
the bounds above, t + η as an upper one if e^(t + η) >= y; otherwise there is none.
"""

from __future__ import annotations

import math

import numpy as np

from npcheck.smooth import Curve, Enclosure, Pair, above, below
from npcheck.statement import Array

LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
FARTHEST = 700.0
DEGREE = 14
CHARGE = 2.0**-46
COEFFICIENTS = tuple(1.0 / math.factorial(k) for k in range(DEGREE + 1))
SPACE = 2.0**-44  # η, as a share of 1 + |log y|


def exponential(x: Array) -> Pair:
    """Return bounds of e^x; infinite arguments are fine."""
    near = np.clip(x, -FARTHEST, FARTHEST)
    n = np.rint(near * (1.0 / math.log(2.0)))  # any n within 0.51 of x / ln 2 would do
    r = (near - n * LN2_HIGH) - n * LN2_LOW
    total = np.full_like(r, COEFFICIENTS[DEGREE])
    for coefficient in reversed(COEFFICIENTS[:DEGREE]):
        total *= r
        total += coefficient
    value = np.ldexp(total, n.astype(np.int64))
    low, high = value * (1.0 - CHARGE), value * (1.0 + CHARGE)
    return np.where(x < -FARTHEST, 0.0, low), np.where(x > FARTHEST, np.inf, high)


def logarithm(y: Array) -> Pair:
    """Return bounds of log y; infinite where there are none."""
    near = np.log(y)
    away = SPACE * (1.0 + np.abs(near))
    low, high = near - away, near + away
    return np.where(exponential(low)[1] <= y, low, -np.inf), np.where(exponential(high)[0] >= y, high, np.inf)


class Exp(Curve):
    """e^x: convex, and its own derivative."""

    name = "exp"
    keeps_order = True

    def at(self, x: Array) -> Enclosure:
        value = exponential(x)
        return Enclosure(value, value)


class Sigmoid(Curve):
    """σ(x) = 1 / (1 + e^−x): convex up to 0, then concave.

    With e = e^−|x|, which is at most 1, σ is 1 / (1 + e) to the right of 0 and e / (1 + e) to the left, and
    σ' = e / (1 + e)². The first falls with e and the others rise, so bounds of e give bounds of all three.
    """

    name = "sigmoid"
    keeps_order = True
    bend = 0.0

    def at(self, x: Array) -> Enclosure:
        low, high = exponential(-np.abs(x))
        high = np.minimum(high, 1.0)
        right = x >= 0.0
        least = np.where(right, below(1.0 / (1.0 + high)), below(low / (1.0 + low)))
        most = np.where(right, above(1.0 / (1.0 + low)), above(high / (1.0 + high)))
        steepest = np.minimum(above(high / ((1.0 + high) * (1.0 + high))), 0.25)
        slope = below(low / ((1.0 + low) * (1.0 + low))), steepest
        return Enclosure((np.maximum(least, 0.0), np.minimum(most, 1.0)), slope)


class Softplus(Curve):
    """log(1 + e^x) = max(x, 0) + log(1 + e^−|x|): convex, and its derivative is σ."""

    name = "softplus"
    keeps_order = True

    def at(self, x: Array) -> Enclosure:
        low, high = exponential(-np.abs(x))
        least, most = logarithm(below(1.0 + low))[0], logarithm(above(1.0 + high))[1]
        ramp = np.maximum(x, 0.0)
        value = below(ramp + np.maximum(least, 0.0)), above(ramp + most)
        return Enclosure(value, Sigmoid().at(x).value)


class Log(Curve):
    """log x, where x > 0: concave."""

    name = "log"
    bend = -np.inf

    def is_defined(self, low: Array, high: Array) -> np.ndarray:
        return np.asarray(low > 0.0)

    def at(self, x: Array) -> Enclosure:
        return Enclosure(logarithm(x), (below(1.0 / x), above(1.0 / x)))
