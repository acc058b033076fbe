"""And/or formulas over limits of linear forms, and their disjunctive form without what cannot be.

What is already known of a form decides alternatives before they are multiplied out: one that contradicts it is dropped,
one that follows from it settles its disjunction, and a disjunction with one alternative left is no choice.

By how much an alternative that was dropped cannot be is its `spare`, so that a margin can count it: of two limits that
contradict each other, the largest value of λ·(one's excess) + (1 − λ)·(the other's) that holds at every point.
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

    As it was written, it was `scale` times that, which is positive; two limits that differ in it say the same. Without
    a scale it is no part of what was written, but known of every input.
    """

    direction: Direction
    upper: bool
    value: Fraction
    strict: bool
    scale: Fraction | None = field(default=Fraction(1), compare=False)

    @property
    def key(self) -> Key:
        return (self.direction, self.upper)


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Formula, ...]
    spare: Spare = field(default=None, compare=False)  # of the parts that it has no more


def conjunction(parts: Iterable[Formula]) -> Formula:
    """Join parts that must all hold, without those that do anyway."""
    rest = tuple(part for part in parts if part != TRUE)
    impossible = [part.spare for part in rest if isinstance(part, Some) and not part.parts]
    if impossible:
        return Some((), None if None in impossible else max(filter(None, impossible), default=Fraction(0)))
    return rest[0] if len(rest) == 1 else All(rest)


def disjunction(parts: Iterable[Formula]) -> Formula:
    """Join parts of which one must hold, without those that cannot."""
    given = tuple(parts)
    rest = tuple(part for part in given if part != FALSE)
    spare = least(part.spare for part in given if isinstance(part, Some) and not part.parts)
    return TRUE if TRUE in rest else rest[0] if len(rest) == 1 and spare is None else Some(rest, spare)


def least(spares: Iterable[Spare]) -> Spare:
    """Return the least of several; None, which is none, is above all."""
    return min((spare for spare in spares if spare is not None), default=None)


def spare_of(formula: Formula) -> Spare:
    """Return the least spare of what was dropped anywhere in a formula."""
    if isinstance(formula, Limit):
        return None
    own = formula.spare if isinstance(formula, Some) else None
    return least([own, *map(spare_of, formula.parts)])


Key = tuple[Direction, bool]
Formula = Limit | All | Some
Spare = Fraction | None  # None where nothing was dropped
TRUE, FALSE = All(()), Some(())


@dataclass
class Facts:
    """The tightest limits so far, by form and side: those of `base`, and on top of them `own`."""

    base: Mapping[Key, Limit] = field(default_factory=dict)
    own: dict[Key, Limit] = field(default_factory=dict)
    conflict: Limit | None = None  # the limit that contradicted the others
    spare: Spare = None  # the least of what was dropped on account of them

    def _get(self, key: Key) -> Limit | None:
        return self.own.get(key) or self.base.get(key)

    def add(self, limit: Limit) -> bool:
        """Take a limit; False where it contradicts the others."""
        if self.excludes(limit):
            self.conflict = limit
            self.drop(limit)
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

    def drop(self, formula: Formula) -> None:
        """Count what is known not to hold among what was dropped."""
        self.spare = least([self.spare, self._excess(formula)])

    def _excess(self, formula: Formula) -> Spare:
        """Return the spare of a formula that is known not to hold: of `and` the best of its parts'."""
        if isinstance(formula, Limit):
            return _apart(limit=formula, known=self._get((formula.direction, not formula.upper)))
        if isinstance(formula, Some):
            return least(map(self._excess, formula.parts))
        found = [self._excess(part) for part in formula.parts if self.state(part) is False]
        return None if None in found else max(filter(None, found), default=Fraction(0))

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

    `conflict` is then a limit that contradicts the others, where one alone does. `spare` is the least of all that was
    dropped: where every option left fails by as much, so does the formula.
    """

    common: tuple[Limit, ...]
    options: tuple[tuple[Limit, ...], ...]
    conflict: Limit | None = None
    spare: Spare = None


def normal_form(formula: Formula, most: int = MAX_CLAUSES) -> Normal:
    """Return the disjunctive form; TooManyClausesError beyond `most` options or MAX_WORK."""
    facts = Facts()
    pending = _assume(facts, [formula], _Budget())
    if pending is None:
        return Normal((), (), facts.conflict, least([facts.spare, spare_of(formula)]))
    options, spare = _options(facts.own, pending, most)
    spare = least([facts.spare, spare, spare_of(formula)])
    return Normal(tuple(facts.own.values()), tuple(_without_supersets(options)), spare=spare)


class _Budget:
    def __init__(self) -> None:
        self._left = MAX_WORK

    def spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise TooManyClausesError("too many combinations of and/or")


def _options(common: Mapping[Key, Limit], pending: list[Some], most: int) -> tuple[list[tuple[Limit, ...]], Spare]:
    """Multiply the disjunctions out, one choice after the other, the smallest first; return also what was spared."""
    found: list[tuple[Limit, ...]] = []
    spare: Spare = None
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
            spare = least([spare, facts.spare])
            if more is not None:
                stack.append((facts.own, more))
    return found, spare


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
            for part, state in zip(some.parts, states, strict=True):
                if state is False:
                    facts.drop(part)
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
    """Drop an option that says all that another one says, and more: the other one holds its violations too.

    The other one gets the smaller scales of both, so that its margin is none that the dropped one lacks.
    """
    unique: dict[frozenset[Limit], dict[Limit, Limit]] = {}
    for option in options:
        _rescale(unique.setdefault(frozenset(option), dict(zip(option, option, strict=True))), option)
    if len(unique) <= FEW:
        for own in sorted(unique, key=len, reverse=True):
            smaller = next((other for other in unique if other < own), None)
            if smaller is not None:
                _rescale(unique[smaller], unique.pop(own).values())
    return [tuple(limits.values()) for limits in unique.values()]


def _rescale(limits: dict[Limit, Limit], others: Iterable[Limit]) -> None:
    """Take over the smaller scales of equal limits, in place."""
    for other in others:
        mine = limits.get(other)
        if mine is not None and other.scale is not None and (mine.scale is None or other.scale < mine.scale):
            limits[other] = other


def _apart(limit: Limit, known: Limit | None) -> Spare:
    """Return the spare of two limits that contradict each other; one without a scale weighs as much as is needed."""
    if known is None:
        return Fraction(0)
    distance = abs(limit.value - known.value)
    scales = [one.scale for one in (limit, known) if one.scale is not None]
    return distance / sum(1 / scale for scale in scales) if scales else None
