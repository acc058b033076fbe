"""x times a gate between 0 and 1, or 0 and 2: concave, convex around 0, concave again; and Elu's kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from netproof.model.nonlinear.smooth.base import Smooth

_ERF = 2.0 / math.sqrt(math.pi)


@dataclass(frozen=True)
class Silu(Smooth):
    """x·sigmoid(x)."""

    bends = (-2.3993572805154677, 2.3993572805154677)
    turns = (-1.2784645427610738,)
    least = -0.2785

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = x.sigmoid()
        value = x * gate
        return value, gate + value * (1.0 - gate)

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return |x|, and of the slope 1 + |x|: the gate is off by roundings of 1, not of itself."""
        return 1.25 * x.abs(), 2.0 + 2.0 * x.abs()


@dataclass(frozen=True)
class ErfGate(Smooth):
    """x·(1 + erf(x)): twice the Gelu of √2·x, over √2."""

    bends = (-1.0, 1.0)
    turns = (-0.5315968856613803,)
    least = -0.2404

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = 1.0 + x.erf()
        return x * gate, gate + x * _ERF * (-x * x).exp()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return 2.5 * x.abs(), 8.0 + torch.zeros_like(x)


@dataclass(frozen=True)
class TanhGate(Smooth):
    """x·(1 + tanh(k·(x + a·x³))): twice the approximate Gelu."""

    k: float
    a: float

    @property
    def bends(self) -> tuple[float, ...]:  # type: ignore[override]
        bend = _bend(self.k, self.a)
        return -bend, bend

    @property
    def turns(self) -> tuple[float, ...]:  # type: ignore[override]
        return (_turn(self.k, self.a),)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        square = x * x
        tanh = (self.k * (x + self.a * (x * square))).tanh()
        steep = self.k * (1.0 + 3.0 * self.a * square)
        gate = 1.0 + tanh
        return x * gate, gate + x * (gate * (1.0 - tanh)) * steep

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return |x| times what the argument's own roundings move tanh by: |z|·(1 − tanh²(z)) < 1/2; the slope's part

        x·z'·(1 − tanh²) is off by a rounding of x·z' itself where tanh is near 1.
        """
        grown = x.abs() * (self.k * (1.0 + 3.0 * self.a * x * x))
        return 3.0 * x.abs(), 8.0 + 6.0 * grown


@dataclass(frozen=True)
class Mish(Smooth):
    """x·tanh(softplus(x))."""

    bends = (-2.2563763963607931, 1.4905711794854285)
    turns = (-1.1924312145154952,)
    least = -0.3089

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        # With e = exp(−|x|) the gate is p / (p + 2e²), p = 1 + 2e, where x > 0, else p / (p + 2), p = e² + 2e.
        e = (-x.abs()).exp()
        part = torch.where(x > 0, 1.0 + 2.0 * e, e * (e + 2.0))
        gate = part / (part + torch.where(x > 0, 2.0 * e * e, 2.0))
        return x * gate, gate + x * (1.0 - gate * gate) * x.sigmoid()

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return 3.0 * x.abs(), 2.0 + 6.0 * x.abs()


@dataclass(frozen=True)
class HardSwish(Smooth):
    """x·min(max(x + 3, 0), 6) / 6."""

    turns = (-1.5,)
    bends = (-3.0, 3.0)
    least = -0.375
    corners = ((-3.0, 0.0, -0.5), (3.0, 1.5, 1.0))
    straight = ((-torch.inf, -3.0, 0.0, 0.0), (3.0, torch.inf, 1.0, 0.0))

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        inner = x * (x + 3.0) / 6.0
        value = torch.where(x <= -3.0, 0.0, torch.where(x >= 3.0, x, inner))
        slope = torch.where(x <= -3.0, 0.0, torch.where(x > 3.0, 1.0, (2.0 * x + 3.0) / 6.0))
        return value, slope

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return |x|, since beyond 3 a runtime may still compute 6·x / 6; the slope's numbers are about 1."""
        return x.abs().clamp(min=1.0), torch.ones_like(x)

    def steepest(self, lower: Tensor, upper: Tensor) -> Tensor:
        return torch.full_like(lower, 1.5)


@dataclass(frozen=True)
class Elu(Smooth):
    """x where x >= 0, alpha·(exp(x) − 1) below; alpha >= 0."""

    alpha: float = 1.0
    straight = ((0.0, torch.inf, 1.0, 0.0),)

    @property
    def corners(self) -> tuple[tuple[float, float, float], ...]:  # type: ignore[override]
        return () if self.alpha == 1.0 else ((0.0, self.alpha, 1.0),)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        below = self.alpha * x.clamp(max=0).expm1()
        right = x > 0
        return torch.where(right, x, below), torch.where(right, 1.0, below + self.alpha)

    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        size = torch.full_like(x, 2.0 * self.alpha)
        return size, size + 1.0

    def steepest(self, lower: Tensor, upper: Tensor) -> Tensor:
        return torch.full_like(lower, max(1.0, self.alpha) * (1.0 + 1e-9))


@lru_cache(maxsize=64)
def _bend(k: float, a: float) -> float:
    """Return where the second derivative of TanhGate is 0, right of 0: 2z' − 2x·tanh(z)·z'² + x·z'' is."""

    def curved(x: float) -> float:
        z, first, second = k * (x + a * x**3), k * (1.0 + 3.0 * a * x * x), 6.0 * k * a * x
        return 2.0 * first - 2.0 * x * math.tanh(z) * first * first + x * second

    return _root(curved, 0.5, 4.0)


@lru_cache(maxsize=64)
def _turn(k: float, a: float) -> float:
    """Return where TanhGate is least."""

    def slope(x: float) -> float:
        z, first = k * (x + a * x**3), k * (1.0 + 3.0 * a * x * x)
        tanh = math.tanh(z)
        return -(1.0 + tanh + x * (1.0 - tanh * tanh) * first)

    return _root(slope, -2.0, -0.1)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that is positive at `low` and negative at `high` changes its sign."""
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return low
