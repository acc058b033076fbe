"""The shape of every smooth function: where it is convex and where it is concave."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from netproof.model.nonlinear.smooth import (
    Atan,
    Cos,
    Cosh,
    Elu,
    Erf,
    ErfGate,
    Exp,
    HardSwish,
    InverseRoot,
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
from netproof.model.nonlinear.smooth.powers import STEEP
from netproof.numerics import HUGE
from netproof.relax.smooth.shape import FAR, Region, Shape, Touching

_INFINITE = math.inf
_EVERYWHERE = Region()
_BELOW, _ABOVE = 1.0, -1.0


def region(function: Smooth, low: float, high: float, sign: float, far: float = FAR) -> Region:
    """Return the region between two points along a function, with the limits that ends outside set."""
    left = None if low == -_INFINITE else Touching(function, (low, high), -1.0, sign, far)
    right = None if high == _INFINITE else Touching(function, (low, high), 1.0, sign, far)
    return Region(low, high, left, right)


def _convex(function: Smooth) -> Shape:
    return Shape(below=(_EVERYWHERE,))


def _concave(function: Smooth) -> Shape:
    return Shape(above=(_EVERYWHERE,))


def _convex_then_concave(function: Smooth) -> Shape:
    below = region(function, -_INFINITE, 0.0, _BELOW)
    return Shape((below,), (region(function, 0.0, _INFINITE, _ABOVE),))


def _concave_then_convex(function: Smooth, far: float = FAR) -> Shape:
    below = region(function, 0.0, _INFINITE, _BELOW, far)
    return Shape((below,), (region(function, -_INFINITE, 0.0, _ABOVE, far),))


def _convex_between(function: Smooth) -> Shape:
    """Return the shape of a gate: where it is concave on both sides of its bends, a line above touches one of them."""
    low, high = function.bends
    above = region(function, high, _INFINITE, _ABOVE), region(function, -_INFINITE, low, _ABOVE)
    return Shape((region(function, low, high, _BELOW),), above)


def _hard_swish(function: HardSwish) -> Shape:
    """Return its shape: convex between the corners, and the corners themselves, which are concave."""
    (low, _, _), (high, _, _) = function.corners
    above = region(function, high + 1.0, high + 2.0, _ABOVE), region(function, low, low + 1.0, _ABOVE)
    return Shape((region(function, low + 1.0, high + 1.0, _BELOW),), above)


def _elu(function: Elu) -> Shape:
    """Return its shape: convex, but for a corner at 0 that is concave where it is steeper on its left."""
    if function.alpha <= 1.0:  # right of 0 all tangents are the same, so none touches there
        return Shape(below=(Region(most=float(len(function.corners))),))
    return Shape((region(function, -_INFINITE, 0.0, _BELOW),), (region(function, 0.0, 1.0, _ABOVE),))


def _power(function: Power) -> Shape:
    if function.exponent > 0:
        even = function.exponent % 2 == 0
        return _convex(function) if even else _concave_then_convex(function, HUGE ** (1.0 / (function.exponent + 1)))
    return _on_either_side(function, same=function.exponent % 2 == 0)


def _on_either_side(function: Smooth, same: bool = False) -> Shape:
    """Return the shape of a function with a pole at 0, convex to its right, to its left too or concave there."""
    right, left = Region(low=0.0), Region(high=0.0)
    return Shape((right, left)) if same else Shape((right,), (left,))


def _real_power(function: RealPower) -> Shape:
    return _root(function) if 0.0 < function.exponent < 1.0 else _convex(function)


def _root(function: Smooth) -> Shape:
    return Shape(above=(Region(least=STEEP),))


def _wave(function: Sin) -> Shape:
    """Return the shape over two periods from the origin: convex, concave, convex, concave."""
    start, far = function.origin, 4.0 * math.pi
    parts = [(start + k * math.pi, start + (k + 1) * math.pi) for k in range(4)]
    below = tuple(region(function, *part, _BELOW, far) for part in parts[0::2])
    return Shape(below, tuple(region(function, *part, _ABOVE, far) for part in parts[1::2]))


_SHAPES: dict[type[Smooth], Callable[[Any], Shape]] = {
    Exp: _convex,
    Softplus: _convex,
    Cosh: _convex,
    Square: _convex,
    Log: _concave,
    LogSigmoid: _concave,
    Sqrt: _root,
    InverseRoot: _convex,
    Reciprocal: _on_either_side,
    Power: _power,
    RealPower: _real_power,
    Sigmoid: _convex_then_concave,
    Tanh: _convex_then_concave,
    Erf: _convex_then_concave,
    Atan: _convex_then_concave,
    Softsign: _convex_then_concave,
    Sinh: lambda g: _concave_then_convex(g, math.log(HUGE)),
    Silu: _convex_between,
    ErfGate: _convex_between,
    TanhGate: _convex_between,
    Mish: _convex_between,
    HardSwish: _hard_swish,
    Elu: _elu,
    Sin: _wave,
    Cos: _wave,
}


@lru_cache(maxsize=256)
def shape_of(function: Smooth) -> Shape:
    """Return the shape of a function."""
    return _SHAPES[type(function)](function)


def smooth_types() -> tuple[type[Smooth], ...]:
    """Return every function that has a shape."""
    return tuple(_SHAPES)
