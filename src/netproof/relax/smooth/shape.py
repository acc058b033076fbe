"""Where a function curves which way, and from where a line from an end of the bounds touches it.

Below a function, a line is best that touches it where it is convex; above it, where it is concave. A `Region` is one
such part of the axis. Where the bounds end outside it, the line must not pass the function's value at that end either:
so the points where it may touch have a limit, which depends on that end alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from netproof.model.nonlinear.smooth import Smooth

Limit = Callable[[Tensor], Tensor]
FAR = 1e30
_STEP = 0.01  # of asinh(distance) between two entries of a table
_MARGIN = 2e-5  # that interpolation in it may be off by, and more


@dataclass(frozen=True)
class Region:
    """A part of the curve where a line may touch: from `low` to `high` along it, with the limits that ends outside set.

    left: by the lower end of the bounds, where that lies left of `low`, the first point at which a line may touch;
    right: by the upper end, where that lies right of `high`, the last one.
    """

    low: float = -torch.inf
    high: float = torch.inf
    left: Limit | None = None
    right: Limit | None = None
    least: float | None = None  # the first and the last point at which a line may touch, whatever the bounds
    most: float | None = None

    def contacts(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Return between which points of the region lines on these bounds may touch; first > last: nowhere."""
        first, last = lower, upper
        if self.left is not None:
            first = torch.where(lower >= self.low, lower, self.left(lower.clamp(max=self.low)))
        if self.right is not None:
            last = torch.where(upper <= self.high, upper, self.right(upper.clamp(min=self.high)))
        if self.least is not None or self.most is not None:
            first, last = (end.clamp(min=self.least, max=self.most) for end in (first, last))
        return first, last


@dataclass(frozen=True)
class Shape:
    """Where lines below g touch it, and where lines above it do. No region: it is the chord."""

    below: tuple[Region, ...] = ()
    above: tuple[Region, ...] = ()


@dataclass(frozen=True)
class Touching:
    """The limit that an end beyond one side of a region sets: the point whose tangent passes through g at that end.

    It is kept as a table, by bisection, in the asinh of the end's distance: near the region it is linear in that, far
    away at most as large as it. Rounded into the region, so that the tangent does not pass the function.
    """

    function: Smooth
    region: tuple[float, float]
    beyond: float  # +1: ends right of the region, −1: left of it
    sign: float  # +1: lines below, −1: lines above
    far: float = FAR

    def __call__(self, end: Tensor) -> Tensor:
        """Return the limits for ends (any shape) on that side."""
        table = _table(self, end.device, end.dtype)
        distance = (end - self.edge).abs().clamp(max=self.far)
        place = distance.asinh() / _STEP
        before = place.detach().floor().clamp(max=len(table) - 2)
        index = before.long()
        low = table[index]
        found = torch.lerp(low, table[index + 1], place - before)
        margin = (1.0 + found.abs()) * _MARGIN
        return found - self.beyond * margin * distance / (1.0 + distance)

    @property
    def edge(self) -> float:
        return self.region[1] if self.beyond > 0 else self.region[0]


@lru_cache(maxsize=256)
def _table(limit: Touching, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return the limits of ends at the distances sinh(0), sinh(_STEP), …"""
    count = int(torch.tensor(limit.far, dtype=torch.float64).asinh() / _STEP) + 2
    distance = (torch.arange(count, dtype=torch.float64) * _STEP).sinh().clamp(max=limit.far)
    end = limit.edge + limit.beyond * distance
    place = limit.function.touch(end)[0]
    low, high = (max(-limit.far, min(limit.far, side)) for side in limit.region)
    inner, outer = (low, high) if limit.beyond > 0 else (high, low)
    # In the asinh of the distance from the edge: from a valid point, or none, to one that is not.
    good = torch.full_like(end, abs(inner - outer)).asinh()
    bad = torch.zeros_like(end)
    at_end = limit.function.value(place)
    for _ in range(80):
        middle = good / 2 + bad / 2
        point = outer - limit.beyond * middle.sinh()
        x, value, slope = limit.function.touch(point)
        fits = limit.sign * (at_end - value - slope * (place - x)) >= 0
        good, bad = torch.where(fits, middle, good), torch.where(fits, bad, middle)
    found = outer - limit.beyond * good.sinh()
    return found.to(dtype=dtype, device=device)
