"""The input set on a device, and the least value of a linear form over it (Hölder's inequality)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.core.forms import LinearForm
from netproof.numerics import gamma, up
from netproof.problem.problem import InputSet


@dataclass(frozen=True, eq=False)
class Region:
    """A box as centre and radius (it contains the set's box), and maybe a ball; float32 or float64."""

    centre: Tensor  # (*input)
    radius: Tensor  # (*input)
    lower: Tensor  # (*input), for clipping points
    upper: Tensor  # (*input)
    ball_centre: Tensor | None
    ball_radius: float
    p: int | None

    @classmethod
    def of(cls, inputs: InputSet, device: torch.device, dtype: torch.dtype) -> Region:
        lower, upper = inputs.lower, inputs.upper
        centre = lower / 2 + upper / 2
        radius = up(torch.maximum(upper - centre, centre - lower), 2)
        ball = None if inputs.centre is None else inputs.centre.to(device, dtype)
        centre, radius, lower, upper = (t.to(device, dtype) for t in (centre, radius, lower, upper))
        return cls(centre, radius, lower, upper, ball, inputs.radius, inputs.p)

    def about_centre(self) -> Region:
        """The same set with its centre at 0."""
        lower, upper = self.lower - self.centre, self.upper - self.centre
        ball = None if self.ball_centre is None else self.ball_centre - self.centre
        return replace(self, centre=torch.zeros_like(self.centre), lower=lower, upper=upper, ball_centre=ball)

    def least(self, form: LinearForm) -> Tensor:
        """min over the set of coef·x + const, (*lead). Its rounding is charged at the input node."""
        lead = form.const.shape
        flat = form.coef.reshape(math.prod(lead), -1)
        value = flat @ self.centre.reshape(-1) - flat.abs() @ self.radius.reshape(-1)
        if self.ball_centre is not None:
            dual = flat.norm(dim=-1) if self.p == 2 else flat.abs().amax(-1)
            on_ball = flat @ self.ball_centre.reshape(-1) - self.ball_radius * dual
            value = torch.maximum(value, on_ball)
        return form.const + value.reshape(lead)

    def least_of(self, coef: Tensor) -> Tensor:
        """min over the set of coef·x, for a set with its centre at 0 and coef (n, *input): (n,). Not for proofs."""
        flat = coef.flatten(1)
        value = -(flat.abs() @ self.radius.reshape(-1))
        if self.ball_centre is None:
            return value
        dual = flat.norm(dim=-1) if self.p == 2 else flat.abs().amax(-1)
        return torch.maximum(value, flat @ self.ball_centre.reshape(-1) - self.ball_radius * dual)

    def minimiser(self, coef: Tensor) -> Tensor:
        """A point of the set where coef·x is small (least, for a box alone): (*lead, *input)."""
        if self.ball_centre is None:
            return torch.where(coef > 0, self.lower, self.upper)
        axes = tuple(range(coef.dim() - self.centre.dim(), coef.dim()))
        if self.p == 2:
            step = coef / coef.norm(dim=axes, keepdim=True).clamp(min=1e-30)
        else:
            steepest = coef.abs() == coef.abs().amax(axes, keepdim=True)
            step = coef.sign() * steepest / steepest.sum(axes, keepdim=True)
        point = self.ball_centre - self.ball_radius * step
        inside: Tensor = point.maximum(self.lower).minimum(self.upper)
        return inside

    def charge(self) -> Tensor:
        """The weight of |coef| in the rounding of `least`: (*input)."""
        size = self.centre.abs() + self.radius
        if self.ball_centre is not None:
            size = size + self.ball_centre.abs() + self.ball_radius
        return size * gamma(self.centre.numel() + 8, self.centre.dtype)
