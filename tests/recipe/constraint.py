"""A linear constraint among inputs, asked from outside: a row of the property, as those of outputs are."""

from __future__ import annotations

from fractions import Fraction

from netproof.problem.property import Box, Disjunct, Property, Row

LIMIT = Fraction(1, 8)


def with_sum_below(at: float, inputs: int = 2) -> Property:
    """Some x in [−1, 1]ⁿ whose entries add up to at most LIMIT has an output of at most `at`."""
    one = Fraction(1)
    box = Box((-one,) * inputs, (one,) * inputs)
    among = Row({}, LIMIT, inputs=dict.fromkeys(range(inputs), one))
    return Property((Disjunct(box, (Row({0: one}, Fraction(at)), among)),), inputs, 1)
