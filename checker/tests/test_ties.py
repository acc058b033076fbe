"""Strict rows: a leaf holds where its exact value is 0, and nowhere below."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from certificates import AGAIN, MULTIPLIERS, WEIGHTS, Case, bounds, dense, floats, leaf, onnx_model, spec, split
from npcheck.errors import Invalid

TWINS = dense(([[1.0], [1.0]], [0.0, 0.0]), ([[1.0, -1.0]], [0.0]))  # relu(x) − relu(x)
KINK = bounds(2, [0, 1])


def split_on_both(*parts: bytes) -> bytes:
    """Return a tree with the leaves ++, +−, −+, −−."""
    return KINK + bytes((8, 9)) + parts[0] + parts[1] + bytes((9,)) + parts[2] + parts[3]


def leaves() -> bytes:
    """Where the signs differ, a multiplier of 1 takes x away: f = x where x >= 0, or f = −x where x <= 0."""
    away = leaf(MULTIPLIERS, floats("e", 1.0, 0.0))
    return split_on_both(leaf(), away, away, leaf())


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_tie_holds_for_a_strict_row(tmp_path: Path, jobs: int) -> None:
    case = Case(tmp_path, TWINS, spec([-1], [1], 1, "(< Y_0 0)"))
    assert case.check(leaves(), jobs=jobs).leaves == 4
    with pytest.raises(Invalid, match="disjunct 0: leaf 1 is not shown: -1"):
        case.check(split_on_both(*[leaf()] * 4), jobs=jobs)


@pytest.mark.parametrize("row", ["(<= Y_0 0)", "(< Y_0 1e-12)", "(< Y_0 1e-300)", "(or (< Y_0 0) (<= Y_0 0))"])
def test_it_holds_for_nothing_else(tmp_path: Path, row: str) -> None:
    with pytest.raises(Invalid, match="is not shown: -"):
        Case(tmp_path, TWINS, spec([-1], [1], 1, row)).check(leaves() + leaves()[len(KINK) :])


def test_a_tie_with_all_neurons_bounded_again(tmp_path: Path) -> None:
    """Splits of neurons move bounds to 0 itself; intervals of half a box end beside it, so no tie holds there."""
    case = Case(tmp_path, TWINS, spec([-1], [1], 1, "(< Y_0 0)"))
    again = bytes((AGAIN,))
    assert case.check(KINK + again + leaves()[len(KINK) :], exact=9).leaves == 4
    with pytest.raises(Invalid, match="leaf 0"):
        case.check(KINK + split(0, 0.0) + (again + leaf()) * 2)


def test_coefficients_beyond_float64_on_a_ball(tmp_path: Path) -> None:
    """The pass in float64 has no bound, and the exact one divides 2^1100 between the box and the ball."""
    values = ["x", *"abcdefghij", "y"]
    nodes = [helper.make_node("Mul", [values[i], "w"], [values[i + 1]]) for i in range(11)]
    model = onnx_model(nodes, 1, {"w": np.array([2.0**100], np.float32)})
    case = Case(tmp_path, model, spec([-1], [1], 1, "(<= (* X_0 X_0) 1)", "(< Y_0 0)"))
    with pytest.raises(Invalid, match="leaf 0 is not shown: -inf"):
        case.check(leaf())


@pytest.mark.parametrize(
    ("weights", "holds"), [((1.0, 0.0), False), ((0.0, 1.0), True), ((0.5, 0.25), True), ((0.0, 0.0), False)]
)
def test_the_strict_row_has_a_weight(tmp_path: Path, weights: tuple[float, float], holds: bool) -> None:
    """Y_0 = x >= 0. The first row is not strict, and admits x = 0; so does the second one, but it is strict."""
    case = Case(tmp_path, dense(([[1.0]], [0.0])), spec([0], [1], 1, "(<= Y_0 0)", "(< (* 2 Y_0) 0)"))
    tree = leaf(WEIGHTS, floats("f", *weights))
    if holds:
        assert case.check(tree).leaves == 1
    else:
        with pytest.raises(Invalid, match="leaf 0 is not shown"):
            case.check(tree)


def test_rows_are_the_specification_s_own(tmp_path: Path) -> None:
    """The float64 0.1 is above 0.1 by 5.5e-18: that is enough, and 6e-18 would not be."""
    model = dense(([[0.1]], [0.0]), dtype=np.float64)
    assert Case(tmp_path, model, spec([1], [1], 1, "(< Y_0 0.1000000000000000055)")).check(leaf()).leaves == 1
    with pytest.raises(Invalid, match="not shown"):
        Case(tmp_path, model, spec([1], [1], 1, "(< Y_0 0.1000000000000000056)")).check(leaf())


def test_folded_numbers_have_no_ties(tmp_path: Path) -> None:
    """x / 3 is computed with the float64 nearest to 1/3, which is below it."""
    nodes = [helper.make_node("Div", ["x", "w"], ["y"])]
    model = onnx_model(nodes, 1, {"w": np.array([3.0], dtype=np.float32)})
    with pytest.raises(Invalid, match="not shown"):
        Case(tmp_path, model, spec([0], [3], 1, "(< Y_0 0)")).check(leaf())
