"""Polynomial terms of a query, read exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from netproof.errors import SpecError
from netproof.problem.decimal import LIMITS, decimal
from netproof.problem.derived import Atom
from netproof.problem.formulas.arithmetic import Arithmetic, Linear, minus


class TermReader:
    """Turns terms of the package into `Linear`, by an arithmetic that the caller gives."""

    def __init__(self, atom: Callable[[str, Sequence[int]], Atom], file: str) -> None:
        self._atom, self._file = atom, file
        self._literals: dict[str, Fraction] = {}

    def difference(self, left: Any, right: Any, arithmetic: Arithmetic) -> Linear:
        """Return left − right."""
        return minus(self.term(left, arithmetic), self.term(right, arithmetic))

    def term(self, expr: Any, arithmetic: Arithmetic) -> Linear:
        """Read a term."""
        kind = type(expr).__name__
        if kind == "Var":
            return {self._atom(expr.name, expr.indices): Fraction(1)}
        if kind in ("Float", "Int"):
            return {None: self._number(expr)}
        if kind == "Negate":
            return {atom: -c for atom, c in self.term(expr.expr, arithmetic).items()}
        if kind in ("Plus", "Minus"):
            args = expr.args if kind == "Plus" else (expr.head, *expr.rest)
            signs = [1, *[1 if kind == "Plus" else -1] * (len(args) - 1)]
            return arithmetic.sum([self.term(argument, arithmetic) for argument in args], signs, args[0])
        if kind == "Multiply":
            total = self.term(expr.args[0], arithmetic)
            for factor in expr.args[1:]:
                total = arithmetic.times(total, self.term(factor, arithmetic), expr)
            return total
        raise self.wrong(f"an unknown term {kind}", expr, "use +, - and * over variables and numbers")

    def _number(self, literal: Any) -> Fraction:
        """Return a literal's value from its text, since the package holds it as a double."""
        text = str(literal.lexeme)
        if text not in self._literals:
            try:
                value = decimal(text)
            except OverflowError as error:
                raise self.wrong(f"{text[:40]}: {error}", literal, LIMITS) from error
            if value is None:
                raise self.wrong(f"{text[:40]!r} is no number", literal, "write a decimal number")
            self._literals[text] = value
        return self._literals[text]

    def wrong(self, message: str, expr: Any, remedy: str) -> SpecError:
        """Make an error at an expression, or of the whole query where there is none."""
        line = None if expr is None else line_of(expr)
        return SpecError(message, file=self._file or None, line=line, remedy=remedy)


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
