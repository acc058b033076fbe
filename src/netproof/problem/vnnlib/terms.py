"""Linear terms over the variables of a specification, read exactly; and squares of inputs, of which balls are made."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from netproof.problem.decimal import LIMITS, decimal
from netproof.problem.formulas.arithmetic import MAX_BITS
from netproof.problem.vnnlib.sexpr import Atom, Group, SExpr, Source

Variable = tuple[
    str, int
]  # ("X", 0) is the first input, ("Y", 0) the first output, (SQUARE, 0) the first input's square
SQUARE = "X²"
Linear = dict[Variable | None, Fraction]  # coefficients; the constant stands under None


class TermReader:
    """Turns terms into `Linear`. `variables` may grow while the file is read; literals are cached."""

    def __init__(self, source: Source, variables: Mapping[str, Variable]) -> None:
        self._source = source
        self._variables = variables
        self._literals: dict[str, Fraction] = {}

    def literal(self, atom: Atom) -> Fraction | None:
        """Return the atom's exact value, or None when it is not a number."""
        known = self._literals.get(atom.text)
        if known is not None:
            return known
        try:
            value = decimal(atom.text)
        except OverflowError as error:
            raise self._source.error(f"{atom}: {error}", atom.at, LIMITS) from error
        if value is not None and atom.text.startswith("+"):
            raise self._source.error(f"{atom}: numbers of SMT-LIB have no plus sign", atom.at, "leave the sign out")
        if value is not None:
            self._literals[atom.text] = value
        return value

    def term(self, expr: SExpr) -> Linear:
        """Read a term into a new dictionary, which the caller may change."""
        if isinstance(expr, Atom):
            variable = self._variables.get(expr.text)
            if variable is not None:
                return {variable: Fraction(1)}
            value = self.literal(expr)
            if value is None:
                raise self._source.error(
                    f"{str(expr)!r} is neither a declared variable nor a number",
                    expr.at,
                    "declare it with (declare-const NAME Real), or correct it",
                )
            return {None: value}
        return self._application(expr)

    def _application(self, expr: Group) -> Linear:
        operator = expr.head
        if operator not in ("+", "-", "*", "/"):
            raise self._source.error(
                f"unknown function in {expr}" if operator else "a term must begin with a function",
                expr.at,
                "terms are linear: use +, -, * and / over variables and numbers",
            )
        arguments = expr.items[1:]
        if not arguments or (operator == "/" and len(arguments) < 2):
            raise self._source.error(f"{operator!r} has too few arguments", expr.at, "give the missing argument")
        total = self.term(arguments[0])
        if operator == "-" and len(arguments) == 1:
            return {key: -c for key, c in total.items()}
        for argument in arguments[1:]:
            if operator in ("+", "-"):
                self.accumulate(total, self.term(argument), 1 if operator == "+" else -1, argument)
            else:
                total = self._scale(operator, total, self.term(argument), argument)
        return total

    def accumulate(self, total: Linear, term: Linear, sign: int, where: SExpr) -> None:
        """Add sign·term to `total`, in place so that long sums stay linear in their length."""
        for key, c in term.items():
            total[key] = self._bounded(total.get(key, Fraction(0)) + sign * c, where)

    def _scale(self, operator: str, left: Linear, right: Linear, where: SExpr) -> Linear:
        if operator == "/":
            divisor = _constant(right)
            if divisor is None:
                raise self._nonlinear("division by a variable", where)
            if divisor == 0:
                raise self._source.error("division by zero", where.at, "correct the divisor")
            return {key: self._bounded(c / divisor, where) for key, c in left.items()}
        factor = _constant(right)
        if factor is None:
            left, right = right, left
            factor = _constant(right)
        if factor is None:
            return self._square(left, right, where)
        return {key: self._bounded(c * factor, where) for key, c in left.items()}

    def _square(self, left: Linear, right: Linear, where: SExpr) -> Linear:
        """Return (a·x + b)·(c·x + d) of one input x."""
        names = {key for term in (left, right) for key, c in term.items() if key is not None and c != 0}
        if len(names) != 1 or next(iter(names))[0] != "X":
            raise self._nonlinear("a product of variables", where)
        (x,) = names
        (a, b), (c, d) = ((term.get(x, Fraction(0)), term.get(None, Fraction(0))) for term in (left, right))
        product = {(SQUARE, x[1]): a * c, x: a * d + b * c, None: b * d}
        return {key: self._bounded(value, where) for key, value in product.items()}

    def _bounded(self, value: Fraction, where: SExpr) -> Fraction:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
            raise self._source.error("the arithmetic makes numbers that are too long", where.at, "simplify it")
        return value

    def _nonlinear(self, what: str, where: SExpr) -> Exception:
        return self._source.error(f"{what} is not linear", where.at, "only linear constraints are supported")


def _constant(term: Linear) -> Fraction | None:
    """Return the term's value; None when a variable is left in it."""
    if any(key is not None and c != 0 for key, c in term.items()):
        return None
    return term.get(None, Fraction(0))
