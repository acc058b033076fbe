"""From formulas over the entries of tensors to the disjuncts of a property."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from netproof.core.reasons import CONTRADICTORY, EMPTY
from netproof.problem.derived import Derived
from netproof.problem.formulas.arithmetic import Arithmetic, Linear, Wrong, direction_of
from netproof.problem.formulas.boxes import Boxes, Unbounded
from netproof.problem.formulas.choices import with_encoded_choices
from netproof.problem.formulas.clauses import Bound, Clause, TooManyClausesError
from netproof.problem.formulas.normal import (
    TRUE,
    All,
    Formula,
    Limit,
    Normal,
    Some,
    least,
    normal_form,
    spare_of,
)
from netproof.problem.formulas.propagate import with_missing_bounds
from netproof.problem.property import Ball, Box, Disjunct, Row

# By relation: on which sides of left − right there is a limit, whether it is strict, and if one of them is enough.
RELATIONS = {
    "<=": (((True, False),), False),
    "<": (((True, True),), False),
    ">=": (((False, False),), False),
    ">": (((False, True),), False),
    "==": (((True, False), (False, False)), False),
    "!=": (((True, True), (False, True)), True),
}
MANY = 10_000  # options beyond which choices are written as rows where that is possible

Read = Callable[[Sequence[int], Arithmetic], list[Formula]]  # by input its entry of x -> what all must hold


def compared(difference: Linear, relation: str) -> Formula:
    """Return the formula: difference RELATION 0."""
    sides, one_is_enough = RELATIONS[relation]
    constant = difference.get(None, Fraction(0))
    if not any(c for atom, c in difference.items() if atom is not None):
        holds = [_holds(constant if upper else -constant, strict) for upper, strict in sides]
        return TRUE if (any(holds) if one_is_enough else all(holds)) else Some((), spare=abs(constant))
    factor, direction = direction_of(difference)
    value = -constant / factor
    limits = tuple(Limit(direction, upper == (factor > 0), value, strict, abs(factor)) for upper, strict in sides)
    return limits[0] if len(limits) == 1 else Some(limits) if one_is_enough else All(limits)


def _holds(value: Fraction, strict: bool) -> bool:
    """Say whether value <= 0, or < 0."""
    return value < 0 if strict else value <= 0


@dataclass(frozen=True)
class Built:
    """Formulas in disjunctive form over x and y; x has inputs once that all options equate."""

    normal: Normal
    place: tuple[int, ...]  # by input, its entry of x
    outputs: int
    derived: tuple[Derived, ...]

    @property
    def entries(self) -> int:
        """Count the entries of x."""
        return len(set(self.place))

    @property
    def vacuous(self) -> str:
        """Say why nothing satisfies the formulas, whatever the networks compute; empty where something may."""
        if self.normal.options:
            return ""
        conflict = self.normal.conflict
        of_inputs = conflict is not None and all(kind == "x" for (kind, _), _ in conflict.direction)
        return EMPTY if of_inputs else CONTRADICTORY

    def disjuncts(self, unbounded: Unbounded, box: Box | None = None, ball: Ball | None = None) -> tuple[Disjunct, ...]:
        """Make the disjuncts, on top of a box and a ball where all inputs are known to lie in them."""
        if not self.normal.options:
            return ()
        common = self._clause(self.normal.common)
        if box is None:
            common = with_missing_bounds(self.entries, common)
        boxes = Boxes(self.entries, common, unbounded, box)
        shared = _rows(common)
        clauses = [self._clause(option) for option in self.normal.options]
        return tuple(Disjunct(boxes.of(clause), shared + _rows(clause), ball) for clause in clauses)

    def _clause(self, limits: Sequence[Limit]) -> Clause:
        return tuple(self._literal(limit) for limit in limits)

    def _literal(self, limit: Limit) -> Bound | Row:
        """Write a limit as a bound of one input, or as a row, with the numbers that were written."""
        if len(limit.direction) == 1 and limit.direction[0][0][0] == "x":
            return Bound(limit.direction[0][0][1], limit.upper, limit.value, limit.strict)
        scale = Fraction(1) if limit.scale is None else limit.scale
        factor = scale if limit.upper else -scale
        inputs: dict[int, Fraction] = {}
        coefs: dict[int, Fraction] = {}
        for (kind, index), c in limit.direction:
            if kind == "x":
                inputs[index] = factor * c
            else:
                coefs[index if kind == "y" else self.outputs + index] = factor * c
        return Row(coefs, factor * limit.value, limit.strict, inputs)


def _rows(clause: Clause) -> tuple[Row, ...]:
    return tuple(literal for literal in clause if isinstance(literal, Row))


def build(inputs: int, outputs: int, read: Read, wrong: Wrong, *, join: bool = True) -> Built:
    """Read formulas, again where they turn out to equate two inputs, which are then one entry of x."""
    place = list(range(inputs))
    while True:
        normal, derived = _normal(place, read, wrong)
        joined = _joined(place, normal) if join else None
        if joined is None:
            return Built(normal, tuple(place), outputs, derived)
        place = joined


def _normal(place: Sequence[int], read: Read, wrong: Wrong) -> tuple[Normal, tuple[Derived, ...]]:
    arithmetic = Arithmetic(wrong)
    formulas = read(place, arithmetic)
    try:
        normal = normal_form(All(tuple(formulas)), most=MANY)
    except TooManyClausesError:
        spare = least(map(spare_of, formulas))
        formulas = with_encoded_choices(formulas, arithmetic)
        try:
            normal = normal_form(All(tuple(formulas)))
            normal = replace(normal, spare=least([normal.spare, spare]))
        except TooManyClausesError as error:
            raise wrong(f"the disjunctive form is too large: {error}", None, "split the query into several") from error
    return normal, tuple(arithmetic.derived)


def _joined(place: Sequence[int], normal: Normal) -> list[int] | None:
    """Make one entry of x of inputs that all options equate; None where there are none."""
    sides = {limit.key: limit for limit in normal.common}
    pairs = [
        [index for (_, index), _ in direction]
        for (direction, upper), limit in sides.items()
        if upper
        and len(direction) == 2
        and all(kind == "x" for (kind, _), _ in direction)
        and [c for _, c in direction] == [1, -1]
        and limit.value == 0
        and not limit.strict
        and (direction, False) in sides
        and sides[direction, False].value == 0
    ]
    if not pairs:
        return None
    leader = list(range(len(place)))  # by entry of x, another one that it is equal to

    def first(entry: int) -> int:
        while leader[entry] != entry:
            entry = leader[entry]
        return entry

    for a, b in pairs:
        low, high = sorted((first(a), first(b)))
        leader[high] = low
    joined = [first(entry) for entry in place]
    number = {entry: k for k, entry in enumerate(dict.fromkeys(joined))}
    return [number[entry] for entry in joined]
