"""max(x, y, z), added from outside: an operator of three operands."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.onnx.context import Context, Value, converts
from netproof.model.onnx.operators.moves import stacked
from netproof.model.ops import Nonlinear
from netproof.numerics import UNDERFLOW, UNIT
from netproof.relax import Line, Mix, Relaxation, register


@dataclass(frozen=True, eq=False)
class Maximum(Nonlinear):
    arity = 3

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.amax(1)

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        first = torch.zeros_like(x).scatter(1, x.argmax(1, keepdim=True), 1.0)
        return coef[:, None] * first

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        return e.amax(1)


@converts("Max")
def largest(c: Context) -> Value:
    if len(c.inputs) != Maximum.arity:
        c.refuse(f"it has {len(c.inputs)} inputs instead of {Maximum.arity}")
    return c.emit(Maximum(), stacked(c, *(c.value(i) for i in range(Maximum.arity))))


class MaximumRelaxation(Relaxation):
    """Below: any operand; t goes from the one that is surely largest to the one that may be.

    Above: with i the first of them, x_i + Σ_j relu(x_j − x_i), each under its chord; and the largest bound.
    """

    arity = 3

    def linear_on(self, h: Interval) -> Tensor:
        sure = h.lower.argmax(-2, keepdim=True)
        others = h.upper.scatter(-2, sure, -torch.inf).amax(-2, keepdim=True)
        return (h.lower.gather(-2, sure) >= others)[..., 0, :] | (h.lower > h.upper).any(-2)

    def family(self, h: Interval, *, proof: bool) -> Mix:
        linear = self.linear_on(h).unsqueeze(-2)
        sure = h.lower.argmax(-2, keepdim=True)
        nothing = torch.zeros_like(h.lower[..., 0, :])

        def one(which: Tensor) -> Tensor:
            return torch.zeros_like(h.lower).scatter(-2, which, 1.0)

        first = one(sure)
        second = torch.where(linear, first, one(h.upper.argmax(-2, keepdim=True)))
        chords = self._above(h, sure, proof)
        most = Line(torch.zeros_like(first), h.upper.amax(-2))
        upper = [
            Line(torch.where(linear, first, line.slope), torch.where(linear[..., 0, :], 0.0, line.intercept))
            for line in (chords, most)
        ]
        lower = Line(first, nothing), Line(second, nothing)
        return Mix(lower, (upper[0], upper[1]), h.magnitude if proof else None)

    def _above(self, h: Interval, sure: Tensor, proof: bool) -> Line:
        low, high = h.lower - h.upper.gather(-2, sure), h.upper - h.lower.gather(-2, sure)  # of x_j − x_i
        slope = (high / (high - low).clamp(min=1e-300)).clamp(0.0, 1.0).scatter(-2, sure, 0.0)
        height = torch.maximum(-slope * low, (1.0 - slope) * high).clamp(min=0).scatter(-2, sure, 0.0)
        if proof:
            height = height + h.magnitude.amax(-2, keepdim=True) * (32 * UNIT[low.dtype]) + UNDERFLOW
        own = 1.0 - slope.sum(-2, keepdim=True)
        return Line(slope.scatter(-2, sure, own), height.sum(-2))

    def initial(self, h: Interval) -> Tensor:
        return torch.full_like(h.lower, 0.5)

    def range(self, h: Interval) -> Interval:
        return Interval(h.lower.amax(-2), h.upper.amax(-2))

    def steepest(self, h: Interval) -> Tensor:
        return torch.full_like(h.lower, 2.0)


register(Maximum, lambda op: MaximumRelaxation())
