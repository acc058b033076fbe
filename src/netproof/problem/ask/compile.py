"""From a condition and the region on which it must hold to a property: the set of violations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from netproof.arguments import shown
from netproof.errors import NetproofError, UsageError
from netproof.problem.ask.conditions import Comparison, Condition, Every, Joined
from netproof.problem.ask.expressions import Expression, Extreme, ProductOf, combined
from netproof.problem.ask.space import Space
from netproof.problem.derived import Atom
from netproof.problem.formulas.arithmetic import Arithmetic, Linear, folded
from netproof.problem.formulas.build import build, compared
from netproof.problem.formulas.normal import Formula, Limit, conjunction, disjunction
from netproof.problem.property import Box, Property
from netproof.problem.specs import InputRegion

CASES = 16  # of maxima in one comparison that are told apart; more of them are neurons


def violations(condition: Condition, region: Any, cases: int = CASES) -> Property:
    """Return the property that a condition holds on a region, or on one for each run; UsageError if it cannot be."""
    space = condition.space
    regions = regions_of(space, region)
    try:
        return _of_image(condition, regions[0]) if regions[0].map is not None else _of_sets(condition, regions, cases)
    except RecursionError:
        raise UsageError(
            "the condition is nested too deeply", remedy="join many parts at once: netproof.every, maximum, sum"
        ) from None


def _of_sets(condition: Condition, regions: Sequence[InputRegion], cases: int) -> Property:
    """Return the property on boxes, or on one ball."""
    space = condition.space
    compiler = _Compiler(space, cases)

    def read(place: Sequence[int], arithmetic: Arithmetic) -> list[Formula]:
        formula = compiler.violation(condition, place, arithmetic)
        return [formula, *_known(formula, whole_box(regions, place))]

    ball = regions[0].ball
    inputs, outputs = (space.starts[kind][-1] for kind in ("x", "y"))
    built = build(inputs, outputs, read, _wrong, join=ball is None)
    plain = space.runs == 1 and built.place == tuple(range(inputs))
    return Property(
        built.disjuncts(_unbounded, whole_box(regions, built.place), ball),
        built.entries,
        outputs,
        derived=built.derived,
        interface=None if plain else space.interface(built.place),
        vacuous=built.vacuous,
        spare=built.normal.spare,
    )


def _of_image(condition: Condition, region: InputRegion) -> Property:
    """Return the property on a linear image of a box, whose rows are over outputs alone."""
    space, compiler = condition.space, _Compiler(condition.space, CASES)
    read = next((variable for variable in compiler.variables(condition) if variable[0] == "x"), None)
    if read is not None:
        raise UsageError(
            f"on a linear image a condition cannot speak of inputs such as {space.named(read)}",
            remedy="use a box, or ask of outputs only",
        )
    inputs = len(region.box.lower)
    built = build(inputs, space.size("y"), lambda p, a: [compiler.violation(condition, p, a)], _wrong, join=False)
    disjuncts = built.disjuncts(_unbounded, region.box)
    return Property(
        disjuncts,
        inputs,
        space.size("y"),
        derived=built.derived,
        map=region.map,
        vacuous=built.vacuous,
        spare=built.normal.spare,
    )


def regions_of(space: Space, region: Any) -> list[InputRegion]:
    """Check the region, or those of several runs, and return one for each run."""
    several = isinstance(region, list | tuple)
    found = list(region) if several else [region] * space.runs
    for one in found:
        if not isinstance(one, InputRegion):
            raise UsageError(
                f"a condition goes with an input region, not with {shown(one)}",
                remedy="give one, such as netproof.box(lower, upper) or netproof.linf_ball(x, eps)",
            )
    if len(found) != space.runs:
        raise UsageError(f"{len(found)} regions for {space.runs} runs", remedy="give one for all runs, or one for each")
    if space.runs > 1 and any(one.ball is not None or one.map is not None for one in found):
        raise UsageError(
            "several runs need regions that are boxes",
            remedy="use netproof.box or linf_ball, and say the rest in the condition",
        )
    for run, one in enumerate(found):
        size, mine = space.size("x", run), math.prod(one.shape)
        if mine != size:
            raise UsageError(
                f"the region has inputs of {mine} numbers, the network takes {size}",
                remedy=f"give a region of its input shape {list(space.shape('x', run))}",
            )
    return found


def whole_box(regions: Sequence[InputRegion], place: Sequence[int]) -> Box:
    """Return the box of x, from those of all inputs one after the other, by the entry of x that each input is."""
    boxes = [region.box for region in regions]
    if len(boxes) == 1 and list(place) == list(range(len(boxes[0].lower))):
        return boxes[0]
    lower: dict[int, Fraction] = {}
    upper: dict[int, Fraction] = {}
    pairs = ((low, high) for box in boxes for low, high in zip(box.lower, box.upper, strict=True))
    for entry, (low, high) in zip(place, pairs, strict=True):
        lower[entry] = max(low, lower.get(entry, low))
        upper[entry] = min(high, upper.get(entry, high))
    low_side, high_side = (tuple(side[k] for k in range(len(side))) for side in (lower, upper))
    return Box(low_side, high_side)


def _known(formula: Formula, box: Box) -> list[Formula]:
    """Return what the box says of inputs that the formula limits one by one, which may decide cases of it."""
    found: dict[Atom, None] = {}
    stack = [formula]
    while stack:
        here = stack.pop()
        if not isinstance(here, Limit):
            stack.extend(here.parts)
        elif len(here.direction) == 1 and here.direction[0][0][0] == "x":
            found[here.direction[0][0]] = None
    return [
        Limit(((atom, 1),), upper, side[atom[1]], strict=False, scale=None)
        for atom in found
        for upper, side in ((True, box.upper), (False, box.lower))
    ]


class _Compiler:
    """Writes conditions as formulas over the entries of x and y."""

    def __init__(self, space: Space, cases: int) -> None:
        self._space, self._cases = space, cases
        self._place: Sequence[int] = ()
        self._known: dict[int, tuple[Any, Linear]] = {}  # by id, with the object itself, so that the id stays its own

    def violation(self, condition: Condition, place: Sequence[int], arithmetic: Arithmetic) -> Formula:
        """Return the formula that holds where the condition does not."""
        self._place, self._known = place, {}
        return self._formula(~condition, arithmetic)

    def _formula(self, condition: Condition, arithmetic: Arithmetic) -> Formula:
        if isinstance(condition, Joined):
            parts = [self._formula(part, arithmetic) for part in condition.parts]
            return conjunction(parts) if isinstance(condition, Every) else disjunction(parts)
        if not isinstance(condition, Comparison):
            raise TypeError(type(condition).__name__)
        one = Fraction(1)
        return self._compared(
            combined([(one, condition.left), (-one, condition.right)]), condition.relation, arithmetic
        )

    def _compared(self, difference: Expression, relation: str, arithmetic: Arithmetic) -> Formula:
        """Return: difference RELATION 0. Maxima are told apart where there are few."""
        if not _worth_telling_apart(difference, self._cases):
            return compared(self._linear(difference, arithmetic), relation)
        if relation in ("==", "!="):
            sides = [self._compared(difference, side, arithmetic) for side in _SIDES[relation]]
            return conjunction(sides) if relation == "==" else disjunction(sides)
        key = next(key for key in difference.terms if isinstance(key, Extreme))
        c = difference.terms[key]
        rest = Expression(
            difference.space, {k: v for k, v in difference.terms.items() if k is not key}, difference.constant
        )
        parts = [self._compared(combined([(Fraction(1), rest), (c, part)]), relation, arithmetic) for part in key.parts]
        # c·max(parts) is below a number where all are, for c > 0; above it where one is.
        every = ((c > 0) == key.largest) == (relation in ("<", "<="))
        return conjunction(parts) if every else disjunction(parts)

    def _linear(self, expression: Expression, arithmetic: Arithmetic) -> Linear:
        total: Linear = {None: expression.constant}
        for key, c in expression.terms.items():
            if isinstance(key, ProductOf | Extreme):
                value = self._value(key, arithmetic)
            else:
                value = {self._space.atom(key, self._place): Fraction(1)}
            for atom, v in value.items():
                total[atom] = total.get(atom, Fraction(0)) + c * v
        return arithmetic.sum([total], [1])

    def _value(self, key: ProductOf | Extreme, arithmetic: Arithmetic) -> Linear:
        """Return a product or an extreme, which is computed once wherever it is used."""
        if id(key) not in self._known:
            parts = [self._linear(part, arithmetic) for part in (key if isinstance(key, ProductOf) else key.parts)]
            if isinstance(key, ProductOf):
                value = arithmetic.times(*parts)
            else:
                value = folded(parts, arithmetic.larger if key.largest else arithmetic.smaller)
            self._known[id(key)] = (key, value)
        return self._known[id(key)][1]

    def variables(self, condition: Condition) -> dict[Any, None]:
        """Return the variables of a condition, in order."""
        found: dict[Any, None] = {}
        todo: list[Any] = [condition]
        while todo:
            here = todo.pop()
            if isinstance(here, Joined):
                todo += here.parts
            elif isinstance(here, Comparison):
                todo += [here.left, here.right]
            elif isinstance(here, Expression):
                todo += here.terms
            elif isinstance(here, ProductOf | Extreme):
                todo += list(here) if isinstance(here, ProductOf) else here.parts
            else:
                found[here] = None
        return found


_SIDES = {"==": ("<=", ">="), "!=": ("<", ">")}


def _worth_telling_apart(expression: Expression, most: int) -> bool:
    """Say whether an expression has maxima, and few enough: one alone, or up to `most` cases of several."""
    counts = [_cases(key) for key in expression.terms if isinstance(key, Extreme)]
    return bool(counts) and math.prod(counts) <= max(most, sum(counts))


def _cases(key: Extreme) -> int:
    """Count the cases of one extreme: those of all its parts."""
    return sum(math.prod(_cases(k) for k in part.terms if isinstance(k, Extreme)) for part in key.parts)


def _wrong(message: str, where: Any, remedy: str) -> NetproofError:
    more = "; Fraction and Decimal make short ones" if "digits" in remedy else ""
    return UsageError(message, remedy=remedy + more)


def _unbounded(index: int, side: str) -> Any:
    raise AssertionError(f"input {index} has no {side} bound, though the region has")
