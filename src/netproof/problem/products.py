"""Products of linear forms in a property: what they are, and their values, exactly and as intervals.

A row of a property is linear. Where a specification multiplies variables, each product of two forms is one more value
that rows may read, as if it were an output of the network. A factor may itself read products that come before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Atom = tuple[str, int]  # ("x", i) is an input, ("y", k) an output, ("p", m) the product m
Known = Sequence[Fraction] | Mapping[int, Fraction]


@dataclass(frozen=True)
class Form:
    """constant + Σ c·atom with whole numbers below 2^53, which float64 holds exactly."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int = 0

    def value(self, known: Mapping[str, Known]) -> Fraction:
        """Return its value, from those of the inputs ("x"), the outputs ("y") and earlier products ("p")."""
        return sum((c * known[kind][i] for (kind, i), c in self.terms), Fraction(self.constant))

    def spread(self, known: Mapping[str, Known]) -> Fraction:
        """Return by how much its value may be off, from by how much its atoms may be."""
        return sum((abs(c) * known[kind][i] for (kind, i), c in self.terms), Fraction(0))


@dataclass(frozen=True)
class Product:
    left: Form
    right: Form

    @property
    def is_square(self) -> bool:
        return self.left == self.right


def product_values(products: Sequence[Product], x: Known, y: Known) -> list[Fraction]:
    """Return the exact value of every product, at inputs x and outputs y."""
    found: list[Fraction] = []
    known: dict[str, Known] = {"x": x, "y": y, "p": found}
    found.extend(product.left.value(known) * product.right.value(known) for product in products)
    return found


def product_spreads(
    products: Sequence[Product], x: Known, y: Sequence[Fraction], off: Sequence[Fraction], values: Sequence[Fraction]
) -> list[Fraction]:
    """Bound how far each product may be from `values`, those at x and y, where each output may be `off` from y."""
    none: Mapping[int, Fraction] = dict.fromkeys(range(len(x)), Fraction(0))
    at: dict[str, Known] = {"x": x, "y": y, "p": values}
    found: list[Fraction] = []
    around: dict[str, Known] = {"x": none, "y": off, "p": found}
    for product in products:
        left, right = product.left, product.right
        a, b, e, f = left.value(at), right.value(at), left.spread(around), right.spread(around)
        found.append(abs(a) * f + abs(b) * e + e * f)
    return found
