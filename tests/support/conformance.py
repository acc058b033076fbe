"""What every relaxation must pass: its lines, range and slopes against the function itself, at many points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.relax import Lines, Relaxation
from support.rational import Exact, exact

PARAMETERS = (0.0, 0.25, 0.6, 1.0)


@dataclass(frozen=True)
class Conformance:
    """A relaxation, the exact function it is of, and bounds to try it on."""

    relaxation: Relaxation
    function: Callable[[Fraction], Fraction]
    bounds: list[tuple[float, float]]

    @property
    def h(self) -> Interval:
        low, high = zip(*self.bounds, strict=True)
        return Interval(torch.tensor(low, dtype=torch.float64), torch.tensor(high, dtype=torch.float64))

    def points(self) -> list[list[Fraction]]:
        """By bounds, exact points: both ends, the split point, and thirty between."""
        split = self.relaxation.split_point(self.h).tolist()
        found = []
        for (low, high), point in zip(self.bounds, split, strict=True):
            a, b = Fraction(low), Fraction(high)
            between = [a + (b - a) * Fraction(i, 31) for i in range(32)]
            found.append([*between, min(max(Fraction(point), a), b)])
        return found

    def check(self) -> None:
        """Run every check."""
        self.check_lines()
        self.check_range_and_slopes()
        self.check_linear_parts()
        self.check_gradient()
        self.check_parameters_and_points()

    def lines(self, t: float, *, proof: bool = True) -> Lines:
        h = self.h
        return self.relaxation.family(h, proof=proof).at(torch.full_like(h.lower, t))

    def exact_lines(self, t: float) -> list[tuple[Exact, Exact]]:
        """The lower and the upper line of a proof, each as slopes and intercepts by bounds."""
        lines = self.lines(t)
        offset = torch.zeros_like(lines.lower_slope) if lines.lower_intercept is None else lines.lower_intercept
        return [
            (exact(lines.lower_slope), exact(offset)),
            (exact(lines.upper_slope), exact(lines.upper_intercept)),
        ]

    def check_lines(self) -> None:
        """In real arithmetic, without a tolerance, the function lies between the lines of a proof."""
        for t in PARAMETERS:
            lines = self.exact_lines(t)
            for i, points in enumerate(self.points()):
                for x in points:
                    below, above = (line[0][i] * x + line[1][i] for line in lines)
                    assert below <= self.function(x) <= above, (self.bounds[i], t, float(x))

    def check_range_and_slopes(self) -> None:
        h = self.h
        low, high = (exact(side) for side in self.relaxation.range(h))
        steepest, rounding = self.relaxation.steepest(h), self.relaxation.rounding(h, 1.0)
        for i, points in enumerate(self.points()):
            assert all(low[i] <= self.function(x) <= high[i] for x in points), self.bounds[i]
        for t in PARAMETERS:
            lines = self.lines(t)
            sides = ((lines.lower_slope, lines.lower_intercept), (lines.upper_slope, lines.upper_intercept))
            for slope, offset in sides:
                assert bool((slope.abs() <= steepest).all())
                size = slope.abs() * h.magnitude + (0.0 if offset is None else offset.abs())
                assert bool((size <= rounding * (1 + 1e-12)).all())

    def check_linear_parts(self) -> None:
        """Where it says that it is linear, both lines are the function itself, exactly."""
        linear = self.relaxation.linear_on(self.h).tolist()
        lines = self.exact_lines(0.3)
        for i, points in enumerate(self.points()):
            for x in points if linear[i] else []:
                both = [line[0][i] * x + line[1][i] for line in lines]
                assert both == [self.function(x)] * 2, self.bounds[i]

    def check_gradient(self) -> None:
        """Its sign is that of a small step in t, for either line."""
        h = self.h
        family, t = self.relaxation.family(h, proof=False), torch.full_like(h.lower, 0.4)
        for coef in (1.0, -1.0):
            at = (h.lower * 0.3 + h.upper * 0.7).clone()
            value = [_line(family.at(t + s), coef, at) for s in (-1e-6, 1e-6)]
            moved = coef * (value[1] - value[0])
            found = torch.empty_like(at)
            family.gradient(t, torch.full_like(at, coef), at, found)
            clear = (moved.abs() > 1e-9) & self.relaxation.unstable(h)
            assert bool((moved.sign() == found.sign())[clear].all())

    def check_parameters_and_points(self) -> None:
        h = self.h
        t, point = self.relaxation.initial(h), self.relaxation.split_point(h)
        assert bool(((t >= 0) & (t <= 1)).all())
        able = self.relaxation.splittable(h)
        assert bool((~able | self.relaxation.unstable(h)).all())
        assert bool(((point > h.lower) & (point < h.upper))[able].all())


def _line(lines: Lines, coef: float, at: Tensor) -> Tensor:
    if coef > 0:
        return lines.lower_slope * at + (0.0 if lines.lower_intercept is None else lines.lower_intercept)
    return lines.upper_slope * at + lines.upper_intercept


def usual_bounds(seed: int = 0, around: float = 0.0) -> list[tuple[float, float]]:
    """Wide and narrow, on either side of a point and across it, and touching it."""
    random = torch.Generator().manual_seed(seed)
    found = [
        (around - 1.0, around + 2.0),
        (around, around + 1.0),
        (around - 1.5, around),
        (around + 0.5, around + 0.75),
    ]
    found += [(around, around), (around + 1.25, around + 1.25), (around - 1.25, around - 1.25)]
    for _ in range(40):
        low, width = torch.rand(2, generator=random, dtype=torch.float64).tolist()
        scale = 10.0 ** float(torch.randint(-6, 3, (1,), generator=random))
        found.append((around + scale * (2 * low - 1), around + scale * (2 * low - 1) + scale * width))
    return found
