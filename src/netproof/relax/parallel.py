"""A nonlinearity between two parallel planes: one slope for both, so that all that is left of g is a number."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.numerics import down, rounding, up, with_vanishing
from netproof.relax.relaxation import Relaxation


class Parallel(NamedTuple):
    """slope·h + low <= g(h) <= slope·h + high, in real arithmetic."""

    slope: Tensor  # (arity·n,): by slots where g has several operands
    low: Tensor  # (n,)
    high: Tensor  # (n,)


def parallel_lines(relaxation: Relaxation, h: Interval) -> Parallel:
    """Return parallel lines about a g of one operand on bounds (n,) of h: those that leave little open between them."""
    lines = relaxation.family(h, proof=True).at(relaxation.parallel(h))
    slope, top = lines.upper_slope, lines.upper_intercept
    bottom = torch.zeros_like(top) if lines.lower_intercept is None else lines.lower_intercept
    tilt = (lines.lower_slope - slope).abs() * h.magnitude  # where the lower line is not parallel after all
    return Parallel(slope, torch.where(tilt > 0, down(bottom - up(tilt, 4)), bottom), top)


def parallel_planes(relaxation: Relaxation, h: Interval, t: Tensor, falls: Tensor) -> Parallel:
    """Return parallel planes about g on bounds (arity·n,) of h: the line that a bound chose, and another beside it.

    t (arity·n,): the parameters of the lines. falls (n,) bool: where the bound's coefficient of g is negative, so that
    it rests on the upper line; elsewhere it rests on the lower one, and loses no more by these planes.
    """
    family, start, count = relaxation.family(h, proof=True), relaxation.initial(h), falls.numel()
    tries = [family.at(one) for one in (t, start, torch.zeros_like(start), torch.ones_like(start))]
    chosen, slots = tries[0], falls.repeat(relaxation.arity)
    slope = torch.where(slots, chosen.upper_slope, chosen.lower_slope)

    def offset(steep: Tensor, intercept: Tensor, outward: int) -> Tensor:
        """Return how far steep·h + intercept gets below (−1) or above (1) slope·h on the bounds, rounded outward."""
        ends = torch.stack([(steep - slope) * end for end in h])
        furthest = (ends.amin(0) if outward < 0 else ends.amax(0)).view(-1, count).sum(0)
        sizes = ((steep.abs() + slope.abs()) * h.magnitude).view(-1, count).sum(0) + intercept.abs()
        slack = with_vanishing(rounding(sizes, relaxation.arity + 8), relaxation.arity + 2)
        return intercept + furthest + outward * slack

    none = torch.zeros_like(falls, dtype=slope.dtype)
    belows = (none if one.lower_intercept is None else one.lower_intercept[:count] for one in tries)
    low = [offset(one.lower_slope, below, -1) for one, below in zip(tries, belows, strict=True)]
    high = [offset(one.upper_slope, one.upper_intercept[:count], 1) for one in tries]
    return Parallel(slope, torch.stack(low).amax(0), torch.stack(high).amin(0))
