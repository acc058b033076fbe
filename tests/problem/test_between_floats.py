"""Sets that hold no number of the network's type: they may be proved, and never have a counterexample."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import netproof
from netproof.api import attack as attack_alone
from netproof.model.network import Network
from netproof.problem.property import Box, Disjunct, Property, Row
from netproof.problem.vnnlib.reader import parse_property
from netproof.problem.witness import confirm
from support.api import ask

IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
HEAD = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)"
HALF = "(assert (<= 0 X_1 0.5))"
BETWEEN = ["(assert (> X_0 1.0))(assert (< X_0 1.00000005))", "(assert (<= 0.70000002 X_0 0.70000004))"]
NAMED = "the range of 1 input holds no float32, so no counterexample can be shown (X_0)"


@pytest.mark.parametrize("range_of_x", BETWEEN)
@pytest.mark.parametrize("attack", [True, False])
def test_an_interval_between_two_float32_has_no_counterexample(affine: Any, range_of_x: str, attack: bool) -> None:
    """Every input of the set violates it; no input that the network takes lies in the set."""
    property = parse_property(HEAD + range_of_x + HALF + "(assert (>= Y_0 0.5))")
    verdict = ask(affine(IDENTITY), property, attack=attack, timeout=20)
    assert (verdict.status, verdict.witness) == ("unknown", None)
    assert verdict.reason == NAMED
    found = attack_alone(affine(IDENTITY), property, device="cpu")
    assert (found.status, found.reason) == ("unknown", NAMED)


@pytest.mark.parametrize("range_of_x", BETWEEN)
def test_it_is_proved_where_only_the_float32_beside_it_violates(affine: Any, range_of_x: str) -> None:
    """By a margin of 1e-9, far less than the distance to the nearest float32."""
    lower, upper = parse_property(HEAD + range_of_x + HALF + "(assert (>= Y_0 0))").disjuncts[0].box.rounded
    low, high = lower.near[0] - 1e-9, upper.near[0] + 1e-9
    for row in (f"(<= Y_0 {low:.12f})", f"(>= Y_0 {high:.12f})"):
        property = parse_property(HEAD + range_of_x + HALF + f"(assert {row})")
        assert ask(affine(IDENTITY), property, timeout=20).status == "unsat"


def test_an_interval_of_one_number_takes_the_nearest_float32_as_before(affine: Any) -> None:
    pinned = parse_property(HEAD + "(assert (<= 0.70000002 X_0 0.70000002))" + HALF + "(assert (>= Y_0 0.5))")
    verdict = ask(affine(IDENTITY), pinned, timeout=20)
    assert verdict.witness is not None
    assert verdict.witness.input[0, 0] == np.float32(0.70000002)
    assert "holds no float32" in verdict.witness.note


def test_an_interval_with_a_float64_in_it_has_a_counterexample_of_a_float64_network(affine: Any) -> None:
    property = parse_property(HEAD + BETWEEN[0] + HALF + "(assert (>= Y_0 0.5))")
    verdict = ask(affine(IDENTITY, dtype="float64"), property, timeout=20)
    assert verdict.witness is not None
    assert 1 < verdict.witness.input[0, 0] < 1.00000005
    assert not verdict.witness.note


def test_the_other_sets_of_a_question_are_broken_all_the_same(affine: Any) -> None:
    """The point is nearest to a set that holds no float32, and lies in none."""
    ends = [(Fraction("0.70000002"), Fraction("0.70000004")), (Fraction(1, 2), Fraction(5, 8))]
    boxes = [Box((low, Fraction(0)), (high, Fraction(1))) for low, high in ends]
    property = Property(tuple(Disjunct(box, (Row({0: Fraction(-1)}, Fraction(0)),)) for box in boxes), 2, 2)
    witness = confirm(affine(IDENTITY), property, None, np.array([0.7, 0.5]))
    assert witness is not None
    assert witness.input[0, 0] == 0.625
    verdict = ask(affine(IDENTITY), property, timeout=20)
    assert verdict.witness is not None
    assert boxes[1].contains([Fraction(float(v)) for v in verdict.witness.input.reshape(-1)])


@pytest.mark.parametrize("region", [netproof.l1_ball, netproof.l2_ball])
def test_a_ball_without_a_float32_says_so(affine: Any, region: Any) -> None:
    """Each of its coordinates may be a float32, but not both."""
    centre = [[0.5 + 2.0**-26, 0.5 + 2.0**-26]]
    verdict = ask(affine([[1.0, 0.0], [1.0, 0.0]]), region(centre, 1.0001 * 2.0**-26), label=0, timeout=20)
    assert (verdict.status, verdict.witness) == ("unknown", None)
    assert verdict.reason == "the ball holds no point of float32, so no counterexample can be shown"


@pytest.mark.parametrize("region", [netproof.linf_ball, netproof.l1_ball, netproof.l2_ball])
def test_a_radius_of_zero_is_one_number_in_each_coordinate_in_any_norm(affine: Any, region: Any) -> None:
    verdict = ask(affine(IDENTITY), region([[0.1, 0.3]], 0), label=0, timeout=20)
    assert verdict.witness is not None
    assert verdict.witness.input.tolist() == np.float32([[0.1, 0.3]]).tolist()
    assert "holds no float32" in verdict.witness.note or "hold no float32" in verdict.witness.note


def near_a_tie(affine: Any) -> tuple[Network, np.ndarray]:
    """Return y = x and an image of class 0 whose nearest float32 is a tie; the radius of a true tie is 1e-8."""
    return affine(IDENTITY), np.array([[0.50000002, 0.5]])


def test_certify_does_not_break_an_image_outside_of_its_radius(affine: Any) -> None:
    network, image = near_a_tie(affine)
    (within,) = netproof.certify(network, image, [0], "5e-9", device="cpu", timeout=20)
    assert within.status == "proved"
    (beyond,) = netproof.certify(network, image, [0], "1.5e-8", device="cpu", timeout=20)
    assert (beyond.status, beyond.reason) == ("open", NAMED)
    (itself,) = netproof.certify(network, image, [0], 0, device="cpu", timeout=20)
    assert itself.status == "broken"  # it is one number in each coordinate, and stands for the nearest float32


def test_a_radius_is_broken_no_nearer_than_its_witness_lies(affine: Any) -> None:
    network, image = near_a_tie(affine)
    radius = netproof.largest_eps(network, image, 0, timeout=5, device="cpu")
    assert radius.witness is not None
    assert radius.broken is not None
    assert radius.broken >= np.abs(radius.witness.input.astype(np.float64) - image).max()
    assert radius.certified is not None
    assert 5e-9 < radius.certified <= 1e-8


def test_a_question_in_python_respects_strict_bounds(affine: Any) -> None:
    x, y = netproof.variables(affine(IDENTITY))
    region = netproof.box([[1.0, 0.0]], [["1.00000005", 1.0]])
    verdict = netproof.verify(
        affine(IDENTITY), region, holds=netproof.when(x.flat[0] > 1, y.flat[0] > 2), timeout=20, device="cpu"
    )
    assert verdict.status == "unknown"
    assert verdict.witness is None
