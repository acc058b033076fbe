"""Vectors of expressions, indexed as numpy indexes arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netproof.arguments import shown, whole
from netproof.errors import UsageError
from netproof.problem.ask.conditions import AnyOf, Condition, Every
from netproof.problem.ask.expressions import Expression, Symbolic, combined, maximum, minimum
from netproof.problem.ask.numbers import together
from netproof.problem.ask.space import Space, squeezed
from netproof.problem.specs import exact_array

Operator = Callable[[Any, Any], Any]


class Vector(Symbolic):
    """Expressions in an array of any shape. Those of a network's tensors are made when they are asked for.

    Axes of size 1 are left out of `shape`; an index may count them or not, and may leave out the batch axis alone.
    """

    __slots__ = ("_at", "_of", "_tensors", "_whole", "name")

    def __init__(
        self,
        at: NDArray[Any],
        of: Callable[[int], Expression],
        name: str = "",
        whole: tuple[int, ...] | None = None,
        tensors: Mapping[str, Vector] | None = None,
    ) -> None:
        """Take the numbers (*shape) of the elements, and what makes an element of its number.

        whole: the shape in the file; tensors: by name, what it is made of.
        """
        self._at, self._of, self.name = at, of, name
        self._whole, self._tensors = whole, tensors or {}

    @staticmethod
    def variables(space: Space, kind: str, run: int) -> Vector:
        """Return the inputs ("x") or outputs ("y") of one run."""

        def variable(entry: int) -> Expression:
            return Expression(space, {(kind, run, entry): Fraction(1)})

        def at(start: int, shape: tuple[int, ...]) -> NDArray[Any]:
            return np.arange(start, start + math.prod(shape)).reshape(squeezed(shape))

        tensors, start = {}, 0
        for info in space.infos(kind, run):
            name = str(info.name)
            tensors[name] = Vector(at(start, info.shape), variable, name, info.shape)
            start += tensors[name].size
        shape = space.shape(kind, run)
        return Vector(at(0, shape), variable, space.name(kind, run), shape, tensors)

    @staticmethod
    def of(entries: NDArray[Any]) -> Vector:
        """Return expressions in an array of objects (*shape)."""
        flat = entries.reshape(-1)
        return Vector(np.arange(flat.size).reshape(entries.shape), lambda k: Expression.of(flat[k]))

    @property
    def shape(self) -> tuple[int, ...]:
        return self._at.shape

    @property
    def ndim(self) -> int:
        return self._at.ndim

    @property
    def size(self) -> int:
        return self._at.size

    @property
    def flat(self) -> Vector:
        """Return all elements in row-major order, as a vector with one axis."""
        return Vector(self._at.reshape(-1), self._of)

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[Any]:
        return (self._picked(part) for part in self._at)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self._tensors:
                known = ", ".join(self._tensors) or "none"
                raise UsageError(f"there is no tensor {key!r} here", remedy=f"names are: {known}")
            return self._tensors[key]
        keys = key if isinstance(key, tuple) else (key,)
        wrong = next((one for one in keys if one is None or isinstance(one, bool | np.bool_ | Symbolic)), keys)
        try:
            if wrong is not keys:
                raise IndexError(f"{wrong!r} is no index")
            return self._picked(self._arranged(keys)[key])
        except (IndexError, TypeError, ValueError) as error:
            raise UsageError(
                f"{self.name or 'the vector'} has no element [{', '.join(map(_shown_index, keys))}]: {error}",
                remedy=f"its shape is {list(self._whole or self.shape)}",
            ) from None

    def _arranged(self, keys: tuple[Any, ...]) -> NDArray[Any]:
        """Return the numbers in the shape that so many indices are of: the file's, without its batch, or without 1s."""
        shape = self._whole
        if shape is None or any(one is Ellipsis for one in keys):
            return self._at
        if len(keys) == len(shape):
            return self._at.reshape(shape)
        return self._at.reshape(shape[1:]) if shape[:1] == (1,) and len(keys) == len(shape) - 1 else self._at

    def _picked(self, at: Any) -> Any:
        return self._of(int(at)) if np.ndim(at) == 0 else Vector(at, self._of)

    @property
    def _array(self) -> NDArray[Any]:
        """Return the elements as an array of objects (*shape)."""
        found = np.empty(self._at.size, dtype=object)
        found[:] = [self._of(k) for k in self._at.reshape(-1).tolist()]
        return found.reshape(self._at.shape)

    def _elementwise(self, other: Any, by: Operator) -> Any:
        right = self._like(other)
        found = np.empty(self.size, dtype=object)
        found[:] = [by(a, b) for a, b in zip(self.flat, right, strict=True)]
        return Vector.of(found.reshape(self.shape))

    def _like(self, other: Any) -> list[Any]:
        """Return one number or expression for each element, from one for all or an array of this shape."""
        given = _array_of(other)
        if given.size == 1:
            return [given.reshape(-1)[0]] * self.size
        if squeezed(given.shape) != squeezed(self.shape):
            raise UsageError(
                f"vectors of shapes {list(self.shape)} and {list(given.shape)} do not go together",
                remedy="give equal shapes, or one number",
            )
        return list(given.reshape(-1))

    def __add__(self, other: Any) -> Any:
        return self._elementwise(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._elementwise(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._elementwise(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._elementwise(other, operator.mul)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._elementwise(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        return self._elementwise(other, lambda a, b: b / a)

    def __pow__(self, exponent: Any) -> Any:
        power = whole(exponent, "an exponent", 0)
        return self._elementwise(0, lambda a, _: a**power)

    def __neg__(self) -> Any:
        return self * -1

    def __abs__(self) -> Any:
        return self._elementwise(0, lambda a, _: abs(a))

    def __matmul__(self, other: Any) -> Any:
        return self._dotted(other, left=False)

    def __rmatmul__(self, other: Any) -> Any:
        return self._dotted(other, left=True)

    def _dotted(self, other: Any, *, left: bool) -> Any:
        """Return other @ self, where other stands on the left, or self @ other."""
        factors = _array_of(other)
        factors = factors if left else factors.T
        if self.ndim != 1 or factors.ndim not in (1, 2) or factors.shape[-1] != self.size:
            shapes = [list(_array_of(other).shape), list(self.shape)]
            raise UsageError(
                "a product of shapes {} and {} is not possible".format(*(shapes if left else reversed(shapes))),
                remedy="weights @ y takes weights (n,) or (rows, n) and y (n,); y.flat has one axis",
            )
        mine = list(self)
        found = [_dot(row, mine) for row in factors.reshape(-1, self.size)]
        if factors.ndim == 1:
            return found[0]
        entries = np.empty(len(found), dtype=object)
        entries[:] = found
        return Vector.of(entries)

    def sum(self) -> Expression:
        """Return the sum of all elements."""
        return combined((Fraction(1), element) for element in self.flat)

    def max(self) -> Expression:
        """Return the largest element."""
        return maximum(self)

    def min(self) -> Expression:
        """Return the least element."""
        return minimum(self)

    def argmax(self) -> Winner:
        """Return the place of the largest element, counted in row-major order, to be compared with a number."""
        return Winner(self, largest=True)

    def argmin(self) -> Winner:
        """Return the place of the least element, counted in row-major order, to be compared with a number."""
        return Winner(self, largest=False)

    def _incomparable(self, other: Any) -> Any:
        all_of_it = "y" if self.ndim == 1 else "y.flat"
        raise UsageError(
            f"a vector of {self.size} elements is not compared as a whole",
            remedy=f"compare its elements, as in netproof.every(v > 0 for v in {all_of_it})",
        )

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _incomparable

    @property
    def said(self) -> str:
        """Return how it is called in conditions: by its name, or by its elements."""
        return self.name or f"[{together([repr(self._of(int(k))) for k in self._at.reshape(-1)], ', ')}]"

    def __repr__(self) -> str:
        return f"Vector({self.said}, shape={list(self._whole or self.shape)})"


class Winner(Symbolic):
    """The place of the largest (or least) element; where several share it, it is equal to none of their places.

    So `== k` says that k alone is the largest, `!= k` that some other one is larger: a tie satisfies neither.
    """

    __slots__ = ("_largest", "_vector")

    def __init__(self, vector: Vector, *, largest: bool) -> None:
        self._vector, self._largest = vector, largest
        if not vector.size:
            word = "argmax" if largest else "argmin"
            raise UsageError(f"{word} of nothing: the vector has no elements", remedy="choose at least two")

    def __eq__(self, other: Any) -> Condition:  # type: ignore[override]
        mine, rest = self._apart(other)
        beaten = [mine > one if self._largest else mine < one for one in rest]
        return Every.of(beaten, lambda: f"{self!r} == {other}")

    def __ne__(self, other: Any) -> Condition:  # type: ignore[override]
        mine, rest = self._apart(other)
        beating = [mine < one if self._largest else mine > one for one in rest]
        return AnyOf.of(beating, lambda: f"{self!r} != {other}")

    def _apart(self, place: Any) -> tuple[Expression, list[Expression]]:
        """Return the element at a place, and all others."""
        if isinstance(place, Winner):
            raise UsageError(
                f"{self!r} is compared with a number only",
                remedy="write netproof.every(netproof.when(a.argmax() == k, b.argmax() == k) for k in range(len(a)))",
            )
        k = whole(place, "a place of the largest", 0, self._vector.size - 1)
        elements = list(self._vector.flat)
        if len(elements) < 2:
            raise UsageError("the largest of one element is always that one", remedy="compare several")
        return elements[k], elements[:k] + elements[k + 1 :]

    def _unordered(self, other: Any) -> Any:
        raise UsageError(
            f"{self!r} is compared by == and != only", remedy="join several with |, as in (a == 1) | (a == 2)"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _unordered

    def __repr__(self) -> str:
        return f"{self._vector.said}.{'argmax' if self._largest else 'argmin'}()"


def _shown_index(key: Any) -> str:
    if isinstance(key, slice):
        return ":".join("" if part is None else str(part) for part in (key.start, key.stop))
    return shown(key)


def _array_of(value: Any) -> NDArray[Any]:
    """Return a vector, an expression, a number or an array of numbers as an array of objects, exactly.

    Numbers are fractions in it, so that what may be divided or multiplied by them is.
    """
    if isinstance(value, Vector):
        return value._array
    found: NDArray[Any] = np.empty((), dtype=object)
    if isinstance(value, Expression) or (np.ndim(value) == 0 and not hasattr(value, "__len__")):
        one = Expression.of(value)
        found[()] = one if one.terms else one.constant
        return found
    numbers, shape = exact_array(value, "the array")
    found = np.empty(len(numbers), dtype=object)
    found[:] = numbers
    return found.reshape(shape)


def _dot(factors: Any, elements: list[Expression]) -> Expression:
    """Return Σ factor·element; numbers among the factors make no products."""
    pairs = list(zip(factors, elements, strict=True))
    plain = [(factor, element) for factor, element in pairs if isinstance(factor, Fraction)]
    others = [(Fraction(1), element * factor) for factor, element in pairs if not isinstance(factor, Fraction)]
    return combined([*plain, *others])


def between(value: Any, low: Any, high: Any) -> Condition:
    """Return the condition low <= value <= high; of a vector, of all its elements."""
    one = np.empty(1, dtype=object)
    one[0] = value
    vector = value if isinstance(value, Vector) else Vector.of(one)
    sides = zip(vector.flat, vector._like(low), vector._like(high), strict=True)
    shown_value = vector.said if isinstance(value, Vector) else repr(value)
    shown_sides = [repr(Expression.of(side)) if _array_of(side).ndim == 0 else "[...]" for side in (low, high)]
    said = f"between({shown_value}, {', '.join(shown_sides)})"
    return Every.of([part for e, a, b in sides for part in (e >= a, e <= b)], lambda: said)
