"""max(x, c), added from outside: an operator that is split at c, and not at 0."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.onnx.context import Context, Value, converts
from netproof.model.ops import Nonlinear
from netproof.numerics import UNIT
from netproof.relax import Line, Mix, Relaxation, register


@dataclass(frozen=True, eq=False)
class Floor(Nonlinear):
    at: float

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.clamp(min=self.at)

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        return coef * (x > self.at)

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        return e


@converts("Clip")
def clip_below(c: Context) -> Value:
    return c.emit(Floor(float(c.constant(1).value.item())), c.node(0))


@dataclass(frozen=True)
class FloorRelaxation(Relaxation):
    """Convex: the lower lines turn about the kink, from c to h, and the chord is the upper one."""

    kink: float  # type: ignore[misc]

    def linear_on(self, h: Interval) -> Tensor:
        return (h.lower >= self.kink) | (h.upper <= self.kink) | (h.lower > h.upper)

    def family(self, h: Interval, *, proof: bool) -> Mix:
        low, high = h
        bent = ~self.linear_on(h)
        flat, steep = torch.zeros_like(low), torch.ones_like(low)
        at_kink, at_zero = torch.full_like(low, self.kink), torch.zeros_like(low)
        left, right = Line(flat, at_kink), Line(steep, at_zero)
        only = Line(torch.where(low >= self.kink, steep, flat), torch.where(low >= self.kink, at_zero, at_kink))
        width = torch.where(bent, high - low, steep)
        slope = torch.where(bent, (high - self.kink) / width, only.slope)
        lift = torch.maximum(self.kink - slope * low, high - slope * high)
        if proof:
            lift = lift + (abs(self.kink) + 2 * h.magnitude) * (16 * UNIT[low.dtype])
        chord = Line(slope, torch.where(bent, lift, only.intercept))
        lower = [Line(*(torch.where(bent, a, b) for a, b in zip(line, only, strict=True))) for line in (left, right)]
        return Mix((lower[0], lower[1]), (chord, chord), h.magnitude if proof else None)

    def initial(self, h: Interval) -> Tensor:
        return (h.upper - self.kink > self.kink - h.lower).to(h.lower.dtype)

    def range(self, h: Interval) -> Interval:
        return Interval(h.lower.clamp(min=self.kink), h.upper.clamp(min=self.kink))

    def steepest(self, h: Interval) -> Tensor:
        return torch.ones_like(h.lower)


register(Floor, lambda op: FloorRelaxation(op.at))
