"""From bounds on single inputs to the boxes of disjuncts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from netproof.errors import SpecError
from netproof.problem.formulas.clauses import Bound, Clause
from netproof.problem.property import Box

Unbounded = Callable[[int, str], SpecError]  # (input, "lower" or "upper") -> the error to raise


@dataclass
class _Sides:
    """A box in the making: the tightest bounds so far, None where there is none."""

    lower: list[Fraction | None]
    upper: list[Fraction | None]
    open_lower: set[int]
    open_upper: set[int]

    def copy(self) -> _Sides:
        return _Sides(self.lower.copy(), self.upper.copy(), self.open_lower.copy(), self.open_upper.copy())

    def tighten(self, bound: Bound) -> None:
        side, opened = (self.upper, self.open_upper) if bound.upper else (self.lower, self.open_lower)
        i, old = bound.index, side[bound.index]
        if old is None or (bound.value < old if bound.upper else bound.value > old):
            side[i] = bound.value
            opened.discard(i)
        elif bound.value != old:
            return
        if bound.strict:
            opened.add(i)

    def box(self, unbounded: Unbounded) -> Box:
        lower = [v for v in self.lower if v is not None]
        upper = [v for v in self.upper if v is not None]
        if len(lower) < len(self.lower) or len(upper) < len(self.upper):
            first = next(i for i, pair in enumerate(zip(self.lower, self.upper, strict=True)) if None in pair)
            raise unbounded(first, "lower" if self.lower[first] is None else "upper")
        return Box(tuple(lower), tuple(upper), frozenset(self.open_lower), frozenset(self.open_upper))


class Boxes:
    """The box of each disjunct; equal boxes are one object, so that what follows can share work."""

    def __init__(self, inputs: int, common: Clause, unbounded: Unbounded, box: Box | None = None) -> None:
        """Take what all disjuncts have in common: the bounds in `common`, and `box` where there is one."""
        self._unbounded = unbounded
        self._box = box
        self._common = [literal for literal in common if isinstance(literal, Bound)]
        self._inputs = inputs
        self._known: dict[Box, Box] = {}

    def of(self, option: Clause) -> Box:
        """Return the box of a disjunct that adds `option` to what all have in common."""
        bounds = [literal for literal in option if isinstance(literal, Bound)]
        if not bounds:
            return self._plain
        sides = self._base.copy()
        for bound in bounds:
            sides.tighten(bound)
        box = sides.box(self._unbounded)
        return self._known.setdefault(box, box)

    @cached_property
    def _plain(self) -> Box:
        if self._box is not None and not self._common:
            return self._box
        return self._base.box(self._unbounded)

    @cached_property
    def _base(self) -> _Sides:
        none: list[Fraction | None] = [None] * self._inputs
        sides = _Sides(none, none.copy(), set(), set())
        if self._box is not None:
            box = self._box
            sides = _Sides(list(box.lower), list(box.upper), set(box.open_lower), set(box.open_upper))
        for bound in self._common:
            sides.tighten(bound)
        return sides
