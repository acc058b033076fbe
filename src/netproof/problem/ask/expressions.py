"""Expressions over variables: linear forms, with products, maxima and minima as values of their own. All exact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from netproof.arguments import shown, whole
from netproof.errors import UsageError
from netproof.problem.ask.calls import OfNumpy
from netproof.problem.ask.conditions import Comparison, Condition
from netproof.problem.ask.numbers import brief, shown_number, together
from netproof.problem.ask.space import Space, Variable, joint
from netproof.problem.specs import exact

MAX_POWER = 64


class Symbolic(OfNumpy):
    """What stands for numbers: it has no truth value, and numpy leaves its operators alone."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == makes a condition, so that sets and dictionaries would go wrong

    def __bool__(self) -> bool:
        raise UsageError(
            f"{brief(self)} has no truth value: it stands for every input at once", remedy="compare it, as in y[0] > 0"
        )

    def _misread(self, other: Any = None) -> Any:
        raise UsageError(
            "&, | and ~ join conditions, and bind tighter than comparisons",
            remedy="put each comparison in parentheses, as in (y[0] > 1) & (y[1] < 2)",
        )

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _misread


class ProductOf(tuple["Expression", "Expression"]):
    """The product of two expressions, a value by itself."""

    __slots__ = ()
    __hash__ = object.__hash__  # by identity: equal ones are found where numbers are compared
    __eq__ = object.__eq__


class Extreme:
    """The largest or the least of several expressions."""

    __slots__ = ("largest", "parts", "word")

    def __init__(self, parts: Sequence[Expression], largest: bool, word: str) -> None:
        self.parts, self.largest, self.word = tuple(parts), largest, word


Key = Variable | ProductOf | Extreme


class Expression(Symbolic):
    """constant + Σ c·key, where a key is a variable, a product, or the largest or least of several expressions."""

    __slots__ = ("constant", "space", "terms")

    def __init__(self, space: Space | None, terms: Mapping[Any, Fraction], constant: Fraction = Fraction(0)) -> None:
        self.space, self.terms, self.constant = space, terms, constant

    @staticmethod
    def of(value: Any) -> Expression:
        """Return a number as an expression, exactly; an expression as it is."""
        if isinstance(value, Expression):
            return value
        if isinstance(value, Condition):
            raise UsageError(
                f"a condition ({brief(value)}) is no number", remedy="use &, |, ~ and netproof.when with it"
            )
        if isinstance(value, list | tuple | dict) or getattr(value, "ndim", 0) > 0:
            raise UsageError(
                f"an expression and {type(value).__name__} do not go together here",
                remedy="give one number, or use the whole vector: weights @ y, y - array",
            )
        return Expression(None, {}, exact(value))

    def _joined(self, other: Any, sign: int) -> Any:
        if isinstance(other, Symbolic) and not isinstance(other, Expression):
            return NotImplemented  # a vector, which knows what to do
        added = Expression.of(other)
        terms = dict(self.terms)  # copied, so that a sum of many, element by element, stays fast
        for key, c in added.terms.items():
            total = terms.get(key, 0) + (c if sign > 0 else -c)
            if total:
                terms[key] = total
            else:
                del terms[key]
        constant = self.constant + sign * added.constant
        return Expression(joint(self.space, added.space), terms, constant)

    def __add__(self, other: Any) -> Any:
        return self._joined(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._joined(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Expression:
        return self.scaled(Fraction(-1))

    def __pos__(self) -> Expression:
        return self

    def scaled(self, factor: Fraction) -> Expression:
        """Return factor·self."""
        terms = {key: c * factor for key, c in self.terms.items()} if factor else {}
        return Expression(self.space, terms, self.constant * factor)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Symbolic) and not isinstance(other, Expression):
            return NotImplemented
        factor = Expression.of(other)
        space = joint(self.space, factor.space)
        if not factor.terms:
            return self.scaled(factor.constant)
        if not self.terms:
            return factor.scaled(self.constant)
        return Expression(space, {ProductOf((self, factor)): Fraction(1)})

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Symbolic):
            return self.__rtruediv__(other)
        divisor = Expression.of(other).constant
        if divisor == 0:
            raise UsageError(f"{brief(self)} is divided by 0", remedy="correct the divisor")
        return self.scaled(1 / divisor)

    def __rtruediv__(self, other: Any) -> Any:
        raise UsageError(
            "expressions are divided by numbers only", remedy="multiply both sides of the comparison by the divisor"
        )

    def __pow__(self, exponent: Any) -> Expression:
        n = whole(exponent, "an exponent", 0, MAX_POWER)
        power = Expression(self.space, {}, Fraction(1))
        for bit in f"{n:b}":
            power = power * power
            power = power * self if bit == "1" else power
        return power

    def __abs__(self) -> Expression:
        if not self.terms:
            return Expression(self.space, {}, abs(self.constant))
        return Expression(self.space, {Extreme((self, -self), True, "abs"): Fraction(1)})

    def __lt__(self, other: Any) -> Condition:
        return self._compared(other, "<")

    def __le__(self, other: Any) -> Condition:
        return self._compared(other, "<=")

    def __gt__(self, other: Any) -> Condition:
        return self._compared(other, ">")

    def __ge__(self, other: Any) -> Condition:
        return self._compared(other, ">=")

    def __eq__(self, other: Any) -> Condition:  # type: ignore[override]
        return self._compared(other, "==")

    def __ne__(self, other: Any) -> Condition:  # type: ignore[override]
        return self._compared(other, "!=")

    def _compared(self, other: Any, relation: str) -> Condition:
        if isinstance(other, Symbolic) and not isinstance(other, Expression):
            return NotImplemented  # type: ignore[no-any-return]  # a vector, which refuses it
        right = Expression.of(other)
        space = joint(self.space, right.space)
        if space is None or not (self.terms or right.terms):
            raise UsageError(
                f"{self!r} {relation} {right!r} compares constants: it says nothing of the network",
                remedy="use a variable in it",
            )
        return Comparison(space, self, relation, right)

    def __repr__(self) -> str:
        parts = [(c, self._key(key)) for key, c in self.terms.items()]
        if self.constant or not parts:
            parts.append((self.constant, ""))
        words = [_term(c, text, first=i == 0) for i, (c, text) in enumerate(parts)]
        return together(words, " ", most=10)

    def _key(self, key: Key) -> str:
        if isinstance(key, ProductOf):
            if key[0] is key[1]:
                return f"{_factor(key[0])}**2"
            return "*".join(map(_factor, key))
        if isinstance(key, Extreme):
            parts = key.parts[:1] if key.word == "abs" else key.parts
            return f"{key.word}({together(list(map(repr, parts)), ', ')})"
        return self.space.named(key) if self.space is not None else str(key)


def _factor(expression: Expression) -> str:
    plain = len(expression.terms) == 1 and not expression.constant and set(expression.terms.values()) == {1}
    return repr(expression) if plain else f"({expression!r})"


def _term(c: Fraction, text: str, first: bool) -> str:
    """Write c·text, with its sign before it as in a sum."""
    size = abs(c)
    body = shown_number(size) if not text else text if size == 1 else f"{shown_number(size)}*{text}"
    sign = "-" if c < 0 else "" if first else "+"
    return f"{sign}{body}" if first else f"{sign} {body}"


def combined(parts: Iterable[tuple[Fraction, Expression]]) -> Expression:
    """Return Σ factor·expression, without terms that vanish."""
    terms: dict[Key, Fraction] = {}
    constant = Fraction(0)
    space: Space | None = None
    for factor, expression in parts:
        if not factor:
            continue
        space = joint(space, expression.space)
        constant += factor * expression.constant
        for key, c in expression.terms.items():
            terms[key] = terms.get(key, Fraction(0)) + (c if factor == 1 else factor * c)
    return Expression(space, {key: c for key, c in terms.items() if c}, constant)


def maximum(*values: Any) -> Expression:
    """Return the largest of several expressions and numbers, or of the elements of one vector or list."""
    return _extreme(values, True, "maximum", max)


def minimum(*values: Any) -> Expression:
    """Return the least of several expressions and numbers, or of the elements of one vector or list."""
    return _extreme(values, False, "minimum", min)


def _extreme(values: Sequence[Any], largest: bool, word: str, of: Callable[[list[Fraction]], Fraction]) -> Expression:
    if len(values) == 1 and not isinstance(values[0], Expression):
        if isinstance(values[0], str | bytes | dict | Condition):
            raise UsageError(
                f"{word} cannot take {shown(values[0])} alone",
                remedy=f"give expressions, as netproof.{word}(y[0], y[1])",
            )
        try:
            values = list(getattr(values[0], "flat", values[0]))
        except TypeError:
            values = ()
    if not values:
        raise UsageError(f"{word} of nothing", remedy=f"give expressions, as netproof.{word}(y[0], y[1])")
    parts: list[Expression] = []
    space: Space | None = None
    for value in map(Expression.of, values):
        space = joint(space, value.space)
        (key, c), *rest = value.terms.items() or [(None, Fraction(0))]
        alone = not rest and c == 1 and not value.constant
        # The largest of several, of which one is such a largest itself, is one of them all.
        parts += key.parts if alone and isinstance(key, Extreme) and key.largest == largest else (value,)
    numbers = [part.constant for part in parts if not part.terms]
    parts = [part for part in parts if part.terms]
    if numbers:
        parts.append(Expression(None, {}, of(numbers)))
    return parts[0] if len(parts) == 1 else Expression(space, {Extreme(parts, largest, word): Fraction(1)})
