"""Values that rows of a property read beside outputs: products of linear forms, and positive parts of them.

A row of a property is linear. Where a specification multiplies variables, each product of two forms is one more value
that rows may read, as if it were an output of the network; so is max(form, 0), of which the least and the largest of
several forms are made. A form may read such values that come before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Atom = tuple[str, int]  # ("x", i) is an input, ("y", k) an output, ("p", m) the derived value m
Known = Sequence[Fraction] | Mapping[int, Fraction]


@dataclass(frozen=True)
class Form:
    """constant + Σ c·atom with numbers that float64 holds exactly: whole ones below 2^53, where that is possible."""

    terms: tuple[tuple[Atom, int | Fraction], ...]
    constant: int | Fraction = 0

    def value(self, known: Mapping[str, Known]) -> Fraction:
        """Return its value, from those of the inputs ("x"), the outputs ("y") and earlier derived values ("p")."""
        return sum((known[kind][i] * c for (kind, i), c in self.terms), Fraction(self.constant))

    def spread(self, known: Mapping[str, Known]) -> Fraction:
        """Return by how much its value may be off, from by how much its atoms may be."""
        return sum((abs(known[kind][i] * c) for (kind, i), c in self.terms), Fraction(0))


@dataclass(frozen=True)
class Product:
    left: Form
    right: Form

    @property
    def forms(self) -> tuple[Form, ...]:
        return (self.left, self.right)

    @property
    def is_square(self) -> bool:
        return self.left == self.right

    def value(self, known: Mapping[str, Known]) -> Fraction:
        return self.left.value(known) * self.right.value(known)

    def spread(self, known: Mapping[str, Known], off: Mapping[str, Known]) -> Fraction:
        """Bound how far its value may be from that at `known`, where each atom may be `off` by as much."""
        a, b = (abs(form.value(known)) for form in self.forms)
        e, f = (form.spread(off) for form in self.forms)
        return a * f + b * e + e * f


@dataclass(frozen=True)
class Positive:
    """max(form, 0)."""

    form: Form

    @property
    def forms(self) -> tuple[Form, ...]:
        return (self.form,)

    def value(self, known: Mapping[str, Known]) -> Fraction:
        return max(self.form.value(known), Fraction(0))

    def spread(self, known: Mapping[str, Known], off: Mapping[str, Known]) -> Fraction:
        """Bound how far its value may be from that at `known`, where each atom may be `off` by as much."""
        return self.form.spread(off)


Derived = Product | Positive


def derived_values(derived: Sequence[Derived], x: Known, y: Known) -> list[Fraction]:
    """Return the exact value of each, at inputs x and outputs y."""
    found: list[Fraction] = []
    known: dict[str, Known] = {"x": x, "y": y, "p": found}
    for one in derived:
        found.append(one.value(known))  # noqa: PERF401 - each may read those before it
    return found


def derived_spreads(
    derived: Sequence[Derived], x: Known, y: Sequence[Fraction], off: Sequence[Fraction], values: Sequence[Fraction]
) -> list[Fraction]:
    """Bound how far each may be from `values`, those at x and y, where each output may be `off` from y."""
    none: Mapping[int, Fraction] = dict.fromkeys(range(len(x)), Fraction(0))
    at: dict[str, Known] = {"x": x, "y": y, "p": values}
    found: list[Fraction] = []
    around: dict[str, Known] = {"x": none, "y": off, "p": found}
    for one in derived:
        found.append(one.spread(at, around))  # noqa: PERF401 - each may read those before it
    return found
