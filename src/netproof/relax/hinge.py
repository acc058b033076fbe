"""max(h, a·h): ReLU with a = 0, leaky ReLU with a < 1. Equation (5) of the paper, for any a."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.core.forms import Interval
from netproof.numerics import raised, rounding, up, with_vanishing
from netproof.relax.lines import Corners, Fan, Lines
from netproof.relax.relaxation import Relaxation


@dataclass(frozen=True)
class HingeRelaxation(Relaxation):
    """Convex, so any slope in [a, 1] is a lower line and the chord is the best upper one. t runs from a to 1.

    Where a split holds h on one side, g is linear and equation (5) has that line on both sides. With `free_splits` the
    lower line keeps any slope s in [a, 1] there, as in the authors' released code: for h >= 0, g = h >= s·h, and for
    h <= 0, g = a·h >= s·h. A coefficient A > 0 of g then has A·g >= A·s·h = A·h − β·h with β = A(1 − s) on the right,
    and A·g >= A·a·h + β·h with β = A(s − a) on the left: the slope is a multiplier of the split, from 0 to A(1 − a).

    On bounds twice as wide as the largest |h| = m the chord's intercept (1 − a)·|l|·u / (u − l) is (1 − a)·m at most,
    which is within the 2·max(1, |a|)·m that `rounding` takes it for.
    """

    leak: float
    free_splits: bool = False
    kink = 0.0
    stretch = 2.0

    def linear_on(self, h: Interval) -> Tensor:
        return ~self.unstable(h)

    def unstable(self, h: Interval) -> Tensor:
        """Say where both signs are possible; empty bounds count as stable."""
        return (h.lower < 0) & (h.upper > 0)

    def with_free_splits(self) -> HingeRelaxation:
        return replace(self, free_splits=True)

    def _held(self, h: Interval) -> Tensor:
        """Say where h ends at 0, as a split leaves it, and is more than that point."""
        return ((h.lower == 0) & (h.upper > 0)) | ((h.lower < 0) & (h.upper == 0))

    def family(self, h: Interval, *, proof: bool) -> Fan:
        lower, upper = h
        unstable = self.unstable(h)
        stable = ~unstable  # filling by a mask is one operation on a device, choosing between two tensors often two
        rise = upper if self.leak == 0.0 else upper - self.leak * lower
        chord = rise / (upper - lower).masked_fill(stable, 1.0)
        slope = torch.where(unstable, chord, self._stable_slope(lower))
        intercept = (self.leak - slope) * lower
        if proof:
            # The chord's slope is rounded, so the line must be lifted to lie above g at both ends; g is
            # convex, so between them it then lies above too. Three roundings make each product.
            right = (1.0 - slope) * upper
            intercept = up(raised(torch.maximum(intercept, right), 8, lower.dtype))
        intercept = intercept.masked_fill(stable, 0.0)
        # Any slope of `fan` is sound, whatever rounding made of it, as `Fan` keeps it in [a, 1] (a <= 1). And no line
        # through 0 with such a slope costs more than `rounding` charges for every neuron, split or not.
        fan = unstable | self._held(h) if self.free_splits else unstable
        low, high = slope.masked_fill(fan, self.leak), slope.masked_fill(fan, 1.0) if proof else None
        span = fan.to(lower.dtype)
        span = span if self.leak == 0.0 else span * (1.0 - self.leak)
        return Fan(low, span, slope, intercept, high)

    def _stable_slope(self, lower: Tensor) -> Tensor:
        active = (lower >= 0).to(lower.dtype)
        return active if self.leak == 0.0 else active + (1.0 - active) * self.leak

    def initial(self, h: Interval) -> Tensor:
        """Return CROWN's choice: 1 where u > |l|, else a."""
        return (h.upper > -h.lower).to(h.lower.dtype)

    def parallel(self, h: Interval) -> Tensor:
        """Return u / (u − l), Wong and Kolter's choice, whatever a is; anything where g is linear."""
        low, high = h.lower.clamp(max=0.0), h.upper.clamp(min=0.0)
        return (high / (high - low).clamp(min=torch.finfo(low.dtype).tiny)).clamp(0.0, 1.0)

    def value(self, x: Tensor) -> Tensor:
        """Return g(x), with one rounding where a is neither 0 nor 1."""
        return x.relu() if self.leak == 0.0 else F.leaky_relu(x, self.leak)

    def range(self, h: Interval) -> Interval:
        """Return the extremes, which lie at the ends and at 0."""
        ends = self.value(h.lower), self.value(h.upper)
        if self.leak == 0.0:
            return Interval(*ends)
        least, most = torch.minimum(*ends), torch.maximum(*ends)
        least = torch.where(self.unstable(h), least.clamp(max=0), least)
        below, above = (rounding(end.abs(), 2, end.dtype) for end in (least, most))
        # A product a·h may underflow; of h >= 0 nothing is rounded.
        lost = with_vanishing(torch.zeros_like(least)) * (h.lower < 0)
        return Interval(least - below - lost, most + above + lost)

    def steepest(self, h: Interval) -> Tensor:
        return torch.full_like(h.lower, max(1.0, abs(self.leak)))

    def rounding(self, h: Interval, unit: float, times: int = 1) -> Tensor:
        """Charge 2·steepest·|h| for the intercept: the lines pass through g at the ends, or through 0.

        A bound of h that was rounded out of the subnormals (numerics.float32_down) is at most 1e-37 larger.
        """
        return (h.magnitude + 1e-37) * ((times + 2) * max(1.0, abs(self.leak)) * unit)

    def splittable(self, h: Interval) -> Tensor:
        return self.unstable(h)

    def sides(self, h: Interval) -> tuple[Tensor, Tensor]:
        return torch.full_like(h.lower, self.leak), torch.ones_like(h.lower)

    def hull(self, h: Interval) -> Corners:
        between = torch.where(self.unstable(h), 0.0, torch.inf).to(h.lower.dtype)
        return Corners(self.value(h.lower), self.value(h.upper), between)

    def loss(self, h: Interval) -> Tensor:
        """Return the chord's height at 0."""
        return -h.lower * h.upper / (h.upper - h.lower).clamp(min=1e-30) * (1.0 - self.leak)

    def gap(self, h: Interval, lines: Lines) -> Tensor:
        """Return the largest distance of the lower line from g, which is at an end since g is convex."""
        low, high = (self.value(x) - lines.lower_slope * x for x in h)
        return torch.maximum(low, high).clamp(min=0)

    def lost(self, coef: Tensor, h: Interval, lines: Lines, *, free: bool) -> Tensor:
        """Return −min(coef, 0) times the chord's height at 0; unless `free`, the lower line's gap too."""
        negative = coef.clamp(max=0)
        above = -negative * lines.upper_intercept
        return above if free else above + (coef - negative) * self.gap(h, lines)
