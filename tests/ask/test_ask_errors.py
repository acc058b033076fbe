"""What cannot be meant is refused in one line with a remedy, before anything is searched."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import netproof
from netproof import UsageError
from support.api import module
from support.conditions import network

BOX = netproof.box([[0, 0]], [[1, 1]])
NET = network(2, 3)
x, y = netproof.variables(NET)

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "index too large": (lambda: y[3], r"y has no element \[3\].*its shape is \[1, 3\]"),
    "negative index": (lambda: y[-4], r"y has no element \[-4\]"),
    "too many indices": (lambda: y[0, 0, 0], r"y has no element \[0, 0, 0\]"),
    "a row that is not there": (lambda: y[1, 2], r"y has no element \[1, 2\]"),
    "a float as an index": (lambda: y[1.0], "y has no element"),
    "a truth value as an index": (lambda: y[True], "y has no element"),
    "a variable as an index": (lambda: y[x[0]], "y has no element"),
    "no such tensor": (lambda: y["z"], "there is no tensor 'z'"),
    "a chain": (lambda: 0 < y[0] < 5, r"\(y\[0\] > 0\).*netproof.between"),
    "and": (lambda: (y[0] > 0) and (y[1] > 0), "neither true nor false"),
    "or": (lambda: (y[0] > 0) or (y[1] > 0), "neither true nor false"),
    "not": (lambda: not (y[0] > 0), "neither true nor false"),
    "if": (lambda: 1 if y[0] == 0 else 2, "neither true nor false"),
    "in a list": (lambda: y[0] in [y[1], y[2]], "neither true nor false"),
    "in a vector": (lambda: y[0] in y, "neither true nor false"),
    "builtin max": (lambda: max(y[0], y[1]), "neither true nor false"),
    "builtin all": (lambda: all(v > 0 for v in y), "neither true nor false"),
    "a sorted vector": (lambda: sorted(y), "neither true nor false"),
    "argmax among several": (lambda: y.argmax() in (1, 2), "neither true nor false"),
    "truth of a number": (lambda: bool(y[0]), "no truth value"),
    "and of numbers": (lambda: y[0] and y[1], "no truth value"),
    "truth of a vector": (lambda: bool(y), "no truth value"),
    "no parentheses": (lambda: y[0] > 1 & y[1] > 2, "parentheses"),
    "a vector compared": (lambda: y > 0, r"netproof.every\(v > 0 for v in y\)"),
    "an array compared": (lambda: np.zeros(3) < y, "not compared as a whole"),
    "vectors compared": (lambda: y == y, "not compared as a whole"),
    "an element and a vector": (lambda: y[0] < y, "not compared as a whole"),
    "conditions compared": (lambda: (y[0] > 0) == (y[1] > 0), "is not compared"),
    "constants": (lambda: y[0] - y[0] < 1, "compares constants"),
    "a number times 0": (lambda: 0 * y[0] < 1, "compares constants"),
    "nan": (lambda: y[0] < float("nan"), "cannot be nan"),
    "infinity": (lambda: y[0] + np.float32("inf") > 0, "cannot be inf"),
    "nan in an array": (lambda: np.array([1, np.nan, 0]) @ y, "cannot be nan"),
    "a truth value": (lambda: y[0] + True, "cannot be True"),
    "a word": (lambda: y[0] > "low", "cannot be 'low'"),
    "none": (lambda: y[0] == None, "cannot be None"),  # noqa: E711
    "a list": (lambda: y[0] + [1, 2], "do not go together"),
    "a function of numpy": (lambda: np.maximum(y[0], 1), r"numpy.maximum.*netproof.maximum\(a, b\)"),
    "a sum of numpy": (lambda: np.sum(y), r"numpy.sum.*y.sum\(\)"),
    "a function that is none of a condition": (lambda: np.exp(y), "or compute it in the network"),
    "numpy's and": (lambda: np.logical_and(y[0] > 0, y[1] > 0), r"\(a\) & \(b\)"),
    "a reduction of numpy": (lambda: np.add.reduce(y), "numpy.add.reduce"),
    "a function of math": (lambda: math.exp(y[0]), "math's functions"),
    "an array that takes a vector in": (lambda: operator.iadd(np.zeros(3), y), "numpy.add"),
    "a text of digits": (lambda: netproof.maximum("12"), "maximum cannot take '12' alone"),
    "the largest of nothing": (lambda: y[0:0].argmax(), "argmax of nothing"),
    "a vector as a divisor": (lambda: 2 / y, "divided by numbers only"),
    "an element as a divisor": (lambda: y / y[0], "divided by numbers only"),
    "a condition in a sum": (lambda: y[0] + (y[1] > 0), "is no number"),
    "a number and a condition": (lambda: (y[0] > 0) & True, "not True"),
    "a condition and a number": (lambda: 1 & (y[0] > 0), "not 1"),
    "division by an expression": (lambda: y[0] / y[1], "divided by numbers only"),
    "a number by an expression": (lambda: 1 / y[0], "divided by numbers only"),
    "division by zero": (lambda: y[0] / 0, "divided by 0"),
    "a broken power": (lambda: y[0] ** 0.5, "an exponent cannot be 0.5"),
    "a negative power": (lambda: y[0] ** -1, "an exponent cannot be -1"),
    "shapes": (lambda: y + x, "do not go together"),
    "a product of other shapes": (lambda: np.ones((2, 4)) @ y, r"shapes \[2, 4\] and \[3\]"),
    "no such class": (lambda: y.argmax() == 3, "cannot be 3"),
    "a class that is no number": (lambda: y.argmax() == "cat", "cannot be 'cat'"),
    "an order of classes": (lambda: y.argmax() < 2, "== and != only"),
    "places of two vectors": (lambda: y.argmax() == x.argmax(), "with a number only.*netproof.when"),
    "shapes that numpy would stretch": (lambda: y - np.ones((3, 3)), r"shapes \[3\] and \[3, 3\] do not go together"),
    "sides of another shape": (lambda: netproof.between(y, [0, 0], 1), "do not go together"),
    "every of nothing": (lambda: netproof.every([]), "every of no conditions"),
    "some of a condition": (lambda: netproof.some(y[0] > 0), "a list of conditions"),
    "every of truth values": (lambda: netproof.every([True, y[0] > 0]), "comparison of numbers"),
    "every of numbers": (lambda: netproof.every(y), r"not y\[0\]"),
    "when of numbers": (lambda: netproof.when(y[0], y[1] > 0), r"not y\[0\]"),
    "maximum of nothing": (lambda: netproof.maximum(), "maximum of nothing"),
    "a set of conditions": (lambda: {y[0]}, "unhashable"),
    "one condition for a list": (lambda: netproof.verify(NET, BOX, [y[0] > 0]), "netproof.every"),
    "a bool for a condition": (lambda: netproof.verify(NET, BOX, 1 < 2), "holds cannot be True"),
    "a numpy bool for a condition": (lambda: netproof.verify(NET, BOX, np.float64(1) < 2), "holds cannot be"),
    "an expression for a condition": (lambda: netproof.verify(NET, BOX, y[0]), r"holds cannot be y\[0\]"),
    "a label and a condition": (lambda: netproof.verify(NET, BOX, y[0] > 0, label=1), "label and targets go with"),
    "a file and a condition": (lambda: netproof.verify(NET, "a.vnnlib", y[0] > 0), "goes with an input region"),
    "neither label nor condition": (lambda: netproof.verify(NET, BOX), "label=K, or a condition"),
    "a region of another size": (lambda: netproof.verify(NET, netproof.box([0], [1]), y[0] > 0), "takes 2"),
    "regions for one run": (lambda: netproof.verify(NET, [BOX, BOX], y[0] > 0), "2 regions for 1 runs"),
    "a shape that is none": (lambda: netproof.variables(NET, "big"), "shape cannot be 'big'"),
    "a module without a shape": (lambda: netproof.variables(module(2, 3)), "the shape of one input"),
    "no runs": (lambda: netproof.runs(NET, 0), "count cannot be 0"),
    "runs of nothing": (lambda: netproof.runs([]), "no networks"),
    "too many networks": (lambda: netproof.verify([NET, NET], BOX, y[0] > 0), "2 networks for 1 runs"),
    "an l1 ball as text": (lambda: (y[0] > 0).vnnlib(netproof.l1_ball([0, 0], 1)), "ℓ1 ball has no short form"),
    "a file for a region": (lambda: (y[0] > 0).vnnlib("a.vnnlib"), "goes with an input region"),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_clear_line(name: str) -> None:
    act, match = WRONG[name]
    with pytest.raises(TypeError if name == "a set of conditions" else UsageError, match=match) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_variables_of_different_networks_do_not_mix() -> None:
    a, b = netproof.variables(network(2, 4))
    for act in (lambda: y[0] < b[0], lambda: y[0] + a[0], lambda: (y[0] > 0) & (b[0] > 0), lambda: y @ x[:1]):
        with pytest.raises(UsageError):
            act()
    (x1, _), _ = netproof.runs(NET)
    with pytest.raises(UsageError, match=r"4\], 2 runs|3\], 2 runs"):
        _ = y[0] < x1[0]


def test_a_condition_goes_with_its_own_network() -> None:
    other = netproof.load_network(module(2, 4, 3, seed=5), example_shape=(1, 2))
    with pytest.raises(UsageError, match="another network"):
        netproof.verify(other, BOX, y[0] > 0)


def test_variables_of_two_calls_for_one_network_do_mix() -> None:
    a, b = netproof.variables(NET)
    assert netproof.verify(NET, BOX, (b[0] + y[0] < 100) & (a[0] <= x[0] + 1), device="cpu").proved


def test_several_runs_need_boxes() -> None:
    (_, y1), (_, y2) = netproof.runs(NET)
    with pytest.raises(UsageError, match="boxes"):
        netproof.verify(NET, netproof.l2_ball([[0, 0]], 1), y1[0] < y2[0] + 100)


def test_vectors_are_divided_and_raised() -> None:
    assert repr((y / 2).sum()) == "0.5*y[0] + 0.5*y[1] + 0.5*y[2]"
    assert repr((y / np.array([1, 2, 4]))[2]) == "0.25*y[2]"
    assert repr((y**2)[1]) == "y[1]**2"
    assert repr(np.abs(y)[0]) == "abs(y[0])"
    assert repr(np.float64(2) * y[0] + np.array(1)) == "2*y[0] + 1"


def test_tensors_on_the_left_are_understood() -> None:
    assert repr(torch.ones(3) @ y) == "y[0] + y[1] + y[2]"
    assert repr(torch.tensor(2.0) * y[0]) == "2*y[0]"
    assert repr(torch.tensor(2.0) > y[0]) == "y[0] < 2"
    assert repr(np.float32(0.5) - y[0]) == "-y[0] + 0.5"


def test_what_is_nested_too_deeply_is_refused() -> None:
    product = y[0]
    for _ in range(3000):
        product = product * y[1]
    with pytest.raises(UsageError, match="nested too deeply"):
        netproof.verify(NET, BOX, product < 1)


def test_long_conditions_make_short_messages() -> None:
    condition = y[0] > 0
    for _ in range(60):
        condition = netproof.when(y[0] > 0, condition)
    with pytest.raises(UsageError) as caught:
        bool(condition)
    assert len(str(caught.value)) < 400
