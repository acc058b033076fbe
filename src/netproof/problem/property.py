"""A property as the set of its violations, in disjunctive form, with exact numbers.

A VNN-LIB file says what a *violation* is. Each disjunct is "x in this box and every row holds of y"; the
network satisfies the property when no x satisfies any disjunct.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Row:
    """sum_i coefs[i]·y_i <= rhs, or < rhs when strict. A violation satisfies it."""

    coefs: Mapping[int, Fraction]
    rhs: Fraction
    strict: bool = False

    def holds(self, y: list[Fraction]) -> bool:
        value = sum((c * y[i] for i, c in self.coefs.items()), Fraction(0))
        return value < self.rhs if self.strict else value <= self.rhs


@dataclass(frozen=True)
class Box:
    """lower <= x <= upper, exactly as written; `open_*` marks the bounds written with < or >."""

    lower: tuple[Fraction, ...]
    upper: tuple[Fraction, ...]
    open_lower: frozenset[int] = frozenset()
    open_upper: frozenset[int] = frozenset()

    @property
    def empty(self) -> bool:
        return any(
            lo > hi or (lo == hi and (i in self.open_lower or i in self.open_upper))
            for i, (lo, hi) in enumerate(zip(self.lower, self.upper, strict=True))
        )


@dataclass(frozen=True)
class Ball:
    """‖x − centre‖_p <= radius with p = 1 or 2, on top of the disjunct's box (which contains it or clips it)."""

    centre: tuple[Fraction, ...]
    radius: Fraction
    p: int


@dataclass(frozen=True)
class Disjunct:
    """A conjunction: x in `box` (and in `ball`), and every row."""

    box: Box
    rows: tuple[Row, ...]
    ball: Ball | None = None


@dataclass(frozen=True)
class Property:
    """Inputs and outputs are flattened in row-major order of the file's shapes."""

    disjuncts: tuple[Disjunct, ...]
    inputs: int
    outputs: int
    source: str = ""  # file name, for messages
