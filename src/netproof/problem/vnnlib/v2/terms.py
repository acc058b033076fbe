"""Polynomial terms, read exactly: linear forms, and products of linear forms as values of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from netproof.errors import SpecError
from netproof.problem.decimal import LIMITS, decimal
from netproof.problem.derived import Atom, Derived, Form, Positive, Product
from netproof.problem.vnnlib.terms import MAX_BITS

Linear = dict[Atom | None, Fraction]  # coefficients; the constant stands under None
Direction = tuple[tuple[Atom, int], ...]  # whole coefficients without a common factor, the first of them positive

EXACT = 2**53  # whole numbers up to here are float64
MAX_DERIVED = 10_000  # products and positive parts of one query


class TermReader:
    """Turns terms of the package into `Linear`; the products that it met are in `derived`."""

    def __init__(self, atom: Callable[[str, Sequence[int]], Atom], file: str) -> None:
        self._atom, self._file = atom, file
        self._literals: dict[str, Fraction] = {}
        self._known: dict[Derived, int] = {}
        self.derived: list[Derived] = []

    def difference(self, left: Any, right: Any) -> Linear:
        """Return left − right, without terms that vanish."""
        total = self.term(left)
        _accumulate(total, self.term(right), -1)
        return {atom: c for atom, c in total.items() if c != 0 or atom is None}

    def term(self, expr: Any) -> Linear:
        """Read a term into a new dictionary, which the caller may change."""
        kind = type(expr).__name__
        if kind == "Var":
            return {self._atom(expr.name, expr.indices): Fraction(1)}
        if kind in ("Float", "Int"):
            return {None: self._number(expr)}
        if kind == "Negate":
            return {atom: -c for atom, c in self.term(expr.expr).items()}
        if kind == "Plus":
            return self._sum(expr.args, 1)
        if kind == "Minus":
            return self._sum((expr.head, *expr.rest), -1)
        if kind == "Multiply":
            total = self.term(expr.args[0])
            for factor in expr.args[1:]:
                total = self._times(total, self.term(factor), expr)
            return total
        raise self._wrong(f"an unknown term {kind}", expr, "use +, - and * over variables and numbers")

    def _sum(self, args: Sequence[Any], sign: int) -> Linear:
        total = self.term(args[0])
        for argument in args[1:]:
            _accumulate(total, self.term(argument), sign)
        if any(_bits(c) > MAX_BITS for c in total.values()):
            raise self._wrong("the arithmetic makes numbers that are too long", args[0], "simplify it")
        return total

    def _number(self, literal: Any) -> Fraction:
        """Return a literal's value from its text, since the package holds it as a double."""
        text = str(literal.lexeme)
        if text not in self._literals:
            try:
                value = decimal(text)
            except OverflowError as error:
                raise self._wrong(f"{text[:40]}: {error}", literal, LIMITS) from error
            if value is None:
                raise self._wrong(f"{text[:40]!r} is no number", literal, "write a decimal number")
            self._literals[text] = value
        return self._literals[text]

    def _times(self, left: Linear, right: Linear, where: Any) -> Linear:
        for one, other in ((left, right), (right, left)):
            if _is_constant(one):
                factor = one.get(None, Fraction(0))
                scaled = {atom: c * factor for atom, c in other.items() if factor}
                if any(_bits(c) > MAX_BITS for c in scaled.values()):
                    raise self._wrong("the arithmetic makes numbers that are too long", where, "simplify it")
                return scaled
        (a, form), (b, other_form) = self._form(left, where), self._form(right, where)
        product = Product(*sorted((form, other_form), key=lambda f: (f.terms, f.constant)))
        return {self._derive(product, where): a * b}

    def positive(self, term: Linear) -> Linear:
        """Return max(term, 0), a value of its own unless the term is constant."""
        if _is_constant(term):
            return {None: max(term.get(None, Fraction(0)), Fraction(0))}
        factor, form = self._form(term, None)
        if factor < 0:
            negated = tuple((atom, -c) for atom, c in form.terms)
            factor, form = -factor, Form(negated, -form.constant)
        return {self._derive(Positive(form), None): factor}

    def _derive(self, one: Derived, where: Any) -> Atom:
        if one not in self._known:
            if len(self.derived) >= MAX_DERIVED:
                raise self._wrong(f"more than {MAX_DERIVED} products and choices", where, "split the query")
            self._known[one] = len(self.derived)
            self.derived.append(one)
        return ("p", self._known[one])

    def _form(self, term: Linear, where: Any) -> tuple[Fraction, Form]:
        """Write a term as a factor times a form with whole coefficients."""
        factor, direction = direction_of(term)
        constant = term.get(None, Fraction(0)) / factor
        shared = constant.denominator
        form = Form(tuple((atom, c * shared) for atom, c in direction), int(constant * shared))
        if max(abs(c) for c in (*(c for _, c in form.terms), form.constant)) >= EXACT:
            what = "a product" if where is not None else "a choice"
            raise self._wrong(f"the numbers in {what} have too many digits", where, "round them to 15 digits in all")
        return factor / shared, form

    def _wrong(self, message: str, expr: Any, remedy: str) -> SpecError:
        line = None if expr is None else line_of(expr)
        return SpecError(message, file=self._file or None, line=line, remedy=remedy)


def direction_of(term: Linear) -> tuple[Fraction, Direction]:
    """Write what a term has beside its constant as a factor times a direction; it must have something."""
    return _primitive({atom: c for atom, c in term.items() if atom is not None and c != 0})


def line_of(expr: Any) -> int | None:
    """Return the line of the first variable or number in an expression: the package keeps no others."""
    stack = [expr]
    while stack:
        here = stack.pop()
        line = getattr(here, "line", None)
        if line is not None:
            return int(line)
        stack.extend(reversed(here.children()))
    return None


def _primitive(terms: dict[Atom, Fraction]) -> tuple[Fraction, Direction]:
    if len(terms) == 1:
        ((atom, c),) = terms.items()
        return c, ((atom, 1),)
    ordered = sorted(terms.items())
    below = math.lcm(*(c.denominator for _, c in ordered))
    whole = [(atom, c.numerator * (below // c.denominator)) for atom, c in ordered]
    above = math.gcd(*(c for _, c in whole)) * (1 if whole[0][1] > 0 else -1)
    return Fraction(above, below), tuple((atom, c // above) for atom, c in whole)


def minus(left: Linear, right: Linear) -> Linear:
    """Return left − right."""
    total = dict(left)
    _accumulate(total, right, -1)
    return total


def plus(left: Linear, right: Linear) -> Linear:
    """Return left + right."""
    total = dict(left)
    _accumulate(total, right, 1)
    return total


def _accumulate(total: Linear, term: Linear, sign: int) -> None:
    for atom, c in term.items():
        total[atom] = total.get(atom, Fraction(0)) + sign * c


def _is_constant(term: Linear) -> bool:
    return all(atom is None or c == 0 for atom, c in term.items())


def _bits(c: Fraction) -> int:
    return max(c.numerator.bit_length(), c.denominator.bit_length())
