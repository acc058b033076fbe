"""One entry p of a softmax between planes: tangents of a convex function below it, and of a concave one above.

Below: every exp(x_i) is under its chord, so p is above exp(x_0) over a sum of lines, which is convex where that sum is
positive. Above: p = exp(v) with v = log p is under the chord of exp between the ends of v, which rises, and v itself is
concave. Both tangents are drawn at the middle of the box; constants, the exact extremes of p, are the other choices.
(The forms of Wei, Wu, Wu, Chen, Barrett and Farchi, AISTATS 2023.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.numerics import LIBM, UNIT, enlarged, with_vanishing
from netproof.relax.lines import Line, Mix
from netproof.relax.relaxation import Relaxation

FAR = 750.0  # where exp is 0 in float64


class _Box(NamedTuple):
    """Bounds (*lead, arity, n), shifted so that the largest end is 0, their middles, and a rounding."""

    low: Tensor
    high: Tensor
    shift: Tensor  # (*lead, 1, n)
    middle: Tensor  # as they were, not shifted
    radius: Tensor
    unit: Tensor  # (*lead, n): more than all roundings of one quantity, relative to the sizes it is made of

    @staticmethod
    def of(h: Interval) -> _Box:
        lower, upper = torch.minimum(*h), torch.maximum(*h)  # of empty bounds the other way round
        shift = upper.amax(-2, keepdim=True)
        low, high = lower - shift, upper - shift
        middle = lower / 2 + upper / 2
        radius = enlarged(torch.maximum(upper - middle, middle - lower))
        apart = -low.amin(-2).clamp(min=-FAR)
        unit = (8 * h.lower.shape[-2] + 8 * LIBM + 32 + 32 * apart) * UNIT[low.dtype]
        return _Box(low, high, shift, middle, radius, unit)


@dataclass(frozen=True)
class SoftmaxRelaxation(Relaxation):
    """t goes from the tangents to the constants: below by the first operand's, above by the last one's."""

    arity: int

    def linear_on(self, h: Interval) -> Tensor:
        return torch.zeros_like(h.lower[..., 0, :], dtype=torch.bool)

    def family(self, h: Interval, *, proof: bool) -> Mix:
        box, extremes = _Box.of(h), self.range(h)
        flat = torch.zeros_like(h.lower)
        lower = self._below(box, proof), Line(flat, extremes.lower)
        upper = self._above(box, proof), Line(flat, extremes.upper)
        return Mix(lower, upper, h.magnitude if proof else None)

    def _below(self, box: _Box, proof: bool) -> Line:
        """Return the tangent of exp(x_0) / Σ_i (κ_i x_i + b_i)."""
        at_low, at_high = box.low.exp(), box.high.exp()
        kappa = (at_high - at_low) / (box.high - box.low).clamp(min=1e-30)
        kappa = kappa.clamp(at_low, at_high)
        above = torch.maximum(at_low - kappa * box.low, at_high - kappa * box.high)
        if proof:  # convex, so a line that is above at both ends is above between them
            above = above + with_vanishing(box.unit.unsqueeze(-2) * (at_high - kappa * box.low))
        middle = box.middle - box.shift
        total = (kappa * middle + above).sum(-2)
        value = middle[..., 0, :].exp() / total
        share = kappa * (value / total).unsqueeze(-2)
        return self._plane(box, value, value, share, -1.0 if proof else 0.0)

    def _above(self, box: _Box, proof: bool) -> Line:
        """Return a + c·(tangent of log p), with a + c·v the chord of exp between the ends of log p."""
        ends = self._logarithms(box)
        low, high = (v.exp() for v in ends)
        rise = ((high - low) / (ends.upper - ends.lower).clamp(min=1e-30)).clamp(low, high)
        offset = torch.maximum(low - rise * ends.lower, high - rise * ends.upper)
        middle = box.middle - box.shift
        log = middle[..., 0, :] - middle.logsumexp(-2)
        size = high + rise * (1.0 - ends.lower)
        share = middle.softmax(-2) * rise.unsqueeze(-2)
        plane = self._plane(box, offset + rise * log, rise, share, 1.0 if proof else 0.0)
        return Line(plane.slope, plane.intercept + with_vanishing(box.unit * size)) if proof else plane

    def _plane(self, box: _Box, value: Tensor, own: Tensor, share: Tensor, outward: float) -> Line:
        """Return value + own·(x_0 − m_0) − Σ share_i·(x_i − m_i) through the middle m, with its rounding.

        Slopes are taken as they are computed; what they are off by moves the plane by that times the radius at most.
        """
        slope = -share
        slope[..., 0, :] += own
        intercept = value - (slope * box.middle).sum(-2)
        if not outward:
            return Line(slope, intercept)
        sizes = (share * (box.radius + box.middle.abs())).sum(-2)
        sizes = sizes + own * (box.radius + box.middle.abs())[..., 0, :] + value.abs()
        return Line(slope, intercept + outward * with_vanishing(box.unit * sizes))

    def _logarithms(self, box: _Box) -> Interval:
        """Bound log p, rounded outward: it is least with its own entry least and all others largest."""
        own = box.low[..., 0, :], box.high[..., 0, :]
        others = box.high[..., 1:, :], box.low[..., 1:, :]
        ends = []
        for entry, rest, outward in zip(own, others, (-1.0, 1.0), strict=True):
            value = entry - torch.cat([entry.unsqueeze(-2), rest], -2).logsumexp(-2)
            ends.append((value + outward * box.unit * (1.0 + value.abs())).clamp(max=0.0))
        return Interval(*ends)

    def initial(self, h: Interval) -> Tensor:
        return torch.zeros_like(h.lower)

    def range(self, h: Interval) -> Interval:
        """Return the extremes, which are those of log p."""
        box = _Box.of(h)
        lower, upper = (v.exp() for v in self._logarithms(box))
        off = LIBM * UNIT[lower.dtype]
        lost = with_vanishing(lower * 0.0)
        return Interval(lower * (1.0 - off) - lost, (upper * (1.0 + off) + lost).clamp(max=1.0))

    def steepest(self, h: Interval) -> Tensor:
        """Return the largest p, for every operand.

        The slope of a chord of exp is at most its value at the middle, so no share of the sum of lines is above 1;
        and a chord of exp on log p is no steeper than its upper end.
        """
        return (self.range(h).upper * (1.0 + 2.0**-20)).unsqueeze(-2).expand_as(h.lower)

    def loss(self, h: Interval) -> Tensor:
        extremes = self.range(h)
        return extremes.upper - extremes.lower
