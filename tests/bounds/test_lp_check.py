"""The Lagrangian bound is below the exact one for any duals, and near it for good ones."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netproof.programs.check import lagrangian_bound
from netproof.programs.model import Entries, LinearProgram

floats = st.floats(-1e6, 1e6, allow_nan=False) | st.floats(-1e-6, 1e-6, allow_nan=False)


@st.composite
def programs(draw: st.DrawFn) -> tuple[LinearProgram, np.ndarray]:
    """A small program with every bound finite or missing, and any duals; places may repeat."""
    rows, columns, entries = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(0, 12))

    def vector(n: int) -> np.ndarray:
        return np.array(draw(st.lists(floats, min_size=n, max_size=n)), dtype=np.float64)

    def indices(most: int) -> np.ndarray:
        found = draw(st.lists(st.integers(0, most - 1), min_size=entries, max_size=entries))
        return np.array(found, dtype=np.int64)

    sides = np.sort([vector(columns), vector(columns)], axis=0)
    row_sides = np.sort([vector(rows), vector(rows)], axis=0)
    for side, missing in ((0, -math.inf), (1, math.inf)):
        absent = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
        row_sides[side][absent] = missing
    matrix = Entries(indices(rows), indices(columns), vector(entries))
    return LinearProgram(vector(columns), *sides, *row_sides, matrix), vector(rows)


def exact_lagrangian(program: LinearProgram, duals: np.ndarray) -> Fraction:
    """The same bound in rational arithmetic, with duals of the wrong sign dropped."""
    total, reduced = Fraction(0), [Fraction(float(c)) for c in program.cost]
    for i, y in enumerate(duals):
        side = program.row_lower[i] if y > 0 else program.row_upper[i]
        if y == 0 or math.isinf(side):
            continue
        total += Fraction(float(y)) * Fraction(float(side))
        for row, col, value in zip(*program.entries, strict=True):
            if row == i:
                reduced[col] -= Fraction(float(y)) * Fraction(float(value))
    for d, low, high in zip(reduced, program.lower, program.upper, strict=True):
        total += min(d * Fraction(float(low)), d * Fraction(float(high)))
    return total


@settings(max_examples=300, deadline=None)
@given(programs())
def test_never_above_the_exact_value_and_near_it(drawn: tuple[LinearProgram, np.ndarray]) -> None:
    program, duals = drawn
    bound, exact = lagrangian_bound(program, duals), exact_lagrangian(program, duals)
    assert Fraction(bound) <= exact
    _, _, value = program.entries
    size = (1 + np.abs(duals).sum() * (1 + np.abs(value).sum())) * max(
        1.0, *(np.abs(side[np.isfinite(side)]).max(initial=0) for side in (program.lower, program.upper))
    )
    rows = np.nan_to_num(np.stack([program.row_lower, program.row_upper]), posinf=0, neginf=0)
    size = (size + np.abs(duals).sum() * np.abs(rows).max()) * (1 + np.abs(program.cost).max())
    assert float(exact) - bound <= 1e-12 * size


def test_products_that_all_round_upward_are_charged() -> None:
    rng = np.random.default_rng(0)
    cost, value = rng.uniform(-1, 1, (2, 400))  # of both signs: a small sum, so no other slack hides the error
    products = zip(cost, value, strict=True)
    up = np.array([Fraction(float(c * v)) > Fraction(float(c)) * Fraction(float(v)) for c, v in products])
    none = Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    program = LinearProgram(cost[up], value[up], value[up], np.zeros(0), np.zeros(0), none)
    assert Fraction(lagrangian_bound(program, np.zeros(0))) <= exact_lagrangian(program, np.zeros(0))


@pytest.mark.parametrize("x", [1.0, -1.0])
def test_reduced_costs_that_round_are_charged(x: float) -> None:
    """One column, fixed at x, whose cost the rows nearly cancel: what is left of it is mostly rounding."""
    rng = np.random.default_rng(0)
    value, duals = rng.uniform(0.5, 1, (2, 60))
    cost = np.array([float(np.sum(value * duals))])
    matrix = Entries(np.arange(60), np.zeros(60, np.int64), value)
    program = LinearProgram(cost, np.array([x]), np.array([x]), np.zeros(60), np.zeros(60), matrix)
    assert Fraction(lagrangian_bound(program, duals)) <= exact_lagrangian(program, duals)


def test_what_is_not_a_number_decides_nothing() -> None:
    program = LinearProgram(*(np.array([v]) for v in (1.0, -1.0, 2.0, 0.5, 0.5)), Entries(*_one_entry()))
    assert lagrangian_bound(program, np.array([1.0])) == pytest.approx(0.5)
    assert lagrangian_bound(program, np.array([math.nan])) == pytest.approx(-1.0)
    assert lagrangian_bound(program, np.array([math.inf])) == pytest.approx(-1.0)
    open_below = replace(program, lower=np.array([-math.inf]))
    assert lagrangian_bound(open_below, np.array([0.5])) == -math.inf
    assert lagrangian_bound(open_below, np.array([1e300])) == -math.inf


def test_a_column_that_nothing_touches_may_be_unbounded() -> None:
    program = LinearProgram(
        np.array([1.0, 0.0]),
        np.array([0.25, -math.inf]),
        np.array([1.0, math.inf]),
        np.zeros(1),
        np.zeros(1),
        Entries(np.zeros(1, np.int64), np.ones(1, np.int64), np.ones(1)),
    )
    assert lagrangian_bound(program, np.zeros(1)) == pytest.approx(0.25)


def _one_entry() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1)
