"""x·y between McCormick's planes: the convex hull on a box has two faces below and two above."""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.numerics import few_roundings, raised, with_vanishing
from netproof.relax.lines import Line, Lines, Mix
from netproof.relax.relaxation import Relaxation


class ProductRelaxation(Relaxation):
    """Each face touches x·y along two sides of the box; t mixes the two below, and the second operand's t those above.

    x·y − (x₀y + y₀x − x₀y₀) = (x − x₀)(y − y₀), so the plane through a corner (x₀, y₀) of the box lies below where both
    differences have the same sign on all of it, and above where they have opposite ones.
    """

    arity = 2

    def linear_on(self, h: Interval) -> Tensor:
        """Say where one operand is a single number."""
        return (h.lower >= h.upper).any(-2)

    def family(self, h: Interval, *, proof: bool) -> Mix:
        (x, y), (x2, y2) = h.lower.unbind(-2), h.upper.unbind(-2)
        thin = h.lower >= h.upper
        linear, known = thin.any(-2), thin[..., 0, :]
        # The multiple of one operand by the other, which is known; the first where both are.
        times = torch.stack([torch.where(known, 0.0, y), torch.where(known, x, 0.0)], -2)

        def plane(a: Tensor, b: Tensor, outward: float) -> Line:
            slope = torch.where(linear.unsqueeze(-2), times, torch.stack([b, a], -2))
            product = a * b
            intercept = -product
            if proof:
                intercept = intercept + outward * with_vanishing(few_roundings(product.abs(), 3, a.dtype))
            return Line(slope, intercept.masked_fill(linear, 0.0))

        lower, upper = (plane(x, y, -1.0), plane(x2, y2, -1.0)), (plane(x2, y, 1.0), plane(x, y2, 1.0))
        return Mix(lower, upper, h.magnitude if proof else None)

    def initial(self, h: Interval) -> Tensor:
        """Return the middle of the two faces, whose gradient at the box's centre is that of x·y."""
        return torch.full_like(h.lower, 0.5)

    def range(self, h: Interval) -> Interval:
        """Return the extremes, which lie at corners."""
        (x, y), (x2, y2) = h.lower.unbind(-2), h.upper.unbind(-2)
        corners = torch.stack([x * y, x * y2, x2 * y, x2 * y2])
        least, most = corners.amin(0), corners.amax(0)
        below, above = (with_vanishing(few_roundings(end.abs(), 3, x.dtype)) for end in (least, most))
        return Interval(least - below, most + above)

    def steepest(self, h: Interval) -> Tensor:
        """Return the other operand's largest size; mixing two slopes may round up."""
        return raised(h.magnitude.flip(-2), 6, h.lower.dtype)

    def loss(self, h: Interval) -> Tensor:
        """Return the largest distance of the hull's lower face from x·y, at the centre of the box."""
        return (h.upper - h.lower).clamp(min=0).prod(-2) / 4

    def lost(self, coef: Tensor, h: Interval, lines: Lines, *, free: bool) -> Tensor:
        """Return |coef| times the distance to the hull; where t is not optimised, to the planes as they are."""
        return coef.abs() * (self.loss(h) if free else self.gap(h, lines))
