"""The margin of a condition is none that one of its comparisons lacks, in the units in which it was written."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
import torch

import netproof
from netproof.problem.ask.compile import violations
from netproof.problem.formulas import build
from support.conditions import network

Point = dict[str, tuple[Fraction, ...]]
REGION = netproof.box([[0, 0]], [[1, 1]])
GRID = {"x": [Fraction(k, 4) for k in (0, 1, 3, 4)], "y": [Fraction(k, 2) for k in (-3, 0, 1)]}
RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Leaf:
    """A comparison, beside how far it holds."""

    condition: Any  # None of constants, which only maxima compare
    by: Callable[[Point], Fraction]
    strict: bool
    of_one_input: bool = False

    def holds(self, at: Point) -> bool:
        return self.by(at) > 0 if self.strict else self.by(at) >= 0


Clauses = list[list[Leaf]]  # one of each must hold


class Draw:
    """Draws conditions, each beside the clauses that it is."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.vectors = dict(zip("xy", netproof.variables(network(2, 2)), strict=True))

    def condition(self, depth: int) -> tuple[Any, Clauses]:
        if depth == 0:
            return self.comparison()
        (a, some), (b, others) = self.condition(depth - 1), self.condition(depth - 1)
        if self.rng.random() < 0.5:
            return a & b, some + others
        return a | b, [left + right for left, right in itertools.product(some, others)]

    def comparison(self) -> tuple[Any, Clauses]:
        relation, number = self.rng.choice(list(RELATIONS)), Fraction(self.rng.randint(-8, 12), 4)
        kind = self.rng.choice(["one", "one", "input", "sum", "extreme"])
        terms = [self.term("x" if kind == "input" else None) for _ in range(1 if kind in ("one", "input") else 2)]
        if kind != "extreme":
            expression = sum(expression for expression, *_ in terms)
            leaf = self.leaf(lambda at: sum(f(at) for _, f, _ in terms), relation, number)
            names = {name for *_, name in terms}
            alone = len(names) == 1 and "x" in names.pop()
            return RELATIONS[relation](expression, number), [
                [Leaf(None, leaf.by, leaf.strict, alone)] if _varies(expression) else [leaf]
            ]
        constant = Fraction(self.rng.randint(-8, 12), 4)
        largest = self.rng.random() < 0.5
        parts: list[Any] = [terms[0][0], terms[1][0], constant]
        leaves = [
            Leaf(None, leaf.by, leaf.strict, "x" in name)
            for (_, f, name), leaf in ((term, self.leaf(term[1], relation, number)) for term in terms)
        ]
        leaves.append(self.leaf(lambda _: constant, relation, number))
        every = largest == (relation in ("<", "<="))
        made = (netproof.maximum if largest else netproof.minimum)(*parts)
        return RELATIONS[relation](made, number), [[leaf] for leaf in leaves] if every else [leaves]

    def term(self, name: str | None) -> tuple[Any, Callable[[Point], Fraction], str]:
        name, k = name or self.rng.choice("xy"), self.rng.randrange(2)
        c = Fraction(self.rng.choice([-10, -2, -1, 1, 3, 10]), self.rng.choice([1, 1, 4]))
        return c * self.vectors[name][k], lambda at: c * at[name][k], f"{name}{k}"

    def leaf(self, value: Callable[[Point], Any], relation: str, number: Fraction) -> Leaf:
        sign = 1 if relation in (">", ">=") else -1
        return Leaf(None, lambda at: sign * (value(at) - number), relation in ("<", ">"))


def _varies(expression: Any) -> bool:
    return bool(expression.terms)


def margin(clauses: Clauses, at: Point) -> Any:
    """The margin as the documentation has it: comparisons of one input beside others narrow the region."""
    found = []
    for clause in clauses:
        premises, rest = ([leaf for leaf in clause if leaf.of_one_input == one] for one in (True, False))
        if rest and any(leaf.holds(at) for leaf in premises):
            continue
        found.append(max(leaf.by(at) for leaf in rest or premises))
    return min(found, default=math.inf)


def claimed(property: Any, at: Point) -> Any:
    """The most that a proof can say of this point."""
    found = [math.inf if property.spare is None else property.spare]
    values = property.with_derived(at["x"], at["y"])
    inside = [disjunct for disjunct in property.disjuncts if disjunct.box.contains(at["x"])]
    found += [max(row.value(at["x"], values) - row.rhs for row in disjunct.rows) for disjunct in inside]
    return min(found)


def may_hold(condition: Any) -> bool:
    """Whether no input breaks it by itself, and some network may."""
    property = violations(condition, REGION)
    return bool(property.disjuncts) and all(disjunct.rows for disjunct in property.disjuncts)


def compare(condition: Any, clauses: Clauses) -> bool:
    """Compare what may be claimed with what is true; say whether it is as much somewhere."""
    property, tight = violations(condition, REGION), False
    for x, y in itertools.product(*(itertools.product(GRID[name], repeat=2) for name in "xy")):
        at: Point = {"x": x, "y": y}
        if all(any(leaf.holds(at) for leaf in clause) for clause in clauses):
            said, true = claimed(property, at), margin(clauses, at)
            assert said <= true, (condition, at)
            tight |= said == true != math.inf
    return tight


def drawn(depths: Sequence[int]) -> list[tuple[Any, Clauses]]:
    made = [Draw(seed).condition(depth) for seed, depth in enumerate(depths)]
    return [(condition, clauses) for condition, clauses in made if may_hold(condition)]


def test_no_comparison_holds_by_less_than_the_margin() -> None:
    tight = [compare(*one) for one in drawn([1, 2] * 45)]
    assert sum(tight) > 25


def test_choices_that_are_written_as_rows_have_a_margin_too(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions = drawn([2] * 60)
    monkeypatch.setattr(build, "MANY", 1)
    monkeypatch.setattr("netproof.problem.formulas.choices.KEPT", 1)
    assert sum(compare(*one) for one in conditions) > 5
    assert any(violations(condition, REGION).derived for condition, _ in conditions)


@pytest.mark.parametrize(
    ("ask", "least"),
    [
        (lambda x, y: (x[0] < 1.5) & (y[0] < 100), 0.5),
        (lambda x, y: netproof.maximum(x[0], y[0] - 90) < 1.5, 0.5),
        (lambda x, y: (y[0] >= -1) & (10 * y[0] >= -10), 1),
        (lambda x, y: (1000 * y[0] < 2000) & (y[0] < 2), 1),
        (lambda x, y: (y[0] < 100) | (x[0] < 0.5), 99),
        (lambda x, y: ((y[0] < 3) | (y[0] > 2)) & (y[1] < 100), 0.5),
        (lambda x, y: netproof.maximum(y[0] - 50, 1) < 2, 1),
        (lambda x, y: x[0] < 1.5, None),
    ],
)
def test_a_verdict_says_the_margin(ask: Callable[..., Any], least: float | None) -> None:
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        model.weight[:], model.bias[:] = torch.eye(2), 0
    verdict = netproof.verify(model, REGION, ask(*netproof.variables(model, REGION)), device="cpu", threads=1)
    assert verdict.proved
    assert verdict.lower_bound == (least if least is None else pytest.approx(least))
    assert least is None or verdict.lower_bound <= least


def test_margins_before_and_behind_a_last_map_are_not_mixed() -> None:
    """Rows that compare outputs are asked of what a Softmax reads; a limit on an input is of the input."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softmax(-1))
    with torch.no_grad():
        model[0].weight[:], model[0].bias[:] = torch.eye(2), torch.tensor([9.0, 0.0])
    x, y = netproof.variables(model, REGION)
    proved = netproof.verify(model, REGION, (x[0] < 1.5) & (y[0] > y[1]), device="cpu", threads=1)
    assert proved.proved
    assert proved.lower_bound is None


@pytest.mark.parametrize("last", [torch.nn.Tanh(), torch.nn.Softmax(1)], ids=["tanh", "softmax"])
def test_what_compares_inputs_is_in_no_unit_with_what_a_last_map_reads(last: torch.nn.Module) -> None:
    linear = torch.nn.Linear(2, 2)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.copy_(torch.tensor([4.0, 0.0]))
    model = torch.nn.Sequential(linear, last)
    x, y = netproof.variables(model, REGION)
    alone = netproof.verify(model, REGION, y[0] > y[1], device="cpu")
    assert alone.lower_bound == pytest.approx(4.0)  # of what the map reads
    mixed = netproof.verify(model, REGION, (x[0] + x[1] < 1.5) | (y[0] > y[1]), device="cpu")
    assert mixed.proved
    assert mixed.lower_bound is None
