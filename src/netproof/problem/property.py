"""A property as the set of its violations, in disjunctive form, with exact numbers.

A VNN-LIB file says what a *violation* is. Each disjunct is "x in this box and every row holds of x and y"; the
network satisfies the property when no x satisfies any disjunct.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netproof.problem.decimals import Decimals
from netproof.problem.derived import Derived, derived_values
from netproof.problem.networks.interface import Interface
from netproof.problem.rounding import Doubles, Floats, Rounded, Singles

if TYPE_CHECKING:
    from netproof.model.combined import LinearMap


@dataclass(frozen=True)
class Row:
    """sum_i coefs[i]·y_i + sum_j inputs[j]·x_j <= rhs, or < rhs when strict. A violation satisfies it.

    y is the outputs, and after them the derived values of the property, where it has some.
    """

    coefs: Mapping[int, Fraction]
    rhs: Fraction
    strict: bool = False
    inputs: Mapping[int, Fraction] = field(default_factory=dict)

    def value(self, x: Sequence[Fraction] | Mapping[int, Fraction], y: Sequence[Fraction]) -> Fraction:
        """Return sum_i coefs[i]·y_i + sum_j inputs[j]·x_j. What the row does not read need not be there."""
        of_outputs = sum((c * y[i] for i, c in self.coefs.items()), Fraction(0))
        return sum((c * x[j] for j, c in self.inputs.items()), of_outputs)

    def holds(self, x: Sequence[Fraction] | Mapping[int, Fraction], y: Sequence[Fraction]) -> bool:
        value = self.value(x, y)
        return value < self.rhs if self.strict else value <= self.rhs


@dataclass(frozen=True)
class Box:
    """lower <= x <= upper, exactly as written; `open_*` marks the bounds written with < or >."""

    lower: Sequence[Fraction]  # immutable: a tuple or Decimals
    upper: Sequence[Fraction]
    open_lower: frozenset[int] = frozenset()
    open_upper: frozenset[int] = frozenset()

    @cached_property
    def empty(self) -> bool:
        return any(
            self.lower[i] > self.upper[i]
            or (self.lower[i] == self.upper[i] and (i in self.open_lower or i in self.open_upper))
            for i in self._narrow()
        )

    def _narrow(self) -> Sequence[int]:
        """Return the coordinates whose bounds may meet or cross; of decimals, floats exclude most of the others."""
        if not (isinstance(self.lower, Decimals) and isinstance(self.upper, Decimals)):
            return range(len(self.lower))
        narrow: list[int] = np.flatnonzero(self.lower.rounded.near >= self.upper.rounded.near).tolist()
        return narrow

    @cached_property
    def rounded(self) -> tuple[Rounded, Rounded]:
        """Round both sides to the nearest float64. OverflowError where a bound is beyond that."""
        return _rounded(self.lower), _rounded(self.upper)

    @cached_property
    def float32(self) -> tuple[Singles, Singles, tuple[int, ...]]:
        """Return the float32 points of the box: lower (n,), upper (n,), rounded inward, and the pinned coordinates.

        A pinned coordinate is one number, which no float32 equals; it takes the nearest one, as both bounds. Proofs
        cover it too, since their box holds the nearest float32 of both its ends. Where an interval that is not one
        number holds no float32, its lower bound is above its upper one. The arrays are read-only.
        """
        low, high = self.rounded
        lower, upper = low.single_up(), high.single_down()
        return lower, upper, self._pin(lower, upper, (low.is_single(), high.is_single()))

    @cached_property
    def float64(self) -> tuple[Doubles, Doubles, tuple[int, ...]]:
        """Return the float64 points of the box as `float32` does its own; proofs cover them, rounded outward."""
        low, high = self.rounded
        lower, upper = low.up(), high.down()
        return lower, upper, self._pin(lower, upper, (low.rest == 0, high.rest == 0))

    def points(self, dtype: Any) -> tuple[Floats, Floats, tuple[int, ...]]:
        """Return the points of the box that a network whose input has this type takes: float64, or else float32."""
        return self.float64 if np.dtype(dtype) == np.float64 else self.float32

    def _pin(self, lower: Floats, upper: Floats, held: tuple[NDArray[np.bool_], NDArray[np.bool_]]) -> tuple[int, ...]:
        """Move bounds off open ends that their type holds, and pin what is one number that it has not, in place."""
        _step_inside(lower, self.open_lower, held[0], np.inf)
        _step_inside(upper, self.open_upper, held[1], -np.inf)
        pinned = tuple(i for i in np.flatnonzero(lower > upper).tolist() if self.lower[i] == self.upper[i])
        if pinned:
            numbers = Rounded.of([self.lower[i] for i in pinned])
            near = numbers.near if lower.dtype == np.float64 else numbers.single_near()
            lower[list(pinned)] = upper[list(pinned)] = near
        lower.flags.writeable = upper.flags.writeable = False
        return pinned

    def contains(self, x: Sequence[Fraction]) -> bool:
        return all(
            (lo < v if i in self.open_lower else lo <= v) and (v < hi if i in self.open_upper else v <= hi)
            for i, (lo, v, hi) in enumerate(zip(self.lower, x, self.upper, strict=True))
        )

    @cached_property
    def _hash(self) -> int:
        return hash((self.lower, self.upper, self.open_lower, self.open_upper))

    def __hash__(self) -> int:
        return self._hash  # thousands of fractions are hashed once, so that boxes are cheap keys


def _rounded(side: Sequence[Fraction]) -> Rounded:
    return side.rounded if isinstance(side, Decimals) else Rounded.of(side)


def _step_inside(bound: Floats, opened: frozenset[int], exact: NDArray[np.bool_], towards: float) -> None:
    """Move a bound off the end-point of an open interval, in place, where a number of its type lies right on it."""
    where = [i for i in opened if exact[i]]
    bound[where] = np.nextafter(bound[where], bound.dtype.type(towards))


@dataclass(frozen=True)
class Ball:
    """‖x − centre‖_p <= radius with p = 1 or 2, on top of the disjunct's box (around it, or clipping it)."""

    centre: tuple[Fraction, ...]
    radius: Fraction
    p: int

    def contains(self, x: Sequence[Fraction]) -> bool:
        """Decide exactly whether x is in the ball: for p = 2 the squares are compared, so no root is rounded."""
        gaps = [abs(v - c) for v, c in zip(x, self.centre, strict=True)]
        if self.p == 1:
            return sum(gaps, Fraction(0)) <= self.radius
        return self.radius >= 0 and sum((g * g for g in gaps), Fraction(0)) <= self.radius**2

    @cached_property
    def _hash(self) -> int:
        return hash((self.centre, self.radius, self.p))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Disjunct:
    """A conjunction: x in `box` (and in `ball`), and every row."""

    box: Box
    rows: tuple[Row, ...]
    ball: Ball | None = None

    def holds(self, x: Sequence[Fraction], y: Sequence[Fraction]) -> bool:
        """Say whether input x with output y is a violation of this kind."""
        inside = self.box.contains(x) and (self.ball is None or self.ball.contains(x))
        return inside and all(row.holds(x, y) for row in self.rows)


@dataclass(frozen=True)
class Property:
    """Inputs and outputs are flattened in row-major order of the file's shapes.

    No disjunct at all means that nothing is a violation. A disjunct without rows means that every input of
    its set is one. Boxes may be empty: the caller decides what to say about that.
    """

    disjuncts: tuple[Disjunct, ...]
    inputs: int
    outputs: int
    source: str = ""  # file name, for messages
    sha256: str = ""  # of the file as it is on disk; empty for a property made in Python
    derived: tuple[Derived, ...] = ()  # products and positive parts, which rows read after the outputs
    interface: Interface | None = None  # of VNN-LIB 2.0: the networks it declares, whose inputs and outputs these are
    map: LinearMap | None = None  # of inputs that are x = c + E ξ: then the boxes and rows are of ξ
    vacuous: str = ""  # why nothing is a violation, where the assertions alone say so
    spare: Fraction | None = None  # the margin of cases that are no disjunct, as no input can be one; None: not counted
    written: Property | None = None  # where the rows here are places of a last ArgMax, the property that they are of

    def __repr__(self) -> str:
        """Say how large it is and where it is from, without its numbers."""
        cases = f"{len(self.disjuncts)} case{'' if len(self.disjuncts) == 1 else 's'} of a violation"
        source = f", {self.source}" if self.source else ""
        return f"Property({cases}, {self.inputs} inputs, {self.outputs} outputs{source})"

    @cached_property
    def inputs_read(self) -> tuple[int, ...]:
        """Return the inputs that rows read, in order: none where every row is over outputs alone."""
        return tuple(sorted({j for disjunct in self.disjuncts for row in disjunct.rows for j in row.inputs}))

    def without_rows(self) -> Property:
        """Keep the input sets, each once, and drop all rows: then every input of theirs is a violation."""
        sets = {(id(d.box), id(d.ball)): Disjunct(d.box, (), d.ball) for d in self.disjuncts}
        return replace(self, disjuncts=tuple(sets.values()), derived=())

    def with_derived(self, x: Sequence[Fraction], y: Sequence[Fraction]) -> Sequence[Fraction]:
        """Return what rows read as y: the outputs, and the derived values at x and y."""
        return [*y, *derived_values(self.derived, x, y)] if self.derived else y

    def violated(self, x: Sequence[Fraction], y: Sequence[Fraction]) -> bool:
        values = self.with_derived(x, y)
        return any(disjunct.holds(x, values) for disjunct in self.disjuncts)
