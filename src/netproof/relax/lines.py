"""The lines between which a nonlinearity lies, and families of them that a parameter runs through."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.numerics import few_roundings, with_vanishing


class Lines(NamedTuple):
    """lower_slope·h + lower_intercept <= g(h) <= upper_slope·h + upper_intercept; all broadcast to (*lead, *node).

    Of a function of several operands the slopes have an axis more, for the operands.
    """

    lower_slope: Tensor
    upper_slope: Tensor
    upper_intercept: Tensor
    lower_intercept: Tensor | None = None  # None: 0, so that nobody pays for what most relaxations do not have


class Line(NamedTuple):
    """slope·h + intercept."""

    slope: Tensor
    intercept: Tensor


class Corners(NamedTuple):
    """The corners of the convex hull of {(h, g(h))} on the bounds: at both ends, and at most one between them."""

    at_lower: Tensor  # g(l), g(u)
    at_upper: Tensor
    between: Tensor  # g at the kink, which lies at h = 0; +inf where g is linear on the bounds


class Family(ABC):
    """The lines of neurons on given bounds, for every value of one parameter t in [0, 1] for each of them.

    One is enough: a bound uses one line of a neuron, by the sign of its coefficient, so t may move both at once.
    """

    @abstractmethod
    def at(self, t: Tensor) -> Lines:
        """Return the lines at t, which broadcasts with the bounds; differentiable in t."""

    @abstractmethod
    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        """Write ∂/∂t of coef·(line at h) to `out`, the lower line where coef > 0 and the upper one where coef < 0.

        A positive factor for each neuron may be left out: the ascent scales its steps by itself.
        """

    @abstractmethod
    def select(self, index: Tensor) -> Family:
        """Return the family of some sub-domains, the first axis; where all share one, it stays shared."""


@dataclass(frozen=True, eq=False)
class Fan(Family):
    """Lower lines through the origin with the slopes low + t·span, and one upper line: a convex hinge."""

    low: Tensor  # the upper slope, where the function is linear, and the span 0
    span: Tensor
    upper_slope: Tensor
    upper_intercept: Tensor
    high: Tensor | None  # in a proof: the largest slope, beyond which rounding may not take it

    def at(self, t: Tensor) -> Lines:
        slope = torch.addcmul(self.low, t, self.span)
        if self.high is not None:
            slope = slope.clamp(min=self.low, max=self.high)
        return Lines(slope, self.upper_slope, self.upper_intercept)

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        torch.mul(coef.clamp(min=0), h, out=out)

    @staticmethod
    def joined(fans: Sequence[Fan]) -> Fan:
        """Return one family for the neurons of several, along the last axis."""
        low, span, slope, intercept = (torch.cat(part, -1) for part in zip(*(f._tensors() for f in fans), strict=True))
        highs = [fan.high for fan in fans if fan.high is not None]
        return Fan(low, span, slope, intercept, torch.cat(highs, -1) if highs else None)

    def select(self, index: Tensor) -> Fan:
        low, span, slope, intercept = (t if t.shape[0] == 1 else t[index] for t in self._tensors())
        high = self.high if self.high is None or self.high.shape[0] == 1 else self.high[index]
        return Fan(low, span, slope, intercept, high)

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.low, self.span, self.upper_slope, self.upper_intercept


@dataclass(frozen=True, eq=False)
class One(Family):
    """One line on either side, whatever t is."""

    lines: Lines

    def at(self, t: Tensor) -> Lines:
        return self.lines

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        out.zero_()

    def select(self, index: Tensor) -> One:
        return One(Lines(*(t if t is None or t.shape[0] == 1 else t[index] for t in self.lines)))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Mix(Family):
    """Two lower lines and two upper ones, mixed by t: between lines that are sound, all are.

    What g is when it is exactly linear, both lower lines and both upper ones must be, with no rounding. Of several
    operands, slopes and `reach` are (*lead, operand, n), intercepts (*lead, n); the first operand's t mixes the lower
    planes and the last one's the upper planes.
    """

    lower: tuple[Line, Line]
    upper: tuple[Line, Line]
    reach: Tensor | None  # in a proof: the largest |h|, which says what rounding a slope may cost

    @property
    def _planes(self) -> bool:
        """Say whether g has several operands."""
        return self.lower[0].slope.dim() > self.lower[0].intercept.dim()

    def at(self, t: Tensor) -> Lines:
        below, above = (t[..., 0, :], t[..., -1, :]) if self._planes else (t, t)
        lower, upper = self._mixed(self.lower, below, -1.0), self._mixed(self.upper, above, 1.0)
        return Lines(lower.slope, upper.slope, upper.intercept, lower.intercept)

    def _mixed(self, pair: tuple[Line, Line], t: Tensor, outward: float) -> Line:
        first, second = pair
        by = Line(second.slope - first.slope, second.intercept - first.intercept)
        slope = torch.addcmul(first.slope, t.unsqueeze(-2) if self._planes else t, by.slope)
        intercept = torch.addcmul(first.intercept, t, by.intercept)
        if self.reach is not None:
            slopes = (first.slope.abs() + second.slope.abs()) * self.reach
            intercepts, one = first.intercept.abs() + second.intercept.abs(), by.slope == 0
            if self._planes:
                slopes, one = slopes.sum(-2), one.all(-2)
            vanished = with_vanishing(self.reach * 0.0) * self.reach  # of a slope, times what it is multiplied by
            vanished = vanished.sum(-2) if self._planes else vanished
            slack = with_vanishing(few_roundings(slopes + intercepts, 8, slope.dtype)) + vanished
            one = one & (by.intercept == 0)  # nothing was mixed, so nothing is rounded
            intercept = torch.where(one, intercept, intercept + outward * slack)
        return Line(slope, intercept)

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        out.zero_()
        below, above = (out[..., 0, :], out[..., -1, :]) if self._planes else (out, out)
        sides = (below, coef.clamp(min=0), self.lower), (above, coef.clamp(max=0), self.upper)
        for into, side, (first, second) in sides:
            change = (second.slope - first.slope) * h
            change = change.sum(-2) if self._planes else change
            into += side * (change + (second.intercept - first.intercept))

    def select(self, index: Tensor) -> Mix:
        def some(t: Tensor) -> Tensor:
            return t if t.shape[0] == 1 else t[index]

        lower, upper = (tuple(Line(*map(some, line)) for line in pair) for pair in (self.lower, self.upper))
        reach = None if self.reach is None else some(self.reach)
        return Mix(lower, upper, reach)  # type: ignore[arg-type]
