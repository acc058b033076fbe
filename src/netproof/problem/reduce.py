"""From a network and a property to the problems that a search answers.

Numbers are rounded so that what is proved covers what was written:

- the box grows outward until it holds both the exact decimals and their nearest float32 (or float64, where the
  network takes that); an interval that is more than one number and holds no float32 grows no further than its decimals;
- the ball's centre is the nearest float64, and its radius grows by the distance from there to the exact
  centre or to its nearest float32, whichever is larger;
- a row's right-hand side is rounded up, so that coef·y − offset is never above the exact row for exact
  coefficients. A coefficient that float64 cannot hold is rounded to the nearest, an error of one unit
  roundoff relative to it; error terms for a row's product charge one rounding more for that.

A constraint among inputs, or between inputs and outputs, is one more row, whose multiplier is found as any other's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import overload

import numpy as np
import torch

from netproof.errors import OutOfMemory, SpecError
from netproof.model.combined import AnyNetwork
from netproof.numerics import float_up, nearest_float32
from netproof.problem.extend import extended
from netproof.problem.last.order import before_last_map
from netproof.problem.problem import InputSet, Problem, Rows
from netproof.problem.property import Ball, Box, Disjunct, Property, Row
from netproof.problem.rounding import FLOAT32_MAX, Rounded

# Within these, float64's relative rounding error holds and products keep clear of overflow.
MIN_COEFFICIENT = Fraction(1, 10**150)
MAX_COEFFICIENT = Fraction(10**150)

MOST = 4  # times as many numbers as all rows of a part have, that those of one target may have

# A disjunct without rows is violated by every x: 0·y <= 0.
_ALWAYS = Row({}, Fraction(0))


def reduce(network: AnyNetwork, property: Property) -> list[Problem]:
    """Make one problem per distinct input set, with all disjuncts on it as targets.

    Disjuncts whose box is empty hold and are dropped; an empty list means that none was left to exclude.
    """
    return [problem for problems in Parts(network, property) for problem in problems]


class Parts(Sequence[list[Problem]]):
    """A property's problems, with the rows of some targets at a time: each part is made as it is asked for.

    A row has an entry for every output, so that the rows of a label against all other classes have the square of their
    number. Where all rows together have no more numbers than are given there is one part, and it is kept.
    """

    def __init__(self, network: AnyNetwork, property: Property, numbers: int | None = None) -> None:
        check_sizes(network, property)
        if property.inputs_read:
            property = replace(property, disjuncts=tuple(map(_without_idle_rows, property.disjuncts)))
        last, property = before_last_map(network, property)
        self._property, self._read = property, property.inputs_read
        # One graph for all, so that they share their work.
        several = property.derived or self._read
        self._graph = extended(last, property.derived, self._read) if several else last
        self._shape, self._dtype = network.input_shape, network.input_dtype
        self._members = list(self._some_at_a_time(_on_one_set(property.disjuncts), numbers))
        self._sets: dict[tuple[int, int], InputSet] = {}
        self._only: list[Problem] | None = None

    def _some_at_a_time(self, sets: Sequence[list[int]], numbers: int | None) -> Iterator[list[list[int]]]:
        """Yield by part, the members that are asked about on each of its input sets."""
        if numbers is None:
            yield from [list(sets)] if sets else []
            return
        longest = max((len(disjunct.rows) for disjunct in self._property.disjuncts), default=0)
        each = max(1, longest * self._columns)
        if each > MOST * numbers:
            raise OutOfMemory(
                f"one case of a violation has {longest} constraints over {self._columns} values, too many to hold",
                file=self._property.source or None,
                remedy="give fewer constraints, or more memory",
            )
        fit = max(1, numbers // each)
        part: list[list[int]] = []
        room = fit
        for members in sets:
            if part and len(members) > room:
                yield part
                part, room = [], fit
            pieces = [members[begin : begin + fit] for begin in range(0, len(members), fit)]
            yield from ([piece] for piece in pieces[:-1])
            part.append(pieces[-1])
            room -= len(pieces[-1])
        if part:
            yield part

    @property
    def _width(self) -> int:
        return self._property.outputs + len(self._property.derived)

    @property
    def _columns(self) -> int:
        return self._width + len(self._read)

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, index: int) -> list[Problem]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Problem]]: ...
    def __getitem__(self, index: int | slice) -> list[Problem] | list[list[Problem]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if self._only is not None and index == 0:
            return self._only
        made = [self._problem(members) for members in self._members[index]]
        if len(self) == 1:
            self._only = made
        return made

    def _problem(self, members: list[int]) -> Problem:
        disjuncts = [self._property.disjuncts[i] for i in members]
        problem_rows = rows(disjuncts, self._width, self._property.source, self._read)
        return Problem(self._graph, self._set_of(disjuncts[0]), problem_rows, tuple(members))

    def input_sets(self, most: int) -> list[InputSet]:
        """Return the input sets of the first problems, `most` of them at most."""
        first = (self._property.disjuncts[members[0]] for part in self._members for members in part)
        distinct = {(id(disjunct.box), id(disjunct.ball)): disjunct for disjunct in first}
        return [self._set_of(disjunct) for disjunct in list(distinct.values())[:most]]

    def _set_of(self, disjunct: Disjunct) -> InputSet:
        key = id(disjunct.box), id(disjunct.ball)  # the property keeps both
        if key not in self._sets:
            self._sets[key] = input_set(disjunct.box, disjunct.ball, self._shape, self._property.source, self._dtype)
        return self._sets[key]


def _without_idle_rows(disjunct: Disjunct) -> Disjunct:
    """Drop the rows of inputs alone that hold on the whole box: a search would only have to learn that λ_j = 0.

    Without them there can only be more violations, so a proof stays a proof; a witness is checked against them.
    """
    return replace(disjunct, rows=tuple(row for row in disjunct.rows if row.coefs or not _holds_on(disjunct.box, row)))


def _holds_on(box: Box, row: Row) -> bool:
    """Say whether a row of inputs alone holds at every point of the box."""
    return row.holds({j: box.upper[j] if c > 0 else box.lower[j] for j, c in row.inputs.items()}, ())


def _on_one_set(disjuncts: Sequence[Disjunct]) -> list[list[int]]:
    """Group the disjuncts whose box is not empty by their input set, in order."""
    same: dict[tuple[int, int], list[int]] = {}  # by identity first: thousands of fractions are slow to hash
    for index, disjunct in enumerate(disjuncts):
        if not disjunct.box.empty:
            same.setdefault((id(disjunct.box), id(disjunct.ball)), []).append(index)
    if len(same) <= 1:
        return list(same.values())
    equal: dict[tuple[Box, Ball | None], list[int]] = {}
    for members in same.values():
        equal.setdefault((disjuncts[members[0]].box, disjuncts[members[0]].ball), []).extend(members)
    return [sorted(members) for members in equal.values()]


def check_sizes(network: AnyNetwork, property: Property) -> None:
    """Raise SpecError unless the property has as many inputs and outputs as the network, and reads no others."""
    for what, mine, shape in (
        ("inputs", property.inputs, network.input_shape),
        ("outputs", property.outputs, network.output_shape),
    ):
        if mine != math.prod(shape):
            raise SpecError(
                f"the specification has {mine} {what}, the network {network.path or 'given'} has "
                f"{math.prod(shape)} (shape {list(shape)})",
                file=property.source or None,
                remedy="give the specification that belongs to this network",
            )
    beyond = next((j for j in property.inputs_read if not 0 <= j < property.inputs), None)
    if beyond is not None:
        raise SpecError(
            f"a row reads input {beyond} of {property.inputs}",
            file=property.source or None,
            remedy=f"inputs are 0 to {property.inputs - 1}",
        )


def input_set(
    box: Box, ball: Ball | None, shape: tuple[int, ...], source: str = "", dtype: str = "float32"
) -> InputSet:
    """Return the set that proofs cover, as float64 tensors of the network's input shape.

    Of a network that takes float64 the box rounded outward holds the nearest ones already. An interval that holds no
    float32 does not grow to one: none is a counterexample there, and one beside it may be where none is inside.
    """
    try:
        lower, upper = box.rounded
    except OverflowError as error:
        raise _beyond_float32(source) from error
    _check_range(lower, source)
    _check_range(upper, source)
    below, above = lower.down(), upper.up()
    if dtype != "float64":
        first, last, _ = box.float32
        near = np.minimum(below, lower.single_near()), np.maximum(above, upper.single_near())
        below, above = np.where(first > last, below, near[0]), np.where(first > last, above, near[1])
    low, high = torch.from_numpy(below).reshape(shape), torch.from_numpy(above).reshape(shape)
    if ball is None:
        return InputSet(low, high)
    centre = _rounded(ball.centre, source)
    exact = [Fraction(v) for v in centre.near.tolist()]
    single = [Fraction(v) for v in centre.single_near().tolist()]
    shift = max(_norm_up(ball.centre, exact, ball.p), _norm_up(single, exact, ball.p))
    _rounded([ball.radius], source)  # refuses a radius beyond float32
    radius = max(ball.radius, Fraction(nearest_float32(ball.radius)))
    centre_tensor = torch.from_numpy(centre.near).reshape(shape)
    return InputSet(low, high, centre_tensor, float_up(radius + Fraction(shift)), ball.p)


def _rounded(values: Sequence[Fraction], source: str) -> Rounded:
    """Round input numbers; SpecError unless they are within float32's range."""
    try:
        rounded = Rounded.of(values)
    except OverflowError as error:
        raise _beyond_float32(source) from error
    _check_range(rounded, source)
    return rounded


def _check_range(rounded: Rounded, source: str) -> None:
    if (np.abs(rounded.near) > FLOAT32_MAX).any():
        raise _beyond_float32(source)


def _beyond_float32(source: str) -> SpecError:
    return SpecError(
        f"an input bound is beyond float32, whose largest number is {FLOAT32_MAX:.7g}",
        file=source or None,
        remedy="give every input a finite range that its type can hold",
    )


def _norm_up(a: Sequence[Fraction], b: Sequence[Fraction], p: int) -> float:
    """Return a float64 >= ‖a − b‖_p."""
    gaps = [abs(x - y) for x, y in zip(a, b, strict=True) if x != y]
    if p == 1 or not gaps:
        return float_up(sum(gaps, Fraction(0)))
    # The root of a float64 is correctly rounded, so the next float is above it.
    return math.nextafter(math.sqrt(float_up(sum((g * g for g in gaps), Fraction(0)))), math.inf)


def rows(disjuncts: Sequence[Disjunct], outputs: int, source: str = "", read: Sequence[int] = ()) -> Rows:
    """Write the disjuncts' rows as float64 tensors (target, row, output), padded to the longest conjunction.

    outputs: how many values of y rows may read; read: the inputs that have a column each, after those.
    """
    column = {j: outputs + k for k, j in enumerate(read)}
    targets = [disjunct.rows or (_ALWAYS,) for disjunct in disjuncts]
    shape = (len(targets), max(map(len, targets)))
    coef = np.zeros((*shape, outputs + len(read)))
    offset = np.zeros(shape)
    strict, valid = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    for t, target in enumerate(targets):
        for j, row in enumerate(target):
            for i, c in row.coefs.items():
                coef[t, j, i] = _coefficient(c, source)
            for i, c in row.inputs.items():
                coef[t, j, column[i]] = _coefficient(c, source)
            offset[t, j] = _offset(row.rhs, source)
            strict[t, j], valid[t, j] = row.strict, True
    return Rows(*(torch.from_numpy(a) for a in (coef, offset, strict, valid)))


def _coefficient(c: Fraction, source: str) -> float:
    if c != 0 and not MIN_COEFFICIENT <= abs(c) <= MAX_COEFFICIENT:
        raise _beyond_range("coefficient", source)
    return float(c)


def _offset(d: Fraction, source: str) -> float:
    if abs(d) > MAX_COEFFICIENT:
        raise _beyond_range("constant", source)
    return float_up(d)


def _beyond_range(what: str, source: str) -> SpecError:
    return SpecError(f"a {what} of a constraint is beyond 1e±150", file=source or None, remedy="rescale the row")
