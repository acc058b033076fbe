"""The ℓ1 or ℓ2 ball cut by a box, and how far a linear form falls over it.

For d = x − centre in the ball ‖d‖ <= r and in the box, and any split of a form w = u + v,

    w·d  =  u·d + v·d  >=  −r ‖u‖*  −  Σ |v| k,       k: how far the box reaches against the sign of w,

with the dual norm ‖·‖* (ℓ2 of ℓ2, ℓ∞ of ℓ1). Each u between 0 and w is sound, so nothing rests on how it was found. The
best one leaves no gap: with the price μ of the ball's constraint it is |u| = min(|w|, μ k) for ℓ2 and min(|w|, μ) for
ℓ1, and μ is known in closed form once the coordinates are sorted by when they meet the box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from netproof.numerics import float_up, up
from netproof.problem.problem import InputSet

CUT = 1e-6  # of the radius, by which a box must cut a ball for it to be worth a sort


@dataclass(frozen=True, eq=False)
class Ball:
    """‖d‖_p <= radius and −below <= d <= above, with below, above >= 0 and no larger than the radius."""

    below: Tensor  # (input,) flat
    above: Tensor
    radius: float
    p: int  # 1 or 2
    cut: bool  # whether the box takes anything off the ball

    @classmethod
    def of(cls, inputs: InputSet) -> tuple[Tensor, Ball]:
        """Return a centre (*input) in the box, and a ball about it that holds the set; float64, rounded outward."""
        assert inputs.p is not None
        centre, radius = _in_the_box(inputs)
        sides = (centre - inputs.lower, inputs.upper - centre)
        below, above = (up(side.flatten()).clamp(max=radius) for side in sides)
        cut = bool((torch.minimum(below, above) < radius * (1 - CUT)).any())
        return centre, cls(below, above, radius, inputs.p, cut)

    def to(self, device: torch.device, dtype: torch.dtype) -> Ball:
        return Ball(self.below.to(device, dtype), self.above.to(device, dtype), self.radius, self.p, self.cut)

    @property
    def reach(self) -> Tensor:
        """Return (input,): the largest |d|."""
        return torch.maximum(self.below, self.above)

    def fall(self, coef: Tensor) -> Tensor:
        """Return the least of coef·d for coef (n, input): (n,). In float64 never above it, but for rounding the sum."""
        size = coef.abs()
        if not self.cut:
            return -self.radius * self._dual_norm(size)
        taken = self.taken(coef)
        return -self.radius * self._dual_norm(taken) - ((size - taken) * self._reach(coef)).sum(1)

    def taken(self, coef: Tensor) -> Tensor:
        """Return |u| of the best split of coef (n, input): what the ball takes of |w|, the box has the rest."""
        size = coef.abs()
        return torch.minimum(size, self._most(size, self._reach(coef))) if self.cut else size

    def furthest(self, coef: Tensor) -> Tensor:
        """Return d where coef·d is least, up to rounding: (n, input)."""
        size, reach = coef.abs(), self._reach(coef)
        if self.p == 1:
            step = self._steepest_first(size, reach)
        else:
            scaled = size / _top(size)
            step = torch.minimum(scaled / self._price(scaled, reach), self._share(reach)) * self.radius
        return -coef.sign() * step

    def _reach(self, coef: Tensor) -> Tensor:
        """Return how far the box lets each coordinate go against its coefficient, (n, input)."""
        return torch.where(coef > 0, self.below, self.above)

    def _share(self, reach: Tensor) -> Tensor:
        """Return how far the box lets each coordinate go, in units of the radius."""
        return reach / (self.radius or 1.0)

    def _dual_norm(self, size: Tensor) -> Tensor:
        """Return the dual norm of (n, input), not negative: (n,). Scaled, since squares of small numbers underflow."""
        if self.p == 1:
            return size.amax(1)
        top = _top(size)
        norm: Tensor = torch.linalg.vector_norm(size / top, dim=1) * top[:, 0]
        return norm

    def _most(self, size: Tensor, reach: Tensor) -> Tensor:
        """Return what the ball takes of each |w| at most, (n, input) or (n, 1)."""
        if self.p == 2:
            top = _top(size)
            return self._price(size / top, reach) * top * self._share(reach)
        ordered, order = size.sort(dim=1, descending=True)
        filled = reach.gather(1, order).cumsum(1) >= self.radius
        return torch.where(filled.any(1, keepdim=True), ordered.gather(1, _first(filled)), 0.0)

    def _price(self, size: Tensor, reach: Tensor) -> Tensor:
        """Return μ > 0, (n, 1), with ‖min(|w|/μ, k)‖₂ = 1 in radii; next to 0 where the box's corner is inside.

        size: |w| (n, input), its largest entry 1. Sorted by |w|/k, the coordinates that stop at the box come first.
        """
        tiny = torch.finfo(size.dtype).tiny
        if not self.cut:
            norm: Tensor = torch.linalg.vector_norm(size, dim=1, keepdim=True)
            return norm.clamp(min=tiny)
        share = self._share(reach)
        meets, order = torch.where(size > 0, share / size, torch.inf).sort(dim=1)  # 1/μ when each meets the box
        square = share.gather(1, order).square()
        stopped = square.cumsum(1) - square
        moving = size.gather(1, order).square().flip(1).cumsum(1).flip(1)
        outside = stopped + meets.square() * moving >= 1
        at = _first(outside)
        inverse = ((1 - stopped.gather(1, at)).clamp(min=0) / moving.gather(1, at).clamp(min=tiny)).sqrt()
        before = meets.gather(1, (at - 1).clamp(min=0))
        inverse = torch.where(at > 0, inverse.maximum(before), inverse)  # where rounding missed the very corner
        return torch.where(outside.any(1, keepdim=True), 1 / inverse, 0.0).clamp(min=tiny**0.5)

    def _steepest_first(self, size: Tensor, reach: Tensor) -> Tensor:
        """Return the ℓ1 radius spent on the coordinates of the largest |w|, as far as the box lets each go."""
        order = size.argsort(dim=1, descending=True)
        there = reach.gather(1, order)
        left = (self.radius - (there.cumsum(1) - there)).clamp(min=0)
        return torch.zeros_like(size).scatter(1, order, torch.minimum(left, there))


def _top(size: Tensor) -> Tensor:
    """Return the largest entry of each row, (n, 1), never 0."""
    return size.amax(1, keepdim=True).clamp(min=torch.finfo(size.dtype).tiny)


def _first(which: Tensor) -> Tensor:
    """Return the first True of each row, (n, 1); 0 where there is none."""
    return which.to(torch.uint8).argmax(1, keepdim=True)


def _in_the_box(inputs: InputSet) -> tuple[Tensor, float]:
    """Return the ball's centre moved into the box, and a radius about there.

    In a coordinate that the centre left by g, |x − c| is at least g more than to the side of the box that it came to,
    and (x − c)² at least g² more than to there squared. So the radius shrinks, to 0 where the ball misses the box.
    """
    assert inputs.centre is not None
    centre = inputs.centre.maximum(inputs.lower).minimum(inputs.upper)
    moved = centre != inputs.centre
    if not bool(moved.any()):
        return centre, inputs.radius
    pairs = zip(centre[moved].tolist(), inputs.centre[moved].tolist(), strict=True)
    gaps = [Fraction(near) - Fraction(own) for near, own in pairs]
    radius = Fraction(inputs.radius)
    if inputs.p == 1:
        return centre, float_up(max(Fraction(0), radius - sum(map(abs, gaps))))
    square = max(Fraction(0), radius * radius - sum(gap * gap for gap in gaps))
    # The root of a float64 is correctly rounded, so the next float is above it.
    return centre, math.nextafter(math.sqrt(float_up(square)), math.inf)
