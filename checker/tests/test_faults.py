"""Faults that this checker once had, each with the smallest files that showed it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from certificates import AGAIN, RAY, Case, bounds, dense, floats, leaf, onnx_model, spec, split
from npcheck.bound import Form, lower_bound
from npcheck.errors import Invalid
from npcheck.network import Input, Linear, Network, Node
from npcheck.ranges import Lines, interval, start


def test_a_network_that_returns_its_input_keeps_its_output_beside_rows_on_inputs(tmp_path: Path) -> None:
    """The row 1/2 + X_0 − 2·Y_0 + X_1 <= 0 is broken by x = (1, 0), as y = x: the coefficient of Y was lost."""
    model = onnx_model([helper.make_node("Identity", ["x"], ["y"])], 2)
    row = "(<= (+ 0.5 X_0 (* -2.0 Y_0) X_1) 0.0)"
    case = Case(tmp_path, model, spec([0, 0], [1, 1], 2, row))
    with pytest.raises(Invalid, match=r"not shown: -0\.5 "):
        case.check(leaf())


def test_what_underflows_is_not_multiplied_with_huge_values(tmp_path: Path) -> None:
    """The row's factor −2e-324 is 0 in float64, but the output is 2^400: the row is −5e-204 + 3e-204 < 0."""
    big = [[2.0**100]]
    model = dense((big, [0.0]), (big, [0.0]), (big, [0.0]), (big, [0.0]))
    case = Case(tmp_path, model, spec([1], [1], 1, "(<= (+ 3e-204 (* -2e-324 Y_0)) 0.0)"))
    with pytest.raises(Invalid, match="not shown"):
        case.check(bounds(1) * 3 + leaf())


def test_coefficients_that_underflow_are_not_multiplied_with_huge_values(tmp_path: Path) -> None:
    """2^-900·2^-200 is 0 in float64, but the input of that product is 2^700, and −2^-400 + 2^-401 < 0."""
    big, small = [[2.0**100]], [[2.0**-900]]
    layers = [(big, [0.0])] * 7 + [([[-(2.0**-200)]], [0.0]), (small, [2.0**-401])]
    nodes, constants, value = [], {}, "x"
    for place, (weight, bias) in enumerate(layers):  # without ReLUs between
        constants[f"w{place}"], constants[f"b{place}"] = np.array(weight), np.array(bias)
        made = "y" if place == len(layers) - 1 else f"v{place}"
        nodes.append(helper.make_node("Gemm", [value, f"w{place}", f"b{place}"], [made]))
        value = made
    case = Case(tmp_path, onnx_model(nodes, 1, constants), spec([1], [1], 1, "(<= Y_0 0.0)"))
    with pytest.raises(Invalid, match="not shown"):
        case.check(leaf())


def test_magnitudes_that_underflow_are_not_multiplied_with_huge_coefficients() -> None:
    """|W| Z is 2^-1090 and less, so 0 in float64, but the coefficients are 2^900, and their products cancel."""
    rng = np.random.default_rng(1)
    above = 0
    for _ in range(200):
        weight, a = rng.standard_normal((2, 3)) * 2.0**-1000, rng.standard_normal(3) * 2.0**900
        weight[:, 1] = weight[:, 0] * (1 + 1e-14 * rng.standard_normal(2))
        a[2] = -(a[0] * weight[0, 0] + a[1] * weight[1, 0]) / (weight[0, 0] or 1)
        matrix = np.array([[weight[0, 0]], [weight[1, 0]], [weight[0, 0]]])
        network = Network((Node(Input(), (), 1, "x"), Node(Linear(matrix), (0,), 3, "v")))
        point = np.array([[2.0**-90]])
        ranges = start(network, point, point)
        ranges.lower[1], ranges.upper[1] = interval(network, 1, ranges)
        form = Form(np.zeros(1), np.zeros(1), {1: a[None]})
        (bound,) = lower_bound(network, form, ranges, Lines({}))
        exact = sum(Fraction(x) * Fraction(w) for x, w in zip(a.tolist(), matrix[:, 0].tolist(), strict=True))
        above += bound > -np.inf and Fraction(bound) > exact * Fraction(2.0**-90)
    assert above == 0


def absolute() -> bytes:
    """Return |x0 − x1| and |x0 + x1|: a node that a ReLU reads is also read by a sum, behind the ReLU."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Abs", ["h"], ["y"])]
    return onnx_model(nodes, 2, {"w": np.array([[1.0, 1.0], [-1.0, 1.0]], dtype=np.float32)})


@pytest.mark.parametrize("order", [["x", "v"], ["v", "x"]])
def test_sums_of_what_is_split_and_what_is_not(tmp_path: Path, order: list[str]) -> None:
    """Bounds of one input have a row for each leaf, those of the other a single row for all leaves."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["v"]), helper.make_node("Add", order, ["y"])]
    model = onnx_model(nodes, 1, {"w": np.array([[2.0]], dtype=np.float32)})
    case = Case(tmp_path, model, spec([0], [1], 1, "(<= Y_0 -0.5)"))
    assert case.check(split(0, 0.5) + leaf() + leaf()).leaves == 2


def test_sums_of_a_node_that_is_split_and_its_relu(tmp_path: Path) -> None:
    case = Case(tmp_path, absolute(), spec([-1, -1], [1, 1], 2, "(<= Y_0 -2.5)"))
    assert case.check(bounds(2, [0, 1]) + bytes((8,)) + leaf() + leaf()).leaves == 2


def test_joined_nodes_of_which_one_is_split(tmp_path: Path) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["v"]), helper.make_node("Concat", ["v", "x"], ["y"], axis=1)]
    case = Case(tmp_path, onnx_model(nodes, 1), spec([0], [1], 2, "(<= Y_1 -0.5)"))
    assert case.check(split(0, 0.5) + leaf() + leaf()).leaves == 2


@pytest.mark.parametrize(("flags", "fault"), [(0, "row"), (RAY, "not shown"), (16, "not shown")])
def test_a_disjunct_without_rows(tmp_path: Path, flags: int, fault: str) -> None:
    """It says that every point of the box breaks the statement; only an empty part has no such point."""
    case = Case(tmp_path, dense(([[1.0]], [0.0])), spec([0], [1], 1))
    with pytest.raises(Invalid, match=fault):
        case.check(leaf(flags))


def test_a_claim_may_be_shown_with_all_neurons_bounded_again(tmp_path: Path) -> None:
    """There, the nodes behind the claim's are not known yet."""
    eye = np.eye(2)
    case = Case(tmp_path, dense((eye, [0, 0]), (eye, [0, 0]), (eye[:1], [2])), spec([-1, -1], [1, 1], 1, "(<= Y_0 0)"))
    claim = bounds(2, codes=[3, 0]) + floats("f", -0.125) + split(0, 0) + bytes((AGAIN,)) + leaf() + leaf()
    assert case.check(bounds(2) + claim + leaf()).leaves == 1
