"""x·y, added from outside: an operator of two operands, between McCormick's planes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.onnx.context import CONVERTERS, Context, Ref, Value, converts
from netproof.model.onnx.operators.moves import stacked
from netproof.model.ops import Nonlinear
from netproof.numerics import INFLATE, TINY, UNDERFLOW, UNIT, gamma
from netproof.relax import Line, Mix, Relaxation, register

by_a_constant = CONVERTERS["Mul"]


@dataclass(frozen=True, eq=False)
class Product(Nonlinear):
    arity = 2

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x[:, 0] * x[:, 1]

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        return coef[:, None] * x.flip(1)

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        most = x.abs() + e
        off = most[:, 0] * e[:, 1] + e[:, 0] * most[:, 1]
        return (off + gamma(2, dtype) * most[:, 0] * most[:, 1] + TINY[dtype]) * INFLATE


@converts("Mul")
def multiply(c: Context) -> Value:
    left, right = c.value(0), c.value(1)
    if isinstance(left, Ref) and isinstance(right, Ref):
        return c.emit(Product(), stacked(c, left, right))
    return by_a_constant(c)


class ProductRelaxation(Relaxation):
    """Two planes below and two above, each through the product at one pair of corners; t mixes them."""

    arity = 2

    def linear_on(self, h: Interval) -> Tensor:
        return (h.lower >= h.upper).any(-2)

    def family(self, h: Interval, *, proof: bool) -> Mix:
        low, high = h
        point = low >= high  # of one operand: then the product is the other's multiple
        fixed = torch.stack([torch.where(point[..., 0, :], 0.0, low[..., 1, :]), low[..., 0, :]], -2)
        fixed[..., 1, :] = torch.where(point[..., 0, :], fixed[..., 1, :], 0.0)

        def plane(x: Tensor, y: Tensor, outward: float) -> Line:
            """x₀·y + y₀·x − x₀·y₀."""
            slope, product = torch.stack([y, x], -2), x * y
            slack = product.abs() * (2 * UNIT[x.dtype]) + UNDERFLOW if proof else 0.0
            linear = point.any(-2)
            intercept = torch.where(linear, 0.0, -product + outward * slack)
            return Line(torch.where(linear.unsqueeze(-2), fixed, slope), intercept)

        (x, y), (x2, y2) = low.unbind(-2), high.unbind(-2)
        lower, upper = (plane(x, y, -1.0), plane(x2, y2, -1.0)), (plane(x2, y, 1.0), plane(x, y2, 1.0))
        return Mix(lower, upper, h.magnitude if proof else None)

    def initial(self, h: Interval) -> Tensor:
        return torch.full_like(h.lower, 0.5)

    def range(self, h: Interval) -> Interval:
        (x, y), (x2, y2) = h.lower.unbind(-2), h.upper.unbind(-2)
        corners = torch.stack([x * y, x * y2, x2 * y, x2 * y2])
        slack = corners.abs().amax(0) * (2 * UNIT[x.dtype]) + UNDERFLOW
        return Interval(corners.amin(0) - slack, corners.amax(0) + slack)

    def steepest(self, h: Interval) -> Tensor:
        return h.magnitude.flip(-2)


register(Product, lambda op: ProductRelaxation())
