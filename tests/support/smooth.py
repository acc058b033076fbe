"""Every smooth function with values of many digits, and bounds on which it is defined."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath

from netproof.model.nonlinear.smooth import (
    Atan,
    Cos,
    Cosh,
    Elu,
    Erf,
    ErfGate,
    Exp,
    HardSwish,
    Log,
    LogSigmoid,
    Mish,
    Power,
    RealPower,
    Reciprocal,
    Sigmoid,
    Silu,
    Sin,
    Sinh,
    Smooth,
    Softplus,
    Softsign,
    Sqrt,
    Square,
    Tanh,
    TanhGate,
)

Exact = Callable[[Fraction], Fraction]
Bounds = list[tuple[float, float]]


def many_digits(function: Callable[[mpmath.mpf], mpmath.mpf]) -> Exact:
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


def negative(bounds: Bounds) -> Bounds:
    return [(-high, -low) for low, high in positive(bounds)]


def near(bounds: Bounds) -> Bounds:
    """The same, where powers and hyperbolic functions do not overflow."""
    return [(low, high) for low, high in bounds if max(abs(low), abs(high)) < 60]


def gelu_like(k: float, a: float) -> Callable[[mpmath.mpf], mpmath.mpf]:
    return lambda x: x * (1 + mpmath.tanh(mpmath.mpf(k) * (x + mpmath.mpf(a) * x**3)))


def elu(alpha: float) -> Exact:
    below = many_digits(lambda x: mpmath.mpf(alpha) * mpmath.expm1(x))
    return lambda x: x if x > 0 else below(x)


def softplus(x: mpmath.mpf) -> mpmath.mpf:
    return x + mpmath.log1p(mpmath.exp(-x)) if x > 0 else mpmath.log1p(mpmath.exp(x))


def hard_swish(x: Fraction) -> Fraction:
    return x * min(max(x + 3, Fraction(0)), Fraction(6)) / 6


FUNCTIONS: dict[str, tuple[Smooth, Exact, Callable[[Bounds], Bounds]]] = {
    "sigmoid": (Sigmoid(), many_digits(lambda x: 1 / (1 + mpmath.exp(-x))), list),
    "tanh": (Tanh(), many_digits(mpmath.tanh), list),
    "erf": (Erf(), many_digits(mpmath.erf), list),
    "atan": (Atan(), many_digits(mpmath.atan), list),
    "softsign": (Softsign(), many_digits(lambda x: x / (1 + abs(x))), list),
    "exp": (Exp(), many_digits(mpmath.exp), small),
    "log": (Log(), many_digits(mpmath.log), positive),
    "softplus": (Softplus(), many_digits(softplus), list),
    "log sigmoid": (LogSigmoid(), many_digits(lambda x: -softplus(-x)), list),
    "sinh": (Sinh(), many_digits(mpmath.sinh), near),
    "cosh": (Cosh(), many_digits(mpmath.cosh), near),
    "sqrt": (Sqrt(), many_digits(mpmath.sqrt), positive),
    "square": (Square(), many_digits(lambda x: x * x), list),
    "reciprocal": (Reciprocal(), many_digits(lambda x: 1 / x), positive),
    "reciprocal of less": (
        Reciprocal(),
        many_digits(lambda x: 1 / x),
        negative,
    ),
    "cube": (Power(3), many_digits(lambda x: x**3), near),
    "seventh power": (Power(7), many_digits(lambda x: x**7), near),
    "fourth power": (Power(4), many_digits(lambda x: x**4), near),
    "inverse cube": (Power(-3), many_digits(lambda x: x**-3), negative),
    "inverse square": (Power(-2), many_digits(lambda x: x**-2), negative),
    "power 2.5": (RealPower(2.5), many_digits(lambda x: x ** mpmath.mpf(2.5)), positive),
    "power 0.3": (RealPower(0.3), many_digits(lambda x: x ** mpmath.mpf(0.3)), positive),
    "power -0.7": (RealPower(-0.7), many_digits(lambda x: x ** mpmath.mpf(-0.7)), positive),
    "silu": (Silu(), many_digits(lambda x: x / (1 + mpmath.exp(-x))), list),
    "erf gate": (ErfGate(), many_digits(lambda x: x * (1 + mpmath.erf(x))), list),
    "tanh gate": (TanhGate(0.7978845608, 0.044715), many_digits(gelu_like(0.7978845608, 0.044715)), list),
    "mish": (Mish(), many_digits(lambda x: x * mpmath.tanh(softplus(x))), list),
    "hard swish": (HardSwish(), hard_swish, list),
    "elu": (Elu(), elu(1.0), list),
    "elu 0.3": (Elu(0.3), elu(0.3), list),
    "elu 1.67": (Elu(1.67), elu(1.67), list),
    "sin": (Sin(), many_digits(mpmath.sin), list),
    "cos": (Cos(), many_digits(mpmath.cos), list),
}
