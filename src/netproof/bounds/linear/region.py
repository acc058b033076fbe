"""The input set on a device, and the least value of a linear form over it (Hölder's inequality)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.linear.ball import Ball
from netproof.core.forms import LinearForm
from netproof.numerics import gamma, up
from netproof.problem.problem import InputSet


@dataclass(frozen=True, eq=False)
class Region:
    """A box as centre and radius (it contains the set's box), or a ball cut by a box about its centre.

    float32 or float64. Everything that is bounded over the input set goes through `least` or `least_of`.
    """

    centre: Tensor  # (*input)
    radius: Tensor  # (*input)
    lower: Tensor  # (*input), for clipping points
    upper: Tensor  # (*input)
    ball: Ball | None  # about the centre

    @classmethod
    def of(cls, inputs: InputSet, device: torch.device, dtype: torch.dtype) -> Region:
        lower, upper = inputs.lower, inputs.upper
        ball = None
        if inputs.centre is None:
            centre = lower / 2 + upper / 2
            radius = up(torch.maximum(upper - centre, centre - lower), 2)
        else:
            centre, ball = Ball.of(inputs)
            radius = ball.reach.view_as(centre)
            ball = ball.to(device, dtype)
        centre, radius, lower, upper = (t.to(device, dtype) for t in (centre, radius, lower, upper))
        return cls(centre, radius, lower, upper, ball)

    def about_centre(self) -> Region:
        """The same set with its centre at 0."""
        lower, upper = self.lower - self.centre, self.upper - self.centre
        return replace(self, centre=torch.zeros_like(self.centre), lower=lower, upper=upper)

    def least(self, form: LinearForm) -> Tensor:
        """min over the set of coef·x + const, (*lead). Its rounding is charged at the input node."""
        lead = form.const.shape
        flat = form.coef.reshape(math.prod(lead), -1)
        value = flat @ self.centre.reshape(-1) + self._fall(flat)
        return form.const + value.reshape(lead)

    def least_of(self, coef: Tensor) -> Tensor:
        """min over the set of coef·x, for a set with its centre at 0 and coef (n, *input): (n,). Not for proofs."""
        return self._fall(coef.flatten(1))

    def _fall(self, flat: Tensor) -> Tensor:
        """The least of coef·(x − centre) for coef (n, input): (n,)."""
        if self.ball is None:
            return -(flat.abs() @ self.radius.reshape(-1))
        with torch.no_grad():
            value = self.ball.fall(flat)
            if not flat.requires_grad:
                return value
            there = self.ball.furthest(flat)
        return value + ((flat - flat.detach()) * there).sum(1)  # the slope of a least value is where it is taken

    def minimiser(self, coef: Tensor) -> Tensor:
        """A point of the set where coef·x is least: (*lead, *input)."""
        if self.ball is None:
            return torch.where(coef > 0, self.lower, self.upper)
        away = self.ball.furthest(coef.reshape(-1, self.centre.numel())).view_as(coef)
        inside: Tensor = (self.centre + away).maximum(self.lower).minimum(self.upper)
        return inside

    def charge(self) -> Tensor:
        """The weight of |coef| in the rounding of `least`: (*input)."""
        size, count = self.centre.abs() + self.radius, self.centre.numel()
        if self.ball is None:
            return size * gamma(count + 8, self.centre.dtype)
        # Two sums, a norm (a scaling, a square, a root and two products more than its sum) and what joins them.
        return (size + self.ball.radius) * gamma(count + 16, self.centre.dtype)
