"""Exact arithmetic of polynomial terms: linear forms, with products and positive parts as values of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from netproof.errors import NetproofError
from netproof.problem.derived import Atom, Derived, Form, Positive, Product

Linear = dict[Atom | None, Fraction]  # coefficients; the constant stands under None
Direction = tuple[tuple[Atom, int], ...]  # whole coefficients without a common factor, the first of them positive
Wrong = Callable[[str, Any, str], NetproofError]  # (message, where, remedy) -> the error to raise; where may be None

EXACT = 2**53  # whole numbers up to here are float64
SHORT = 2**10  # whole coefficients below it stay whole
LEAST = Fraction(1, 10**100)  # float64 numbers that are smaller, or larger than its inverse, are not used
MAX_BITS = 20_000  # of a numerator or denominator that arithmetic makes
MAX_DERIVED = 10_000  # products and positive parts of one question


class Arithmetic:
    """Computes with `Linear`; the products and positive parts that it met are in `derived`."""

    def __init__(self, wrong: Wrong) -> None:
        self._wrong = wrong
        self._known: dict[Derived, int] = {}
        self.derived: list[Derived] = []

    def sum(self, terms: Sequence[Linear], signs: Sequence[int], where: Any = None) -> Linear:
        """Return Σ sign·term."""
        total: Linear = {}
        for term, sign in zip(terms, signs, strict=True):
            _accumulate(total, term, sign)
        return self._short(total, where)

    def times(self, left: Linear, right: Linear, where: Any = None) -> Linear:
        """Return left·right, a value of its own unless one of them is constant."""
        for one, other in ((left, right), (right, left)):
            if _is_constant(one):
                factor = one.get(None, Fraction(0))
                return self._short({atom: c * factor for atom, c in other.items() if factor}, where)
        (a, form), (b, other_form) = (self._form(term, where, "a product") for term in (left, right))
        product = Product(*sorted((form, other_form), key=lambda f: (f.terms, f.constant)))
        return {self._derive(product, where): a * b}

    def positive(self, term: Linear, where: Any = None) -> Linear:
        """Return max(term, 0), a value of its own unless the term is constant."""
        if _is_constant(term):
            return {None: max(term.get(None, Fraction(0)), Fraction(0))}
        factor, form = self._form(term, where, "a choice")
        if factor < 0:
            negated = tuple((atom, -c) for atom, c in form.terms)
            factor, form = -factor, Form(negated, -form.constant)
        return {self._derive(Positive(form), where): factor}

    def larger(self, a: Linear, b: Linear) -> Linear:
        """Return max(a, b)."""
        return plus(a, self.positive(minus(b, a)))

    def smaller(self, a: Linear, b: Linear) -> Linear:
        """Return min(a, b)."""
        return minus(a, self.positive(minus(a, b)))

    def _short(self, term: Linear, where: Any) -> Linear:
        if any(_bits(c) > MAX_BITS for c in term.values()):
            raise self._wrong("the arithmetic makes numbers that are too long", where, "simplify it")
        return term

    def _derive(self, one: Derived, where: Any) -> Atom:
        if one not in self._known:
            if len(self.derived) >= MAX_DERIVED:
                raise self._wrong(f"more than {MAX_DERIVED} products and choices", where, "split the query")
            self._known[one] = len(self.derived)
            self.derived.append(one)
        return ("p", self._known[one])

    def _form(self, term: Linear, where: Any, what: str) -> tuple[Fraction, Form]:
        """Write a term as a factor times a form: with whole coefficients, or where these are too long, with its own.

        Long ones are divided by a power of two, so that the values of the form are no larger than they need be.
        """
        factor, direction = direction_of(term)
        constant = term.get(None, Fraction(0)) / factor
        shared = constant.denominator
        terms = [(atom, Fraction(c * shared)) for atom, c in direction]
        factor, constant = factor / shared, constant * shared
        if max(abs(c) for c in (constant, *(c for _, c in terms))) >= EXACT:
            terms = sorted((atom, c) for atom, c in term.items() if atom is not None and c)
            factor, constant = Fraction(1), term.get(None, Fraction(0))
            if not all(map(_is_double, (constant, *(c for _, c in terms)))):
                remedy = "round them to 15 digits in all"
                raise self._wrong(f"the numbers in {what} have too many digits", where, remedy)
        largest = max(abs(c) for c in (constant, *(c for _, c in terms)))
        power = Fraction(2) ** (int(largest).bit_length() - 1) if largest >= SHORT else Fraction(1)
        return factor * power, Form(tuple((atom, _plain(c / power)) for atom, c in terms), _plain(constant / power))


def folded(values: Sequence[Linear], join: Callable[[Linear, Linear], Linear]) -> Linear:
    """Join values two by two, so that few stand on each other."""
    left = list(values)
    while len(left) > 1:
        pairs = [join(a, b) for a, b in zip(left[::2], left[1::2], strict=False)]
        left = pairs + ([left[-1]] if len(left) % 2 else [])
    return left[0]


def direction_of(term: Linear) -> tuple[Fraction, Direction]:
    """Write what a term has beside its constant as a factor times a direction; it must have something."""
    return _primitive({atom: c for atom, c in term.items() if atom is not None and c != 0})


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


def _plain(c: Fraction) -> int | Fraction:
    return c.numerator if c.denominator == 1 else c


def _is_double(c: Fraction) -> bool:
    """Say whether float64 holds a number exactly, far from its limits."""
    return c == 0 or (LEAST <= abs(c) <= 1 / LEAST and Fraction(float(c)) == c)


def _bits(c: Fraction) -> int:
    return max(c.numerator.bit_length(), c.denominator.bit_length())
