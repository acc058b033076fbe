"""Conditions on variables: what must hold of every input of a region and the network's outputs there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from netproof.arguments import shown
from netproof.errors import UsageError
from netproof.problem.ask.calls import OfNumpy
from netproof.problem.ask.numbers import brief, together
from netproof.problem.ask.space import Space, joint

if TYPE_CHECKING:
    from netproof.problem.ask.expressions import Expression
    from netproof.problem.specs import InputRegion

Said = Callable[[], str]

NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


class Condition(OfNumpy):
    """A comparison of expressions, or several conditions joined by & (and) and | (or); ~ is the opposite."""

    __slots__ = ("space",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, space: Space) -> None:
        self.space = space

    def __bool__(self) -> bool:
        raise UsageError(
            f"a condition ({brief(self)}) is neither true nor false by itself, so `and`, `or`, `not`, `in` and "
            "a < b < c would lose a part of it",
            remedy="write (a < b) & (b < c), (…) | (…), ~(…), netproof.every([…]) or netproof.between(b, a, c)",
        )

    def __and__(self, other: Any) -> Condition:
        return Every.of([self, other])

    def __rand__(self, other: Any) -> Condition:
        return Every.of([other, self])

    def __or__(self, other: Any) -> Condition:
        return AnyOf.of([self, other])

    def __ror__(self, other: Any) -> Condition:
        return AnyOf.of([other, self])

    def __invert__(self) -> Condition:
        raise NotImplementedError

    def _incomparable(self, other: Any) -> Any:
        raise UsageError(
            f"a condition ({brief(self)}) is not compared",
            remedy="write (a < b) & (b < c) for a < b < c; put comparisons beside & and | in parentheses",
        )

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _incomparable

    def vnnlib(self, region: InputRegion | Sequence[InputRegion]) -> str:
        """Write the question whether it holds on a region as VNN-LIB: 1.0, or 2.0 where that is needed.

        The text describes a violation, with every number exact.
        """
        from netproof.problem.ask.text import vnnlib_of  # which compiles conditions

        return vnnlib_of(self, region)


class Comparison(Condition):
    __slots__ = ("left", "relation", "right")

    def __init__(self, space: Space, left: Expression, relation: str, right: Expression) -> None:
        super().__init__(space)
        self.left, self.relation, self.right = left, relation, right

    def __invert__(self) -> Condition:
        return Comparison(self.space, self.left, NEGATED[self.relation], self.right)

    def __repr__(self) -> str:
        return f"{self.left!r} {self.relation} {self.right!r}"


class Joined(Condition):
    """Several conditions; `said` is how they are shown, where that is shorter."""

    __slots__ = ("parts", "said")
    sign, word = "", ""

    def __init__(self, space: Space, parts: Sequence[Condition], said: Said | None = None) -> None:
        super().__init__(space)
        self.parts, self.said = tuple(parts), said

    @classmethod
    def of(cls, parts: Iterable[Any], said: Said | None = None) -> Condition:
        """Join conditions, those of the same kind as one; UsageError where something else is among them."""
        found: list[Condition] = []
        space: Space | None = None
        for part in parts:
            checked = condition(part)
            space = joint(space, checked.space)
            found += checked.parts if isinstance(checked, cls) and not checked.said else [checked]
        if space is None:
            raise UsageError(f"{cls.word} of no conditions", remedy="give at least one")
        return found[0] if len(found) == 1 and not said else cls(space, found, said)

    @property
    def _opposite(self) -> Said | None:
        return None if self.said is None else lambda: f"~({self!r})"

    def __repr__(self) -> str:
        if self.said is not None:
            return self.said()
        return together([f"({part!r})" for part in self.parts], f" {self.sign} ")


class Every(Joined):
    """All of its parts hold."""

    __slots__ = ()
    sign, word = "&", "every"

    def __invert__(self) -> Condition:
        return AnyOf(self.space, [~part for part in self.parts], self._opposite)


class AnyOf(Joined):
    """One of its parts holds at least."""

    __slots__ = ()
    sign, word = "|", "some"

    def __invert__(self) -> Condition:
        return Every(self.space, [~part for part in self.parts], self._opposite)


def condition(value: Any, what: str = "") -> Condition:
    """Check that a value is a condition; UsageError with the likely reason if it is none."""
    if isinstance(value, Condition):
        return value
    lead = f"{what} cannot be" if what else "a condition is needed, not"
    if isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool"):
        raise UsageError(
            f"{lead} {shown(value)}: a comparison of numbers, which says nothing of the network",
            remedy="compare variables of netproof.variables(network), as in y[3] > y[1]",
        )
    if isinstance(value, list | tuple | set) or hasattr(value, "__next__"):
        raise UsageError(f"{lead} a {type(value).__name__}", remedy="join conditions with netproof.every([…])")
    raise UsageError(f"{lead} {shown(value)}", remedy="compare expressions, as in y[3] > y[1] + 0.1")


def every(conditions: Iterable[Any]) -> Condition:
    """Return the condition that all of these hold."""
    return Every.of(_listed(conditions, "every"))


def some(conditions: Iterable[Any]) -> Condition:
    """Return the condition that at least one of these holds."""
    return AnyOf.of(_listed(conditions, "some"))


def _listed(conditions: Any, word: str) -> list[Any]:
    if isinstance(conditions, Condition):
        raise UsageError(f"{word} takes a list of conditions", remedy=f"write netproof.{word}([a, b])")
    try:
        return list(conditions)
    except TypeError:
        raise UsageError(
            f"{word} cannot take {shown(conditions)}", remedy=f"give conditions, as netproof.{word}([a, b])"
        ) from None


def when(premise: Any, conclusion: Any) -> Condition:
    """Return the condition that wherever the premise holds, the conclusion does."""
    a, b = condition(premise), condition(conclusion)
    return AnyOf.of([~a, b], lambda: f"when({a!r}, {b!r})")
