"""And/or formulas over simple constraints, and their disjunctive form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from netproof.problem.property import Row

# Beyond these a specification is refused before memory runs out.
MAX_CLAUSES = 100_000
MAX_LITERALS = 20_000_000


@dataclass(frozen=True, slots=True)
class Bound:
    """x_index <= value (upper) or >= value (lower); < or > when strict."""

    index: int
    upper: bool
    value: Fraction
    strict: bool


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Formula, ...]


Literal = Bound | Row
Formula = Bound | Row | And | Or
Clause = tuple[Literal, ...]

TRUE = And(())
FALSE = Or(())


class TooManyClausesError(Exception):
    """The disjunctive form is beyond MAX_CLAUSES or MAX_LITERALS."""


@dataclass(frozen=True, slots=True)
class Disjunctive:
    """`common` and (one of `options`). Keeping the shared literals apart keeps a long conjunction linear:
    a box of thousands of bounds is not copied for each of thousands of disjuncts."""

    common: Clause
    options: tuple[Clause, ...]


def disjunctive(formula: Formula) -> Disjunctive:
    """Return the disjunctive form; no options when the formula is false."""
    if isinstance(formula, And):
        return _conjunction([disjunctive(part) for part in formula.parts])
    if isinstance(formula, Or):
        return _disjunction([disjunctive(part) for part in formula.parts])
    return Disjunctive((formula,), ((),))


def _conjunction(parts: list[Disjunctive]) -> Disjunctive:
    if any(not part.options for part in parts):
        return Disjunctive((), ())
    common = tuple(literal for part in parts for literal in part.common)
    several = [part.options for part in parts if part.options != ((),)]
    count = math.prod(len(options) for options in several)
    # Each option of one factor is met by every combination of the others.
    _guard(count, sum(count // len(options) * sum(map(len, options)) for options in several))
    found: list[Clause] = [()]
    for options in several:
        found = [left + right for left in found for right in options]
    return Disjunctive(common, tuple(found))


def _disjunction(parts: list[Disjunctive]) -> Disjunctive:
    parts = [part for part in parts if part.options]
    if len(parts) == 1:
        return parts[0]
    _guard(
        sum(len(part.options) for part in parts),
        sum(len(part.common) * len(part.options) + sum(map(len, part.options)) for part in parts),
    )
    return Disjunctive((), tuple(part.common + option for part in parts for option in part.options))


def _guard(clauses: int, literals: int) -> None:
    if clauses > MAX_CLAUSES or literals > MAX_LITERALS:
        raise TooManyClausesError(f"{clauses} disjuncts with {literals} constraints")
