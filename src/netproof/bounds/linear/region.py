"""The input set on a device, or many boxes of it, and the least value of linear forms (Hölder's inequality)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.linear.ball import Ball
from netproof.core.forms import LinearForm
from netproof.numerics import lowered, rounding, up
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
        """Return the same set with its centre at 0."""
        lower, upper = self.lower - self.centre, self.upper - self.centre
        return replace(self, centre=torch.zeros_like(self.centre), lower=lower, upper=upper)

    def least(self, form: LinearForm) -> Tensor:
        """Return min over the set of coef·x + const, (*lead). Its rounding is charged at the input node."""
        lead = form.const.shape
        flat = form.coef.reshape(math.prod(lead), -1)
        value = flat @ self.centre.reshape(-1) + self._fall(flat)
        return form.const + value.reshape(lead)

    def least_of(self, coef: Tensor) -> Tensor:
        """Return min over the set of coef·x, for a set about 0 and coef (n, *input): (n,). Nothing is taken off."""
        return self._fall(coef.flatten(1))

    def _fall(self, flat: Tensor) -> Tensor:
        """Return the least of coef·(x − centre) for coef (n, input): (n,)."""
        if self.ball is None:
            return -(flat.abs() @ self.radius.reshape(-1))
        with torch.no_grad():
            value = self.ball.fall(flat)
            if not flat.requires_grad:
                return value
            there = self.ball.furthest(flat)
        return value + ((flat - flat.detach()) * there).sum(1)  # the slope of a least value is where it is taken

    def minimiser(self, coef: Tensor) -> Tensor:
        """Return a point of the set where coef·x is least: (*lead, *input)."""
        if self.ball is None:
            return torch.where(coef > 0, self.lower, self.upper)
        away = self.ball.furthest(coef.reshape(-1, self.centre.numel())).view_as(coef)
        inside: Tensor = (self.centre + away).maximum(self.lower).minimum(self.upper)
        return inside

    def select(self, index: Tensor) -> Region:
        """Return that of some forms: the same for all."""
        return self

    def charge(self) -> Tensor:
        """Return the weight of |coef| in the rounding of `least`: (*input)."""
        size, count = self.centre.abs() + self.radius, self.centre.numel()
        if self.ball is None:
            return rounding(size, count + 8, self.centre.dtype)
        # Two sums, a norm (a scaling, a square, a root and two products more than its sum) and what joins them.
        return rounding(size + self.ball.radius, count + 16, self.centre.dtype)


@dataclass(frozen=True, eq=False)
class BoxRegion:
    """One box for each form, as a centre and a radius that contain it: (box, input), the input flattened."""

    centre: Tensor
    radius: Tensor

    @classmethod
    def of(cls, lower: Tensor, upper: Tensor) -> BoxRegion:
        """Make regions of boxes, lower and upper (box, *input)."""
        lower, upper = lower.flatten(1), upper.flatten(1)
        centre = lower / 2 + upper / 2
        return cls(centre, up(torch.maximum(upper - centre, centre - lower), 2))

    def select(self, index: Tensor) -> BoxRegion:
        """Return the boxes at `index`."""
        return BoxRegion(self.centre[index], self.radius[index])

    def least(self, form: LinearForm) -> Tensor:
        """Bound coef·x + const over each form's own box, rounded down: coef (box, *row, *input), const (box, *row).

        The dot products' rounding is charged at the input node of the pass that made the form.
        """
        flat = form.coef.reshape(*form.const.shape, -1)
        ones = (1,) * (form.const.dim() - 1)
        centre, radius = (t.view(len(t), *ones, -1) for t in (self.centre, self.radius))
        value = form.const + ((flat * centre).sum(-1) - (flat.abs() * radius).sum(-1))
        return lowered(value)

    def least_of(self, coef: Tensor) -> Tensor:
        """Return the least of coef·x over each box, coef (box, *input): (box,). Nothing is taken off."""
        flat = coef.flatten(1)
        return (flat * self.centre).sum(1) - (flat.abs() * self.radius).sum(1)

    def minimiser(self, coef: Tensor) -> Tensor:
        """Return a point of each box, up to rounding, where coef·x is least: (box, *input)."""
        return torch.where(coef.flatten(1) > 0, self.centre - self.radius, self.centre + self.radius).view_as(coef)
