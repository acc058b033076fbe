"""A nested formula, evaluated as it stands, agrees with the property's disjunctive form at every point."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from netproof.problem.vnnlib.reader import parse_property

DECIMALS = ["-1", "-0.5", "0", "0.25", "5e-1", "1.0", "2"]
COMPARE = {
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "=": lambda a, b: a == b,
}
number = st.sampled_from(DECIMALS)
operator = st.sampled_from(list(COMPARE))
input_atom = st.tuples(operator, st.sampled_from(["X_0", "X_1"]), number)
output_term = st.recursive(
    st.sampled_from(["Y_0", "Y_1"]) | number,
    lambda inner: (
        st.tuples(st.sampled_from("+-"), inner, inner)
        | st.tuples(st.just("-"), inner)
        | st.tuples(st.just("*"), number, inner)
        | st.tuples(st.just("/"), inner, st.sampled_from(["2", "-0.5"]))
    ),
    max_leaves=4,
)
output_atom = st.tuples(operator, output_term, output_term) | st.tuples(operator, output_term, output_term, output_term)
# Whatever is left of the terms: a bound of one input, or a row over inputs, over outputs, or over both.
mixed_term = st.recursive(
    st.sampled_from(["X_0", "X_1", "Y_0"]) | number,
    lambda inner: st.tuples(st.sampled_from("+-"), inner, inner) | st.tuples(st.just("*"), number, inner),
    max_leaves=4,
)
mixed_atom = st.tuples(operator, mixed_term, mixed_term)
formula = st.recursive(
    input_atom | output_atom | mixed_atom,
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from(["and", "or"]).map(lambda op: (op, *parts))
    ),
    max_leaves=8,
)
point = st.lists(st.sampled_from([Fraction(d) for d in DECIMALS]), min_size=4, max_size=4)


def show(tree: Any) -> str:
    return tree if isinstance(tree, str) else f"({' '.join(map(show, tree))})"


def term(tree: Any, env: dict[str, Fraction]) -> Fraction:
    if isinstance(tree, str):
        return env[tree] if tree in env else Fraction(tree)
    op, *args = tree
    values = [term(a, env) for a in args]
    if op == "-" and len(values) == 1:
        return -values[0]
    left, right = values
    return {"+": left + right, "-": left - right, "*": left * right}[op] if op != "/" else left / right


def truth(tree: Any, env: dict[str, Fraction]) -> bool:
    op, *args = tree
    if op in ("and", "or"):
        return (all if op == "and" else any)(truth(a, env) for a in args)
    values = [term(a, env) for a in args]
    return all(COMPARE[op](a, b) for a, b in pairwise(values))


@settings(max_examples=300, deadline=None)
@given(st.lists(formula, min_size=1, max_size=3), st.lists(point, min_size=1, max_size=8))
def test_property_is_the_formula(assertions: list[Any], points: list[list[Fraction]]) -> None:
    names = ("X_0", "X_1", "Y_0", "Y_1")
    text = "".join(f"(declare-const {name} Real)" for name in names)
    text += "(assert (<= -1 X_0 1)) (assert (<= -1 X_1 2))"
    text += "".join(f"(assert {show(a)})" for a in assertions)
    prop = parse_property(text)
    for values in points:
        env = dict(zip(names, values, strict=True))
        inside = -1 <= env["X_0"] <= 1 and -1 <= env["X_1"] <= 2
        expected = inside and all(truth(a, env) for a in assertions)
        assert prop.violated(values[:2], values[2:]) == expected
