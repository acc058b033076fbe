"""From properties to VNN-LIB text, with every number exact: 1.0, or 2.0 for products and several networks.

A number without a finite decimal, such as 1/3, is written by multiplying its whole constraint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import chain

import numpy as np

from netproof.errors import UsageError
from netproof.problem.decimal import MAX_LENGTH
from netproof.problem.derived import Atom, Derived, Form, Positive
from netproof.problem.networks.interface import Interface
from netproof.problem.property import Ball, Box, Disjunct, Property, Row

Number = Callable[[Fraction], str]
Terms = list[tuple[Fraction, str]]  # factors and what they multiply


def version_1(property: Property, box: Box) -> str:
    """Write a property of one network with linear rows; `box` is what all its boxes lie in."""
    names: dict[str, Callable[[int], str]] = {"x": lambda i: f"X_{i}", "y": lambda i: f"Y_{i}"}
    lines = [f"(declare-const X_{i} Real)" for i in range(property.inputs)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(property.outputs)]
    return _Writer(names, property, decimal_text).text(lines, box, "false")


def version_2(property: Property, box: Box, interface: Interface) -> str:
    """Write any property but one with positive parts; `interface` says what its networks are called."""
    first: dict[int, str] = {}
    equal = []
    for name, entry in zip(_inputs(interface), interface.place, strict=True):
        equal += [f"(assert (== {first[entry]} {name}))"] if entry in first else []
        first.setdefault(entry, name)
    outputs = _outputs(interface)
    names: dict[str, Callable[[int], str]] = {"x": first.__getitem__, "y": outputs.__getitem__}
    lines = ["(vnnlib-version <2.0>)", ""]
    for network in interface.networks:
        lines.append(f"(declare-network {network.name}")
        lines += [f"    (equal-to {network.equal_to})"] if network.equal_to else []
        lines += [
            f"    (declare-{tensor.kind} {tensor.name} {tensor.dtype} [{','.join(map(str, tensor.shape))}])"
            for tensor in network.tensors
        ]
        lines.append(")")
    never = f"(and (< {outputs[0]} 0.0) (> {outputs[0]} 0.0))"
    return _Writer(names, property, _with_point).text([*lines, *equal], box, never)


def _inputs(interface: Interface) -> list[str]:
    tensors = chain.from_iterable(network.of("input") for network in interface.networks)
    return [name for tensor in tensors for name in _entries(tensor.name, tensor.shape)]


def _outputs(interface: Interface) -> list[str]:
    tensors = chain.from_iterable(network.given for network in interface.networks)
    return [name for tensor in tensors for name in _entries(tensor.name, tensor.shape)]


def _entries(name: str, shape: Sequence[int]) -> list[str]:
    return [f"{name}[{','.join(map(str, where))}]" if shape else name for where in np.ndindex(*shape)]


class _Writer:
    """Writes constraints; `names` gives an input or output its name, `number` a number its text."""

    def __init__(self, names: dict[str, Callable[[int], str]], property: Property, number: Number) -> None:
        self._names, self._property, self._number = names, property, number
        self._rows: dict[int, str] = {}

    def text(self, lines: list[str], box: Box, never: str) -> str:
        """Return the lines, and after them the box, the ball and the disjuncts; `never` is a false formula."""
        lines = [*lines, "", *(f"(assert {bound})" for bound in self._bounds(box, None))]
        balls = [disjunct.ball for disjunct in self._property.disjuncts if disjunct.ball is not None]
        lines += [f"(assert {self._in_ball(balls[0])})"] if balls else []
        cases = [self._case(disjunct, box) for disjunct in self._property.disjuncts]
        if not cases:
            lines += ["", f"(assert {never})"]
        elif all(cases):  # one without constraints is every input of the box
            common = [part for part in cases[0] if all(part in case for case in cases)]
            lines += ["", *(f"(assert {part})" for part in common)]
            rest = [[part for part in case if part not in common] for case in cases]
            lines += [f"(assert {_joined('or', [_joined('and', case) for case in rest])})"] if all(rest) else []
        return "\n".join(lines) + "\n"

    def _case(self, disjunct: Disjunct, box: Box) -> list[str]:
        for row in disjunct.rows:
            if id(row) not in self._rows:  # disjuncts share rows, which may be long
                self._rows[id(row)] = self._row(row)
        return [*self._bounds(disjunct.box, box), *(self._rows[id(row)] for row in disjunct.rows)]

    def _bounds(self, box: Box, known: Box | None) -> Iterable[str]:
        """Yield the bounds of a box, without those that are `known`."""
        if box is known:
            return
        for i in range(len(box.lower)):
            for upper, side, opened in ((False, "lower", "open_lower"), (True, "upper", "open_upper")):
                value, strict = getattr(box, side)[i], i in getattr(box, opened)
                if known is None or (value, strict) != (getattr(known, side)[i], i in getattr(known, opened)):
                    sign = 1 if upper else -1
                    yield self._row(Row({}, sign * value, strict, {i: Fraction(sign)}))

    def _row(self, row: Row) -> str:
        coefs = [
            (("y", i) if i < self._property.outputs else ("p", i - self._property.outputs), c)
            for i, c in row.coefs.items()
        ]
        atoms: list[tuple[Atom, Fraction]] = [*coefs, *((("x", i), c) for i, c in row.inputs.items())]
        return self._at_most([(c, self._atom(atom)) for atom, c in atoms], row.rhs, row.strict)

    def _in_ball(self, ball: Ball) -> str:
        """Write Σ (x − c)² <= r², multiplied out, so that no product has long numbers in it."""
        if ball.p != 2:
            raise UsageError("an ℓ1 ball has no short form in VNN-LIB", remedy="use a box, linf_ball or l2_ball")
        names = [self._names["x"](i) for i in range(len(ball.centre))]
        squares = [(Fraction(1), f"(* {name} {name})") for name in names]
        linear = [(-2 * c, name) for c, name in zip(ball.centre, names, strict=True) if c]
        rhs = ball.radius**2 - sum((c * c for c in ball.centre), Fraction(0))
        return self._at_most([*squares, *linear], rhs, strict=False)

    def _at_most(self, terms: Terms, rhs: Fraction, strict: bool) -> str:
        """Write Σ factor·name <= rhs, or < rhs, without negative factors."""
        scale = math.lcm(*(_odd_part(c.denominator) for c in (*(c for c, _ in terms), rhs)))
        if scale > 1:
            terms = [(c * scale, name) for c, name in terms]
        left = [(c, name) for c, name in terms if c > 0]
        right = [(-c, name) for c, name in terms if c < 0]
        limit, relation = rhs * scale, "<"
        if not left:
            left, right, limit, relation = right, left, -limit, ">"
        sides = self._sum(left, Fraction(0)), self._sum(right, limit)
        return f"({relation}{'' if strict else '='} {sides[0]} {sides[1]})"

    def _sum(self, terms: Terms, constant: Fraction) -> str:
        parts = [name if c == 1 else f"(* {self._number(c)} {name})" for c, name in terms]
        parts += [self._number(constant)] if constant or not parts else []
        return _joined("+", parts)

    def _atom(self, atom: Atom) -> str:
        kind, index = atom
        return self._names[kind](index) if kind in self._names else self._derived(self._property.derived[index])

    def _derived(self, one: Derived) -> str:
        if isinstance(one, Positive):
            raise UsageError("VNN-LIB has no word for a maximum", remedy="say it with fewer maxima, or with | and &")
        return f"(* {' '.join(map(self._form, one.forms))})"

    def _form(self, form: Form) -> str:
        return self._sum([(Fraction(c), self._atom(atom)) for atom, c in form.terms], Fraction(form.constant))


def _joined(word: str, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({word} {' '.join(parts)})"


def _odd_part(denominator: int) -> int:
    """Return a denominator without its factors of 2 and 5."""
    return _split(denominator)[1]


@lru_cache(maxsize=1 << 12)
def _split(denominator: int) -> tuple[int, int]:
    """Return how many decimals a denominator needs, and what is left of it without its factors of 2 and 5."""
    twos = (denominator & -denominator).bit_length() - 1
    rest, fives = denominator >> twos, 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives), rest


@lru_cache(maxsize=1 << 12)
def decimal_text(value: Fraction) -> str:
    """Write a number as a decimal, exactly; UsageError where none of a length that can be read is equal to it.

    >>> decimal_text(Fraction(-1, 8)), decimal_text(Fraction(3))
    ('-0.125', '3')
    """
    digits, rest = _split(value.denominator)
    if rest > 1:
        raise UsageError(f"{value} has no finite decimal", remedy="use numbers that have one")
    text = str(abs(value.numerator) * 10**digits // value.denominator).rjust(digits + 1, "0")
    text = f"{text[:-digits]}.{text[-digits:]}" if digits else text
    if len(text) >= MAX_LENGTH:
        raise UsageError(f"a number has a decimal of more than {MAX_LENGTH} characters", remedy="round the numbers")
    return f"-{text}" if value < 0 else text


def _with_point(value: Fraction) -> str:
    """Write a number as a decimal with a point, which VNN-LIB 2.0 asks for."""
    text = decimal_text(value)
    return text if "." in text else f"{text}.0"
