"""What is asked: input sets, rows and disjuncts in Fractions, as VNN-LIB text or as a Property."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from hunt.network import Network
from netproof.problem import property as netproof

Point = tuple[Fraction, ...]


@dataclass(frozen=True)
class Row:
    """Σ coefs[i]·y_i + Σ inputs[i]·x_i <= rhs, or < rhs where strict: a violation satisfies it."""

    coefs: Mapping[int, Fraction]
    rhs: Fraction
    strict: bool = False
    inputs: Mapping[int, Fraction] = field(default_factory=dict)

    def holds(self, x: Sequence[Fraction], y: Sequence[Fraction]) -> bool:
        value = sum((c * y[i] for i, c in self.coefs.items()), Fraction(0))
        value += sum((c * x[i] for i, c in self.inputs.items()), Fraction(0))
        return value < self.rhs if self.strict else value <= self.rhs


@dataclass(frozen=True)
class InputSet:
    """A box, and maybe a ball ‖x − centre‖_p <= radius that it cuts."""

    lower: Point
    upper: Point
    centre: Point | None = None
    radius: Fraction = Fraction(0)
    p: int = 0

    def in_ball(self, x: Sequence[Fraction]) -> bool:
        if self.centre is None:
            return True
        return sum((abs(v - c) ** self.p for v, c in zip(x, self.centre, strict=True)), Fraction(0)) <= (
            self.radius**self.p
        )


@dataclass(frozen=True)
class Disjunct:
    """x in the set, and every row."""

    inputs: InputSet
    rows: tuple[Row, ...]


@dataclass(frozen=True, eq=False)
class Question:
    """A network that reads its input as t = Σ direction_i·x_i alone, and the violations asked for."""

    network: Network
    direction: tuple[int, ...]
    disjuncts: tuple[Disjunct, ...]

    @property
    def outputs(self) -> int:
        return self.network[-1].size

    @cached_property
    def has_text(self) -> bool:
        """Whether it is asked as text; balls are asked as a Property, and ℓ1 balls have no text."""
        return all(d.inputs.centre is None for d in self.disjuncts)

    def property(self) -> netproof.Property:
        """In netproof's own types."""
        boxes = {d.inputs: netproof.Box(d.inputs.lower, d.inputs.upper) for d in self.disjuncts}
        balls = {
            d.inputs: None if d.inputs.centre is None else netproof.Ball(d.inputs.centre, d.inputs.radius, d.inputs.p)
            for d in self.disjuncts
        }
        made = tuple(
            netproof.Disjunct(
                boxes[d.inputs],
                tuple(netproof.Row(dict(r.coefs), r.rhs, r.strict, dict(r.inputs)) for r in d.rows),
                balls[d.inputs],
            )
            for d in self.disjuncts
        )
        return netproof.Property(made, len(self.direction), self.outputs, "hunted")

    def text(self) -> str:
        """VNN-LIB, each disjunct with the bounds of its box unless all share one."""
        names = [f"X_{i}" for i in range(len(self.direction))] + [f"Y_{i}" for i in range(self.outputs)]
        lines = [f"(declare-const {name} Real)" for name in names]
        shared = len({d.inputs for d in self.disjuncts}) == 1
        if shared:
            lines += [f"(assert {bound})" for bound in _bounds(self.disjuncts[0].inputs)]
        parts = [(() if shared else _bounds(d.inputs), [_row(r) for r in d.rows]) for d in self.disjuncts]
        if len(parts) == 1:
            lines += [f"(assert {row})" for row in parts[0][1]]
        else:
            lines.append("(assert (or")
            lines += [f"  (and {' '.join([*bounds, *rows])})" for bounds, rows in parts]
            lines.append("))")
        return "\n".join(lines) + "\n"


def _bounds(inputs: InputSet) -> list[str]:
    bounds = [
        f"({sign} X_{i} {number(side[i])})"
        for i in range(len(inputs.lower))
        for sign, side in ((">=", inputs.lower), ("<=", inputs.upper))
    ]
    if inputs.centre is None:
        return bounds
    if inputs.p != 2:
        raise ValueError("VNN-LIB has no short form of an ℓ1 ball")
    away = [f"(- X_{i} {number(c)})" for i, c in enumerate(inputs.centre)]
    squares = " ".join(f"(* {one} {one})" for one in away)
    return [*bounds, f"(<= (+ {squares}) {number(inputs.radius**2)})"]


def _row(row: Row) -> str:
    parts = [(f"Y_{i}", c) for i, c in row.coefs.items()] + [(f"X_{i}", c) for i, c in row.inputs.items()]
    terms = [f"(* {number(c)} {name})" if c != 1 else name for name, c in parts]
    left = terms[0] if len(terms) == 1 else f"(+ {' '.join(terms)})"
    return f"({'<' if row.strict else '<='} {left} {number(row.rhs)})"


def number(value: Fraction) -> str:
    """A decimal where there is a short one, else a quotient; exact in any case."""
    digits = _decimals(value.denominator)
    if digits is None:
        return f"(/ {value.numerator}.0 {value.denominator}.0)"
    scaled = abs(value.numerator) * 10**digits // value.denominator
    text = str(scaled).rjust(digits + 1, "0")
    whole, rest = (text[:-digits], text[-digits:]) if digits else (text, "0")
    return f"{'-' if value < 0 else ''}{whole}.{rest}"


def _decimals(denominator: int) -> int | None:
    """How many decimals 1/denominator has; None where it has no end, or a far one."""
    counts = []
    for prime in (2, 5):
        count = 0
        while denominator % prime == 0:
            denominator //= prime
            count += 1
        counts.append(count)
    most = max(counts)
    return most if denominator == 1 and most <= 400 else None
