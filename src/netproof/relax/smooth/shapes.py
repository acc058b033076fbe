"""The shape of every smooth function: where it is convex and where it is concave."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from netproof.model.nonlinear.smooth import Exp, Log, Reciprocal, Sigmoid, Smooth, Sqrt, Square, Tanh
from netproof.model.nonlinear.smooth.powers import STEEP
from netproof.relax.smooth.shape import Region, Shape, Touching

_SHAPES: dict[type[Smooth], Callable[[Any], Shape]] = {}
_EVERYWHERE = Region()
CONVEX = Shape(below=(_EVERYWHERE,))
CONCAVE = Shape(above=(_EVERYWHERE,))


@lru_cache(maxsize=256)
def shape_of(function: Smooth) -> Shape:
    """Return the shape of a function."""
    return _SHAPES[type(function)](function)


def smooth_types() -> tuple[type[Smooth], ...]:
    """Return every function that has a shape."""
    return tuple(_SHAPES)


def bent_once(function: Smooth, at: float = 0.0) -> Shape:
    """Return the shape of a function that is convex up to a point and concave from there."""
    below = Region(high=at, right=Touching(function, (-float("inf"), at), 1.0, 1.0))
    above = Region(low=at, left=Touching(function, (at, float("inf")), -1.0, -1.0))
    return Shape((below,), (above,))


_SHAPES[Exp] = lambda g: CONVEX
_SHAPES[Log] = lambda g: CONCAVE
_SHAPES[Square] = lambda g: CONVEX
_SHAPES[Sqrt] = lambda g: Shape(above=(Region(least=STEEP),))
_SHAPES[Reciprocal] = lambda g: Shape((Region(low=0.0),), (Region(high=0.0),))
_SHAPES[Sigmoid] = _SHAPES[Tanh] = bent_once
