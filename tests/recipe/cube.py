"""x³, added from outside: the op, how it is read, its lines, and one registration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.onnx.context import Context, Value, converts
from netproof.model.ops import Nonlinear
from netproof.numerics import INFLATE, TINY, UNDERFLOW, UNIT, gamma
from netproof.relax import Line, Mix, Relaxation, register


@dataclass(frozen=True, eq=False)
class Cube(Nonlinear):
    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x * x * x

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        return coef * (3.0 * x * x)

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        most = x.abs() + e
        return (3.0 * most * most * e + gamma(6, dtype) * most * most * most + TINY[dtype]) * INFLATE


@converts("Pow")
def pow_three(c: Context) -> Value:
    exponent = c.constant(1)
    if exponent.value.size != 1 or float(exponent.value.item()) != 3.0:
        c.refuse("its exponent is not 3")
    return c.emit(Cube(), c.node(0))


class CubeRelaxation(Relaxation):
    """Any slope s has a lower line: its intercept is the least of h³ − s·h, at an end or at √(s/3). t mixes two."""

    def linear_on(self, h: Interval) -> Tensor:
        return torch.zeros_like(h.lower, dtype=torch.bool)

    def family(self, h: Interval, *, proof: bool) -> Mix:
        mirrored = Interval(-h.upper, -h.lower)
        lower = tuple(Line(s, _intercept(h, s, proof)) for s in _slopes(h))
        upper = tuple(Line(s, -_intercept(mirrored, s, proof)) for s in _slopes(mirrored))
        return Mix(lower, upper, h.magnitude if proof else None)

    def initial(self, h: Interval) -> Tensor:
        return torch.full_like(h.lower, 0.5)

    def range(self, h: Interval) -> Interval:
        low, high = (x * x * x for x in h)
        pad = 4 * UNIT[low.dtype]
        return Interval(low - low.abs() * pad - UNDERFLOW, high + high.abs() * pad + UNDERFLOW)

    def steepest(self, h: Interval) -> Tensor:
        return 3.0 * h.magnitude * h.magnitude * INFLATE + UNDERFLOW


def _slopes(h: Interval) -> tuple[Tensor, Tensor]:
    """The chord's slope, and that of the tangent from the left end or of the tangent at the middle."""
    low, high = h
    chord = low * low + low * high + high * high
    middle = low / 2 + high / 2
    tangent = torch.where(low >= 0, 3 * middle * middle, torch.where(-low / 2 <= high, 0.75 * low * low, chord))
    return chord.clamp(min=0), tangent


def _intercept(h: Interval, slope: Tensor, proof: bool) -> Tensor:
    """At most the least of x³ − slope·x on h."""
    low, high = h
    inner = (slope.clamp(min=0) / 3).sqrt()
    beyond = 1 + 16 * UNIT[low.dtype]
    inside = (inner * beyond >= low) & (high >= 0) & (inner <= high * beyond)
    at_inner = torch.where(inside, -2 * inner * inner * inner, torch.full_like(low, torch.inf))
    least = torch.stack([low**3 - slope * low, high**3 - slope * high, at_inner]).amin(0)
    if not proof:
        return least
    most = h.magnitude
    return least - (most * most * most + slope.abs() * most) * (64 * UNIT[low.dtype]) - UNDERFLOW


register(Cube, lambda op: CubeRelaxation())
