"""Smooth functions between their lines, against values of many digits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest

from netproof.model.nonlinear.smooth import Exp, Log, Reciprocal, Sigmoid, Smooth, Sqrt, Square, Tanh
from netproof.relax import relaxation_of
from support.conformance import Conformance, usual_bounds

Bounds = list[tuple[float, float]]


def many_digits(function: Callable[[mpmath.mpf], mpmath.mpf]) -> Callable[[Fraction], Fraction]:
    """Make an exact-looking function of one that is right to 60 digits: far below what a line is moved by."""

    def g(x: Fraction) -> Fraction:
        with mpmath.workdps(80):
            found = function(mpmath.mpf(x.numerator) / x.denominator)
            sign, mantissa, exponent, _ = found._mpf_
            value = Fraction(int(mantissa)) * Fraction(2) ** exponent
            return -value if sign else value

    return g


def positive(bounds: Bounds) -> Bounds:
    return [(abs(low) + 1e-3, abs(low) + 1e-3 + (high - low)) for low, high in bounds]


def small(bounds: Bounds) -> Bounds:
    """The same, where exp does not overflow."""
    return [(low, high) for low, high in bounds if high < 60]


FUNCTIONS: list[tuple[Smooth, Callable[[mpmath.mpf], mpmath.mpf], Callable[[Bounds], Bounds]]] = [
    (Sigmoid(), lambda x: 1 / (1 + mpmath.exp(-x)), list),
    (Tanh(), mpmath.tanh, list),
    (Exp(), mpmath.exp, small),
    (Log(), mpmath.log, positive),
    (Sqrt(), mpmath.sqrt, positive),
    (Square(), lambda x: x * x, list),
    (Reciprocal(), lambda x: 1 / x, positive),
    (Reciprocal(), lambda x: 1 / x, lambda bounds: [(-high, -low) for low, high in positive(bounds)]),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("op", "exact", "bounds"), FUNCTIONS, ids=lambda p: type(p).__name__)
def test_lines_enclose(op: Smooth, exact: Callable, bounds: Callable[[Bounds], Bounds], seed: int) -> None:
    Conformance(relaxation_of(op), many_digits(exact), bounds(usual_bounds(seed))).check()
