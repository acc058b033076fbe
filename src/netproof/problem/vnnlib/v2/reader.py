"""From the text of a VNN-LIB 2.0 query to a property, with every number exact."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from netproof.core.reasons import CONTRADICTORY, EMPTY
from netproof.errors import SpecError
from netproof.problem.derived import Atom
from netproof.problem.networks.interface import Interface
from netproof.problem.property import Disjunct, Property, Row
from netproof.problem.vnnlib.box_builder import Boxes
from netproof.problem.vnnlib.formula import Bound, Clause, TooManyClausesError
from netproof.problem.vnnlib.sexpr import Source
from netproof.problem.vnnlib.v2.choices import with_encoded_choices
from netproof.problem.vnnlib.v2.declarations import Declarations
from netproof.problem.vnnlib.v2.normal import (
    FALSE,
    TRUE,
    All,
    Formula,
    Limit,
    Normal,
    Some,
    conjunction,
    disjunction,
    normal_form,
)
from netproof.problem.vnnlib.v2.package import parsed, visible
from netproof.problem.vnnlib.v2.propagate import with_missing_bounds
from netproof.problem.vnnlib.v2.terms import TermReader, direction_of

_VERSION = re.compile(r"[ \t\r\n]*\([ \t\r\n]*vnnlib-version[ \t\r\n]*<([0-9]{1,4})\.([0-9]{1,4})>")
# By the package's name: on which sides of (left − right) there is a limit, whether it is strict, and if one is enough.
_COMPARISONS = {
    "LessEqual": (((True, False),), False),
    "LessThan": (((True, True),), False),
    "GreaterEqual": (((False, False),), False),
    "GreaterThan": (((False, True),), False),
    "Equal": (((True, False), (False, False)), False),
    "NotEqual": (((True, True), (False, True)), True),
}
MANY = 10_000  # options beyond which choices are written as rows where that is possible


def version(text: str) -> tuple[int, int] | None:
    """Return the version that the header of a text names; None where there is no header."""
    match = _VERSION.match(visible(_lines(text)))
    return None if match is None else (int(match[1]), int(match[2]))


def _lines(text: str) -> str:
    """Return the text with LF at the end of every line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_query(text: str, file: str = "") -> Property:
    """Read a query from its text; `file` is its name in messages."""
    source = Source(_lines(text), file)
    match = _VERSION.match(visible(source.text))
    if match is not None and (match[1], match[2]) != ("2", "0"):
        at = match.group().index("(")
        raise source.error(f"VNN-LIB {match[1]}.{match[2]} is not known", at, "1.0 and 2.0 are")
    return _Reader(source).read()


class _Reader:
    """Reads the assertions, again where they turn out to equate two inputs, which are then one entry of x."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._query = parsed(source)
        self._declared = Declarations(source, self._query)
        self._place = list(range(self._declared.inputs))  # by input, its entry of x
        self._terms = TermReader(self._atom, source.file)

    def read(self) -> Property:
        normal = self._normal()
        while self._equate(normal):
            normal = self._normal()
        interface = Interface(self._declared.networks, tuple(self._place))
        entries = len(set(self._place))
        if not normal.options:
            return self._nothing(normal, interface, entries)
        common = with_missing_bounds(entries, self._clause(normal.common))
        boxes = Boxes(entries, common, lambda index, side: self._unbounded(interface, index, side))
        shared = _rows(common)
        clauses = [self._clause(option) for option in normal.options]
        disjuncts = tuple(Disjunct(boxes.of(clause), shared + _rows(clause)) for clause in clauses)
        return self._property(disjuncts, interface, entries)

    def _property(self, disjuncts: tuple[Disjunct, ...], interface: Interface, entries: int, why: str = "") -> Property:
        return Property(
            disjuncts,
            entries,
            self._declared.outputs,
            self._source.file,
            derived=tuple(self._terms.derived),
            interface=interface,
            vacuous=why,
        )

    def _nothing(self, normal: Normal, interface: Interface, entries: int) -> Property:
        """Make the property of a query that nothing satisfies, whatever its networks compute."""
        of_inputs = normal.conflict is not None and all(kind == "x" for (kind, _), _ in normal.conflict.direction)
        return self._property((), interface, entries, EMPTY if of_inputs else CONTRADICTORY)

    def _normal(self) -> Normal:
        self._terms = TermReader(self._atom, self._source.file)
        formulas = [self._formula(assertion.expr) for assertion in self._query.assertions]
        try:
            return normal_form(All(tuple(formulas)), most=MANY)
        except TooManyClausesError:
            formulas = with_encoded_choices(formulas, self._terms)
        try:
            return normal_form(All(tuple(formulas)))
        except TooManyClausesError as error:
            raise SpecError(
                f"the disjunctive form is too large: {error}",
                file=self._source.file or None,
                remedy="split the query into several files",
            ) from error

    def _formula(self, expr: Any) -> Formula:
        kind = type(expr).__name__
        if kind in ("And", "Or"):
            parts = [self._formula(part) for part in expr.args]
            return conjunction(parts) if kind == "And" else disjunction(parts)
        sides, one_is_enough = _COMPARISONS[kind]
        term = self._terms.difference(expr.lhs, expr.rhs)
        constant = term.pop(None, Fraction(0))
        if not term:
            holds = [_holds(constant if upper else -constant, strict) for upper, strict in sides]
            return TRUE if (any(holds) if one_is_enough else all(holds)) else FALSE
        factor, direction = direction_of(term)
        value = -constant / factor
        limits = tuple(Limit(direction, upper == (factor > 0), value, strict) for upper, strict in sides)
        return limits[0] if len(limits) == 1 else Some(limits) if one_is_enough else All(limits)

    def _atom(self, name: str, indices: Sequence[int]) -> Atom:
        kind, index = self._declared.atom(name, list(indices))
        return (kind, self._place[index]) if kind == "x" else (kind, index)

    def _equate(self, normal: Normal) -> bool:
        """Make one entry of x of inputs that all options equate; say whether there were any."""
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
            return False
        leader = list(range(len(self._place)))  # by entry of x, another one that it is equal to

        def first(entry: int) -> int:
            while leader[entry] != entry:
                entry = leader[entry]
            return entry

        for a, b in pairs:
            low, high = sorted((first(a), first(b)))
            leader[high] = low
        joined = [first(entry) for entry in self._place]
        number = {entry: k for k, entry in enumerate(dict.fromkeys(joined))}
        self._place = [number[entry] for entry in joined]
        return True

    def _clause(self, limits: Sequence[Limit]) -> Clause:
        return tuple(self._literal(limit) for limit in limits)

    def _literal(self, limit: Limit) -> Bound | Row:
        """Write a limit as a bound of one input, or as a row."""
        if len(limit.direction) == 1 and limit.direction[0][0][0] == "x":
            return Bound(limit.direction[0][0][1], limit.upper, limit.value, limit.strict)
        sign = 1 if limit.upper else -1
        inputs: dict[int, Fraction] = {}
        coefs: dict[int, Fraction] = {}
        for (kind, index), c in limit.direction:
            if kind == "x":
                inputs[index] = Fraction(sign * c)
            else:
                coefs[index if kind == "y" else self._declared.outputs + index] = Fraction(sign * c)
        return Row(coefs, sign * limit.value, limit.strict, inputs)

    def _unbounded(self, interface: Interface, index: int, side: str) -> SpecError:
        name = interface.name(index)
        return self._declared.error(
            f"input {name} has no {side} bound",
            name.partition("[")[0],
            f"add an assertion such as ({'<=' if side == 'upper' else '>='} {name} 1.0)",
        )


def _rows(clause: Clause) -> tuple[Row, ...]:
    return tuple(literal for literal in clause if isinstance(literal, Row))


def _holds(value: Fraction, strict: bool) -> bool:
    """Say whether value <= 0, or < 0."""
    return value < 0 if strict else value <= 0
