"""Choices as one row each, where multiplying them out is too much: (or a b) is min(a, b) <= 0.

A formula of limits that are all strict, or all not, holds where one number is below 0, or at most 0: the largest of its
parts for `and`, the least for `or`. max and min are made of positive parts, which are neurons to the search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from netproof.problem.formulas.arithmetic import Arithmetic, Linear, direction_of, folded
from netproof.problem.formulas.normal import All, Formula, Limit, Some

KEPT = 1_000  # options that are left to be multiplied out, at most


def with_encoded_choices(formulas: Sequence[Formula], arithmetic: Arithmetic) -> list[Formula]:
    """Write choices of a conjunction as limits, the smallest first, until what is left has few options."""
    parts = [part for formula in formulas for part in _conjuncts(formula)]
    choices = sorted((part for part in parts if isinstance(part, Some)), key=_options, reverse=True)
    kept, total = set[int](), 1
    for choice in choices:
        if _strictness(choice) is None or total * _options(choice) <= KEPT:
            total *= _options(choice)
            kept.add(id(choice))
    return [_as_limit(part, arithmetic) if isinstance(part, Some) and id(part) not in kept else part for part in parts]


def _conjuncts(formula: Formula) -> list[Formula]:
    return [p for part in formula.parts for p in _conjuncts(part)] if isinstance(formula, All) else [formula]


def _options(formula: Formula) -> int:
    """Count the conjunctions that a formula is a disjunction of, multiplied out."""
    if isinstance(formula, Limit):
        return 1
    return (math.prod if isinstance(formula, All) else sum)(map(_options, formula.parts))


def _strictness(formula: Formula) -> bool | None:
    """Say whether all limits are strict, or all not; None where they are mixed, or there are none."""
    if isinstance(formula, Limit):
        return formula.strict
    found = {_strictness(part) for part in formula.parts}
    return found.pop() if len(found) == 1 else None


def _as_limit(formula: Formula, arithmetic: Arithmetic) -> Limit:
    value = _value(formula, arithmetic)
    constant = value.pop(None, Fraction(0))
    factor, direction = direction_of(value)
    # The least scale of all: where each limit fails by m in its own units, it does by m/scale or more as counted here.
    scale = abs(factor) * min(_scales(formula))
    return Limit(direction, factor > 0, -constant / factor, bool(_strictness(formula)), scale)


def _scales(formula: Formula) -> list[Fraction]:
    if isinstance(formula, Limit):
        return [Fraction(1) if formula.scale is None else formula.scale]
    return [scale for part in formula.parts for scale in _scales(part)]


def _value(formula: Formula, arithmetic: Arithmetic) -> Linear:
    """Return the number that is at most 0, or below it, where the formula holds."""
    if isinstance(formula, Limit):
        sign = 1 if formula.upper else -1
        return {None: -sign * formula.value, **{atom: Fraction(sign * c) for atom, c in formula.direction}}

    join = arithmetic.larger if isinstance(formula, All) else arithmetic.smaller
    return folded([_value(part, arithmetic) for part in formula.parts], join)
