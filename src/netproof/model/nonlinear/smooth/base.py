"""A smooth function g of one variable, as evaluation and bounds see it.

What is trusted of a library's exp, log and the like is one number, `LIBM` in `netproof.numerics`; each function says
how large the numbers are that it is made of (`sizes`), and what it may be off by follows.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from netproof.model.ops import Nonlinear
from netproof.numerics import LIBM, enlarged, few_roundings, with_vanishing

TOO_LARGE = "its values or slopes go beyond 2^96 (about 8e28), too large to compute with, on its argument"  # see HUGE


class Smooth(Nonlinear):
    """A function with a slope wherever it is defined. Subclasses are frozen dataclasses that hold numbers only."""

    bends: ClassVar[tuple[float, ...]] = ()  # where the slope is largest or least: the inflections, nearly
    turns: ClassVar[tuple[float, ...]] = ()  # where g is largest or least: its slope is 0 there, nearly
    least: ClassVar[float] = -torch.inf  # bounds of g that hold everywhere, exactly
    most: ClassVar[float] = torch.inf
    undefined: ClassVar[str | None] = None  # where g is not `defined`, in words; None: it is everywhere
    corners: tuple[tuple[float, float, float], ...] = ()  # (point, slope left of it, slope right of it): g bends there
    straight: tuple[tuple[float, float, float, float], ...] = ()  # (from, to, slope, intercept): g is exactly that line

    @abstractmethod
    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return g(x) and g'(x), from the same intermediate results."""

    @abstractmethod
    def sizes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return how large the numbers are that g(x) and g'(x) are computed from.

        What is computed lies within `LIBM` roundings of that size, of exact arithmetic. Between two points a size is
        at most the larger of theirs.
        """

    def exists(self, lower: Tensor, upper: Tensor) -> Tensor:
        """Say where g is defined on all of the bounds."""
        return torch.ones_like(lower, dtype=torch.bool)

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        """Say where g is defined on all of the bounds, and its values and slopes are numbers to compute with."""
        return self.exists(lower, upper)

    def value(self, x: Tensor) -> Tensor:
        """Return g(x)."""
        return self.both(x)[0]

    def slope(self, x: Tensor) -> Tensor:
        """Return g'(x)."""
        return self.both(x)[1]

    # --- along the curve: at a corner the line turns, which takes a length of 1 ---

    def along(self, x: Tensor) -> Tensor:
        """Return how far along the curve g is at x: x itself, and 1 more for every corner before it."""
        for k, (point, _, _) in enumerate(self.corners):
            x = torch.where(x > point + k, x + 1.0, x)
        return x

    def touch(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return where the line that touches g so far along lies: the point, g there, and the line's slope."""
        if not self.corners:
            return s, *self.both(s)
        x = s
        for k, (point, _, _) in reversed(list(enumerate(self.corners))):
            x = torch.where(x > point + k, (x - 1.0).clamp(min=point + k), x)
        value, slope = self.both(x)
        for k, (point, left, right) in enumerate(self.corners):
            turned = (s - (point + k)).clamp(0.0, 1.0)
            slope = torch.where(x == point, left + turned * (right - left), slope)
        return x, value, slope

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return self.value(x)

    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        return coef * self.slope(x)

    def noise(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Bound how far g(x) and g'(x), computed here, may be from the exact ones."""
        value, slope = self.sizes(x)
        return tuple(with_vanishing(few_roundings(size, LIBM, x.dtype)) for size in (value, slope))  # type: ignore[return-value]

    def steepest(self, lower: Tensor, upper: Tensor) -> Tensor:
        """Bound |g'| on the bounds: it is largest at the ends or at a bend."""
        most = torch.zeros_like(lower)
        for x in self.places(lower, upper, self.bends):
            most = torch.maximum(most, self.slope(x).abs() + self.noise(x)[1])
        return enlarged(most)

    def places(self, lower: Tensor, upper: Tensor, points: tuple[float, ...]) -> list[Tensor]:
        """Return both ends and these points, each moved into the bounds."""
        return [lower, upper, *(torch.clamp(torch.full_like(lower, p), lower, upper) for p in points)]

    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        most = torch.maximum(self.sizes(x - e)[0], self.sizes(x + e)[0])
        own = with_vanishing(few_roundings(most, LIBM, dtype), dtype=dtype)
        brought = torch.where(e > 0, self.carried(x, e), 0.0)
        found = torch.where(self.exists(x - e, x + e), enlarged(brought + own), torch.inf)
        return found.nan_to_num(nan=torch.inf, posinf=torch.inf)

    def carried(self, x: Tensor, e: Tensor) -> Tensor:
        """Bound |g(x + d) − g(x)| for all |d| <= e."""
        return self.steepest(x - e, x + e) * e
