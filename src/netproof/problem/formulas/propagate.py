"""Bounds of inputs that follow from those of others: |x − y| <= 0.1 bounds y where x is bounded."""

from __future__ import annotations

from fractions import Fraction

from netproof.problem.formulas.clauses import Bound, Clause
from netproof.problem.property import Row

ROUNDS = 10  # how long a chain of inputs, each bounded by the one before, is followed


def with_missing_bounds(inputs: int, clause: Clause) -> Clause:
    """Add to a conjunction the bounds, of inputs without one on some side, that its rows over inputs give."""
    sides: tuple[dict[int, Fraction], dict[int, Fraction]] = ({}, {})  # lower and upper, the tightest
    for literal in clause:
        if isinstance(literal, Bound):
            side = sides[literal.upper]
            best = max if not literal.upper else min
            side[literal.index] = best(side.get(literal.index, literal.value), literal.value)
    rows = [literal for literal in clause if isinstance(literal, Row) and not literal.coefs]
    found: list[Bound] = []
    for _ in range(ROUNDS):
        if all(len(side) == inputs for side in sides):
            break
        more = [bound for row in rows for bound in _implied(row, sides)]
        if not more:
            break
        for bound in more:
            side = sides[bound.upper]
            if bound.index not in side:
                found.append(bound)
                side[bound.index] = bound.value
    return clause + tuple(found)


def _implied(row: Row, sides: tuple[dict[int, Fraction], dict[int, Fraction]]) -> list[Bound]:
    """Return the bounds that Σ c·x <= rhs gives inputs that have none on that side; all others must be bounded."""
    found = []
    for index, c in row.inputs.items():
        if index in sides[c > 0]:
            continue
        others = [(d, sides[d < 0].get(i)) for i, d in row.inputs.items() if i != index]
        if all(value is not None for _, value in others):
            least = sum((d * value for d, value in others if value is not None), Fraction(0))
            found.append(Bound(index, c > 0, (row.rhs - least) / c, row.strict))
    return found
