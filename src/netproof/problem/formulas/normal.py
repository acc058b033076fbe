"""And/or formulas over limits of linear forms, and their disjunctive form without what cannot be.

What is already known of a form decides alternatives before they are multiplied out: one that contradicts it is dropped,
one that follows from it settles its disjunction, and a disjunction with one alternative left is no choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from netproof.problem.formulas.arithmetic import Direction
from netproof.problem.formulas.clauses import MAX_CLAUSES, TooManyClausesError

MAX_WORK = 400_000  # alternatives looked at
FEW = 1_000  # options among which those that others hold are looked for


@dataclass(frozen=True, slots=True)
class Limit:
    """direction·v <= value (upper) or >= value; < or > when strict.

    As it was written, it was `scale` times that, which is positive; two limits that differ in it say the same.
    """

    direction: Direction
    upper: bool
    value: Fraction
    strict: bool
    scale: Fraction = field(default=Fraction(1), compare=False)

    @property
    def key(self) -> Key:
        return (self.direction, self.upper)


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Formula, ...]


def conjunction(parts: Iterable[Formula]) -> Formula:
    """Join parts that must all hold, without those that do anyway."""
    rest = tuple(part for part in parts if part != TRUE)
    return FALSE if FALSE in rest else rest[0] if len(rest) == 1 else All(rest)


def disjunction(parts: Iterable[Formula]) -> Formula:
    """Join parts of which one must hold, without those that cannot."""
    rest = tuple(part for part in parts if part != FALSE)
    return TRUE if TRUE in rest else rest[0] if len(rest) == 1 else Some(rest)


Key = tuple[Direction, bool]
Formula = Limit | All | Some
TRUE, FALSE = All(()), Some(())


@dataclass
class Facts:
    """The tightest limits so far, by form and side: those of `base`, and on top of them `own`."""

    base: Mapping[Key, Limit] = field(default_factory=dict)
    own: dict[Key, Limit] = field(default_factory=dict)
    conflict: Limit | None = None  # the limit that contradicted the others

    def _get(self, key: Key) -> Limit | None:
        return self.own.get(key) or self.base.get(key)

    def add(self, limit: Limit) -> bool:
        """Take a limit; False where it contradicts the others."""
        if self.excludes(limit):
            self.conflict = limit
            return False
        if not self.implies(limit):
            self.own[limit.key] = limit
        return True

    def implies(self, limit: Limit) -> bool:
        known = self._get(limit.key)
        if known is None:
            return False
        if known.value == limit.value:
            return known.strict or not limit.strict
        return (known.value < limit.value) == limit.upper

    def excludes(self, limit: Limit) -> bool:
        known = self._get((limit.direction, not limit.upper))
        if known is None:
            return False
        if known.value == limit.value:
            return known.strict or limit.strict
        return (known.value > limit.value) == limit.upper

    def state(self, formula: Formula) -> bool | None:
        """Say whether a formula is known to hold or not to; None where it is neither."""
        if isinstance(formula, Limit):
            return True if self.implies(formula) else False if self.excludes(formula) else None
        settled = isinstance(formula, Some)  # what one part suffices for
        open_ones = False
        for part in formula.parts:
            found = self.state(part)
            if found is settled:
                return settled
            open_ones |= found is None
        return None if open_ones else not settled


@dataclass(frozen=True)
class Normal:
    """`common` and (one of `options`); no options where nothing satisfies the formula.

    `conflict` is then a limit that contradicts the others, where one alone does.
    """

    common: tuple[Limit, ...]
    options: tuple[tuple[Limit, ...], ...]
    conflict: Limit | None = None


def normal_form(formula: Formula, most: int = MAX_CLAUSES) -> Normal:
    """Return the disjunctive form; TooManyClausesError beyond `most` options or MAX_WORK."""
    facts = Facts()
    pending = _assume(facts, [formula], _Budget())
    if pending is None:
        return Normal((), (), facts.conflict)
    options = _options(facts.own, pending, most)
    return Normal(tuple(facts.own.values()), tuple(_without_supersets(options)))


class _Budget:
    def __init__(self) -> None:
        self._left = MAX_WORK

    def spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise TooManyClausesError("too many combinations of and/or")


def _options(common: Mapping[Key, Limit], pending: list[Some], most: int) -> list[tuple[Limit, ...]]:
    """Multiply the disjunctions out, one choice after the other, the smallest first."""
    found: list[tuple[Limit, ...]] = []
    budget = _Budget()
    stack: list[tuple[dict[Key, Limit], list[Some]]] = [({}, pending)]
    while stack:
        own, left = stack.pop()
        if not left:
            found.append(tuple(own.values()))
            if len(found) > most:
                raise TooManyClausesError(f"more than {most} disjuncts")
            continue
        first = min(range(len(left)), key=lambda i: len(left[i].parts))
        rest = left[:first] + left[first + 1 :]
        for part in reversed(left[first].parts):
            facts = Facts(common, dict(own))
            more = _assume(facts, [part, *rest], budget)
            if more is not None:
                stack.append((facts.own, more))
    return found


def _assume(facts: Facts, formulas: Iterable[Formula], budget: _Budget) -> list[Some] | None:
    """Add what must hold to the facts; return the disjunctions that are still open, None at a contradiction."""
    todo, pending = list(formulas), list[Some]()
    while todo:
        while todo:
            formula = todo.pop()
            if isinstance(formula, Limit):
                if not facts.add(formula):
                    return None
            elif isinstance(formula, All):
                todo.extend(formula.parts)
            else:
                pending.append(formula)
        rest = list[Some]()
        for some in pending:
            budget.spend(len(some.parts))
            states = [facts.state(part) for part in some.parts]
            if True in states:
                continue
            alive = tuple(part for part, state in zip(some.parts, states, strict=True) if state is None)
            if not alive:
                return None
            if len(alive) == 1:
                todo.append(alive[0])
            else:
                rest.append(_flat(alive))
        pending = rest
    return pending


def _flat(parts: Sequence[Formula]) -> Some:
    """Join nested disjunctions into one."""
    return Some(tuple(inner for part in parts for inner in (part.parts if isinstance(part, Some) else (part,))))


def _without_supersets(options: list[tuple[Limit, ...]]) -> list[tuple[Limit, ...]]:
    """Drop an option that says all that another one says, and more: the other one holds its violations too."""
    unique = list({frozenset(option): option for option in options}.items())
    if len(unique) > FEW:
        return [option for _, option in unique]
    return [option for own, option in unique if not any(other < own for other, _ in unique)]
