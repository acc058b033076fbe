"""What is to be proved, in float64: boxes of the input that contain those of the specification, and rows.

A specification describes a violation. Each of its disjuncts says: x lies in a box, perhaps also in a ball, and all rows
r(x) <= 0 at once,
where a row is linear in the outputs, and perhaps in the inputs. The statement holds when no x fulfils a disjunct. So
for each disjunct it is enough to divide the box into parts, and to show on each that some sum of rows with weights
>= 0 is > 0, or that the part is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import overload

import numpy as np
from numpy.typing import NDArray

from npcheck import vnnlib_file
from npcheck.ball import Ball
from npcheck.errors import Refused
from npcheck.vnnlib_file import Disjunct, Question, Row

Array = NDArray[np.float64]
MOST_FACTORS = 1 << 25  # of the rows of one disjunct, zeros among them
LARGEST = 2.0**100  # numbers of a specification beyond this are refused: sums of products must not overflow


@dataclass(frozen=True)
class Rows:
    """The rows of a disjunct: r(x) = outputs·y + inputs·x − right, of which a violation has all r <= 0.

    Each number is the float64 nearest to that of the specification: off by at most one part in 2^53.
    """

    outputs: Array  # (row, m)
    inputs: Array | None  # (row, n); None: no row speaks of the inputs
    right: Array  # (row,)
    exact: tuple[Row, ...] = ()  # as the specification has them


@dataclass(frozen=True)
class Region:
    """A box that contains those of some disjuncts, and what is to be shown on it for each of them."""

    lower: Array  # (n,)
    upper: Array
    ball: Ball | None  # contains that of these disjuncts
    targets: tuple[int, ...]  # the disjuncts' places in the specification
    rows: Sequence[Rows]  # of these disjuncts, each made when it is asked for


@dataclass(frozen=True)
class Statement:
    """All that is to be proved: by region, in the order in which their boxes first appear in the specification."""

    regions: tuple[Region, ...]
    targets: int
    empty: tuple[int, ...]  # disjuncts of which no x can be: a lower end above the upper one
    pinned: int  # inputs whose ends are equal in every disjunct


def state(question: Question) -> Statement:
    """Return what a specification asks for, as boxes and rows in float64."""
    seen: dict[tuple[int, int, int], _Ends] = {}  # disjuncts without bounds of their own share their ends
    boxes: dict[bytes, _Ends] = {}
    members: dict[bytes, list[int]] = {}
    empty, pinned = [], np.ones(question.inputs, dtype=bool)
    _require_tame(question)
    for place, disjunct in enumerate(question.disjuncts):
        key = id(disjunct.lower), id(disjunct.upper), id(disjunct.ball)
        ends = seen[key] if key in seen else seen.setdefault(key, _Ends.of(disjunct))
        pinned &= ends.pinned
        if ends.empty:
            empty.append(place)
            continue
        box = ends.lower.tobytes() + ends.upper.tobytes() + (b"" if ends.ball is None else ends.ball.key)
        boxes[box] = ends
        members.setdefault(box, []).append(place)
    regions = tuple(
        Region(
            boxes[box].lower,
            boxes[box].upper,
            boxes[box].ball,
            tuple(places),
            _AllRows(question, tuple(places)),
        )
        for box, places in members.items()
    )
    return Statement(regions, len(question.disjuncts), tuple(empty), int(pinned.sum()))


class _AllRows(Sequence[Rows]):
    """The rows of some disjuncts, each in float64 only while it is used: there may be many disjuncts and outputs."""

    def __init__(self, question: Question, places: tuple[int, ...]) -> None:
        self._question, self._places = question, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Rows: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Rows]: ...

    def __getitem__(self, at: int | slice) -> Rows | Sequence[Rows]:
        if isinstance(at, slice):
            return _AllRows(self._question, self._places[at])
        return _rows(self._question, self._question.disjuncts[self._places[at]])


@dataclass(frozen=True)
class _Ends:
    """The box of a disjunct, in float64."""

    lower: Array
    upper: Array
    ball: Ball | None
    empty: bool  # a lower end is above the upper one, as the specification has them, or the ball's radius is no number
    pinned: NDArray[np.bool_]  # inputs with one value

    @classmethod
    def of(cls, disjunct: Disjunct) -> _Ends:
        """Round a disjunct's ends outward."""
        ends = list(zip(disjunct.lower, disjunct.upper, strict=True))
        return cls(
            outward(disjunct.lower, up=False),
            outward(disjunct.upper, up=True),
            None if disjunct.ball is None or disjunct.ball.square < 0 else _ball(disjunct.ball),
            any(low > high for low, high in ends) or (disjunct.ball is not None and disjunct.ball.square < 0),
            np.array([low == high for low, high in ends], dtype=bool),
        )


def outward(numbers: Sequence[Fraction], *, up: bool) -> Array:
    """Return float64 bounds of numbers, and of the float32 nearest to each: what a network is really given."""
    bounds = np.empty(len(numbers))
    for place, exact in enumerate(numbers):
        nearest = _float(exact)
        away = np.inf if up else -np.inf
        if (Fraction(nearest) < exact) if up else (Fraction(nearest) > exact):
            nearest = float(np.nextafter(nearest, away))
        single = float(np.float32(nearest))
        bounds[place] = max(nearest, single) if up else min(nearest, single)
    return bounds + 0.0  # so that −0 is 0, and equal boxes have equal bits


def _ball(exact: vnnlib_file.Ball) -> Ball:
    """Return a ball in float64 that contains one."""
    if max(map(abs, exact.centre)) > LARGEST or exact.square > Fraction(LARGEST) ** 2:
        raise Refused("the specification has a number beyond 2^100")
    return Ball.around(exact.inputs, exact.centre, exact.square)


def _require_tame(question: Question) -> None:
    """Refuse rows that cannot be in float64, or take too much room there."""
    seen: set[int] = set()  # disjuncts share rows
    for disjunct in question.disjuncts:
        if len(disjunct.rows) * (question.inputs + question.outputs) > MOST_FACTORS:
            raise Refused(f"a disjunct has more than {MOST_FACTORS} rows times inputs and outputs")
        for row in disjunct.rows:
            if id(row) not in seen:
                seen.add(id(row))
                for factor in (row.right, *row.outputs.values(), *row.inputs.values()):
                    _float(factor)


def _rows(question: Question, disjunct: Disjunct) -> Rows:
    count = len(disjunct.rows)
    outputs, inputs = np.zeros((count, question.outputs)), np.zeros((count, question.inputs))
    right = np.array([_float(row.right) for row in disjunct.rows])
    for place, row in enumerate(disjunct.rows):
        for index, factor in row.outputs.items():
            outputs[place, index] = _float(factor)
        for index, factor in row.inputs.items():
            inputs[place, index] = _float(factor)
    return Rows(outputs, inputs if inputs.any() else None, right.reshape(count), disjunct.rows)


def _float(exact: Fraction) -> float:
    if abs(exact) > LARGEST:
        raise Refused("the specification has a number beyond 2^100")
    return float(exact)
