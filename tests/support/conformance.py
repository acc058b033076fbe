"""What every relaxation must pass: its lines, range and slopes against the function itself, at many points."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.relax import Line, Lines, Relaxation
from netproof.relax.parallel import parallel_planes
from netproof.relax.slots import Slots
from support.rational import exact

PARAMETERS = (0.0, 0.25, 0.6, 1.0)
Bounds = tuple[tuple[float, float], ...]  # by operand
Point = tuple[Fraction, ...]


@dataclass(frozen=True)
class Conformance:
    """A relaxation, the exact function it is of, and bounds to try it on, by operand where there are several."""

    relaxation: Relaxation
    function: Callable[..., Fraction]
    bounds: list[tuple[float, float]] | list[Bounds]

    @property
    def arity(self) -> int:
        return self.relaxation.arity

    @property
    def boxes(self) -> list[Bounds]:
        return [b if self.arity > 1 else (b,) for b in self.bounds]  # type: ignore[misc]

    @property
    def h(self) -> Interval:
        """(n,) each, or (arity, n)."""
        sides = torch.tensor(self.boxes, dtype=torch.float64).permute(2, 1, 0)  # (side, operand, n)
        return Interval(*(side if self.arity > 1 else side[0] for side in sides))

    def operands(self, t: Tensor) -> Tensor:
        """(arity, n), of what has no axis for a single operand."""
        return t if self.arity > 1 else t[None]

    @cached_property
    def points(self) -> list[list[Point]]:
        """By bounds, exact points: ends, the split points, and some between; of several operands their products."""
        split = self.operands(self.relaxation.split_point(self.h)).T.tolist()
        found = []
        for box, at in zip(self.boxes, split, strict=True):
            axes = [self._axis(*bounds, point) for bounds, point in zip(box, at, strict=True)]
            found.append(list(itertools.product(*axes)))
        return found

    @cached_property
    def values(self) -> list[list[tuple[Point, Fraction]]]:
        """By bounds, points with the function there, which every check needs and many digits take time for."""
        return [[(x, self.function(*x)) for x in points] for points in self.points]

    def _axis(self, low: float, high: float, point: float) -> list[Fraction]:
        a, b, steps = Fraction(low), Fraction(high), 31 if self.arity == 1 else 7 - self.arity
        between = [a + (b - a) * Fraction(i, steps) for i in range(steps + 1)]
        return [*between, min(max(Fraction(point), a), b)]

    def check(self) -> None:
        """Run every check."""
        self.check_lines()
        self.check_range_and_slopes()
        self.check_linear_parts()
        self.check_gradient()
        self.check_parameters_and_points()
        self.check_parallel()
        if self.arity > 1:
            self.check_slots()

    def check_slots(self) -> None:
        """By slots, as the engine sees it, it says the same."""
        slots, h = Slots(self.relaxation), self.h
        flat = Interval(h.lower.flatten(), h.upper.flatten())
        for own, by_slots in (
            (self.relaxation.initial(h), slots.initial(flat)),
            (self.relaxation.split_point(h), slots.split_point(flat)),
            (self.relaxation.splittable(h), slots.splittable(flat)),
            (self.relaxation.steepest(h), slots.steepest(flat)),
            (self.relaxation.unstable(h).repeat(self.arity), slots.unstable(flat)),
            (self.relaxation.loss(h).repeat(self.arity), slots.loss(flat)),
        ):
            assert torch.equal(own.flatten(), by_slots)
        t = torch.linspace(0, 1, h.lower.numel(), dtype=torch.float64)
        mine, theirs = (
            self.relaxation.family(h, proof=True).at(t.view_as(h.lower)),
            slots.family(flat, proof=True).at(t),
        )
        count = h.lower.shape[1]
        assert torch.equal(mine.lower_slope.flatten(), theirs.lower_slope)
        assert torch.equal(mine.upper_slope.flatten(), theirs.upper_slope)
        for one, other in zip(mine[2:], theirs[2:], strict=True):
            if one is not None:
                assert torch.equal(one, other[:count])
                assert not bool(other[count:].any())
        coef, at = torch.full_like(flat.lower, -1.0), flat.lower * 0.25 + flat.upper * 0.75
        found, expected = torch.empty_like(at), torch.empty_like(h.lower)
        slots.family(flat, proof=False).gradient(t, coef, at, found)
        self.relaxation.family(h, proof=False).gradient(t.view_as(h.lower), coef[:count], at.view_as(h.lower), expected)
        assert torch.equal(found, expected.flatten())

    def lines(self, t: float, *, proof: bool = True) -> Lines:
        h = self.h
        return self.relaxation.family(h, proof=proof).at(torch.full_like(h.lower, t))

    def sides(self, t: float) -> tuple[Line, Line]:
        """The lower and the upper line of a proof, slopes (arity, n)."""
        lines = self.lines(t)
        below = torch.zeros_like(lines.upper_intercept) if lines.lower_intercept is None else lines.lower_intercept
        lower, upper = self.operands(lines.lower_slope), self.operands(lines.upper_slope)
        return Line(lower, below), Line(upper, lines.upper_intercept)

    def exact_sides(self, t: float) -> list[Callable[[int, Point], Fraction]]:
        """The same as exact functions of the place among the bounds and of a point."""

        def function(line: Line) -> Callable[[int, Point], Fraction]:
            slopes, offset = [exact(slope) for slope in line.slope], exact(line.intercept)
            return lambda i, x: sum((slope[i] * v for slope, v in zip(slopes, x, strict=True)), offset[i])

        return [function(line) for line in self.sides(t)]

    def check_lines(self) -> None:
        """In real arithmetic, without a tolerance, the function lies between the lines of a proof."""
        for t in PARAMETERS:
            lower, upper = self.exact_sides(t)
            for i, values in enumerate(self.values):
                for x, value in values:
                    assert lower(i, x) <= value <= upper(i, x), (self.bounds[i], t, x)

    def check_parallel(self) -> None:
        """In real arithmetic, without a tolerance, the function lies between its parallel planes."""
        h, by_slots = self.h, Slots(self.relaxation) if self.arity > 1 else self.relaxation
        flat, count = Interval(h.lower.flatten(), h.upper.flatten()), h.lower.shape[-1]
        for t, falls in ((0.25, False), (0.6, True)):
            given = torch.full_like(flat.lower, t), torch.full((count,), falls)
            slope, low, high = (exact(t) for t in parallel_planes(by_slots, flat, *given))
            for i, values in enumerate(self.values):
                for x, value in values:
                    left = value - sum((slope[i + k * count] * v for k, v in enumerate(x)), Fraction(0))
                    assert low[i] <= left <= high[i], (self.bounds[i], t, x)

    def check_range_and_slopes(self) -> None:
        h = self.h
        low, high = (exact(side) for side in self.relaxation.range(h))
        steepest, rounding = self.operands(self.relaxation.steepest(h)), self.relaxation.rounding(h, 1.0)
        for i, values in enumerate(self.values):
            assert all(low[i] <= value <= high[i] for _, value in values), self.bounds[i]
        for t in PARAMETERS:
            for slope, offset in self.sides(t):
                assert bool((slope.abs() <= steepest).all())
                size = (slope.abs() * self.operands(h.magnitude)).sum(0) + offset.abs()
                assert bool((size <= rounding * (1 + 1e-12)).all())

    def check_linear_parts(self) -> None:
        """Where it says that it is linear, both lines are the function itself, exactly."""
        linear = self.relaxation.linear_on(self.h).tolist()
        lower, upper = self.exact_sides(0.3)
        for i, values in enumerate(self.values):
            for x, value in values if linear[i] else []:
                assert lower(i, x) == upper(i, x) == value, self.bounds[i]

    def check_gradient(self) -> None:
        """Its sign is that of a small step in t, for either line."""
        h = self.h
        family, t = self.relaxation.family(h, proof=False), torch.full_like(h.lower, 0.4)
        at, n = h.lower * 0.3 + h.upper * 0.7, h.lower.shape[-1]
        for coef in (1.0, -1.0):
            found = torch.empty_like(at)
            family.gradient(t, torch.full((n,), coef, dtype=at.dtype), at, found)
            for operand in range(self.arity):
                step = torch.zeros_like(t)
                self.operands(step)[operand] = 1e-6
                value = [self._line(family.at(t + s * step), coef, at) for s in (-1, 1)]
                moved = coef * (value[1] - value[0])
                unstable, own = self.relaxation.unstable(h), self.operands(found)[operand]
                clear = (moved.abs() > 1e-9) & unstable
                assert bool((moved.sign() == own.sign())[clear].all())
                if self.arity > 1:  # of a single one a factor may be left out, 0 too
                    assert bool((own.abs() < 1e-3)[(moved == 0) & unstable].all())

    def check_parameters_and_points(self) -> None:
        h = self.h
        t, point = self.relaxation.initial(h), self.relaxation.split_point(h)
        assert t.shape == point.shape == h.lower.shape
        assert bool(((t >= 0) & (t <= 1)).all())
        able = self.relaxation.splittable(h)
        assert bool((~self.operands(able) | self.relaxation.unstable(h)).all())
        assert bool(((point > h.lower) & (point < h.upper))[able].all())

    def _line(self, lines: Lines, coef: float, at: Tensor) -> Tensor:
        if coef > 0:
            below = 0.0 if lines.lower_intercept is None else lines.lower_intercept
            return self.operands(lines.lower_slope * at).sum(0) + below
        return self.operands(lines.upper_slope * at).sum(0) + lines.upper_intercept


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


def usual_boxes(seed: int, arity: int) -> list[Bounds]:
    """The usual bounds in other orders for each operand, and those of one alone beside a point of the others."""
    axes = [usual_bounds(seed + k) for k in range(arity)]
    orders = [
        torch.randperm(len(axes[0]), generator=torch.Generator().manual_seed(seed + k)).tolist() for k in range(arity)
    ]
    found = [tuple(axis[order[i]] for axis, order in zip(axes, orders, strict=True)) for i in range(len(axes[0]))]
    return [*found, ((0.5, 0.5),) * (arity - 1) + ((-1.0, 2.0),), ((-1.0, 2.0),) + ((-0.25, -0.25),) * (arity - 1)]
