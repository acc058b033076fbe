"""A nonlinearity between two parallel planes: one slope for both, so that all that is left of g is a number."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.numerics import rounding, with_vanishing
from netproof.relax.relaxation import Relaxation


class Parallel(NamedTuple):
    """slope·h + low <= g(h) <= slope·h + high, in real arithmetic."""

    slope: Tensor  # (arity·n,): by slots where g has several operands
    low: Tensor  # (n,)
    high: Tensor  # (n,)


def parallel_planes(relaxation: Relaxation, h: Interval) -> Parallel:
    """Return parallel planes about g on bounds (arity·n,) of h: those that slopes start from, tilted to their mean.

    Of x·y that tilts nothing: in the middle of McCormick's faces both planes are parallel.
    """
    lines = relaxation.family(h, proof=True).at(relaxation.initial(h))
    count = h.lower.numel() // relaxation.arity
    slope = lines.lower_slope / 2 + lines.upper_slope / 2
    below = torch.zeros_like(lines.upper_intercept) if lines.lower_intercept is None else lines.lower_intercept

    def offset(steep: Tensor, intercept: Tensor, outward: int) -> Tensor:
        """Return how far steep·h + intercept gets below (−1) or above (1) slope·h on the bounds, rounded outward."""
        ends = torch.stack([(steep - slope) * end for end in h])
        furthest = (ends.amin(0) if outward < 0 else ends.amax(0)).view(-1, count).sum(0)
        sizes = ((steep.abs() + slope.abs()) * h.magnitude).view(-1, count).sum(0) + intercept.abs()
        slack = with_vanishing(rounding(sizes, relaxation.arity + 8), relaxation.arity + 2)
        return intercept + furthest + outward * slack

    low = offset(lines.lower_slope, below[:count], -1)
    return Parallel(slope, low, offset(lines.upper_slope, lines.upper_intercept[:count], 1))
