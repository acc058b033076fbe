"""What a witness has to satisfy, one condition at a time: each alone must be enough to refuse it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from netproof.errors import SpecError
from netproof.model.network import Network
from netproof.problem.formulas.boxes import Boxes
from netproof.problem.formulas.clauses import Bound
from netproof.problem.property import Ball, Box, Disjunct, Property, Row
from netproof.problem.witness import confirm, violated

ZERO, ONE = Fraction(0), Fraction(1)
SQUARE = Box((ZERO, ZERO), (ONE, ONE))
LOW = Row({0: ONE}, ZERO)  # y_0 <= 0
OTHER = Row({1: ONE}, ZERO)  # y_1 <= 0


def of(*disjuncts: Disjunct) -> Property:
    return Property(disjuncts, 2, 2)


def single(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


INSIDE, BELOW = single(0.5, 0.5), single(-1.0, -1.0)


def test_a_point_of_the_set_with_every_row_met_is_a_violation() -> None:
    assert violated(of(Disjunct(SQUARE, (LOW, OTHER))), INSIDE, BELOW) == 0


@pytest.mark.parametrize("point", [(-0.5, 0.5), (0.5, 1.5), (np.nextafter(np.float32(1), np.float32(2)), 0.5)])
def test_a_point_outside_the_box_is_none(point: tuple[float, float]) -> None:
    assert violated(of(Disjunct(SQUARE, (LOW,))), single(*point), BELOW) is None


@pytest.mark.parametrize("p", [1, 2])
def test_a_point_outside_the_ball_is_none(p: int) -> None:
    ball = Ball((ZERO, ZERO), Fraction(7, 10), p)
    disjunct = Disjunct(SQUARE, (LOW,), ball)
    assert violated(of(disjunct), single(0.6, 0.6), BELOW) is None
    assert violated(of(disjunct), single(0.3, 0.3), BELOW) == 0


def test_an_empty_box_has_none() -> None:
    """0 < x_0 <= 0 holds nothing, not even the float32 that stands for a pinned input."""
    empty = Box((ZERO, ZERO), (ZERO, ONE), frozenset({0}))
    assert empty.empty
    lower, upper, _ = empty.float32
    for point in (lower, upper, single(0.0, 0.5)):
        assert violated(of(Disjunct(empty, (LOW,))), point, BELOW) is None


def test_one_row_of_two_is_not_enough() -> None:
    assert violated(of(Disjunct(SQUARE, (LOW, OTHER))), INSIDE, single(-1.0, 1.0)) is None
    assert violated(of(Disjunct(SQUARE, (LOW, OTHER))), INSIDE, single(1.0, -1.0)) is None


def test_rows_have_no_tolerance() -> None:
    least = np.nextafter(np.float32(0), np.float32(1))
    assert violated(of(Disjunct(SQUARE, (LOW,))), INSIDE, single(least, 0.0)) is None
    assert violated(of(Disjunct(SQUARE, (LOW,))), INSIDE, single(0.0, 0.0)) == 0
    assert violated(of(Disjunct(SQUARE, (replace(LOW, strict=True),))), INSIDE, single(0.0, 0.0)) is None


def test_what_the_runtime_says_decides(affine: Callable[..., Network], monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph meets the rows; the replay does not."""
    network = affine([[-1.0, 0.0], [0.0, -1.0]])
    asked = of(Disjunct(SQUARE, (LOW, OTHER)))
    assert confirm(network, asked, 0, INSIDE) is not None
    monkeypatch.setattr(Network, "replay", lambda self, x: single(1.0, 1.0)[None])
    assert confirm(network, asked, 0, INSIDE) is None


def test_a_closed_bound_that_is_tighter_closes_the_box_again() -> None:
    """x < 2 and x <= 1 and x >= 1: the point 1 is left."""
    bounds = [Bound(0, True, Fraction(2), True), Bound(0, True, ONE, False), Bound(0, False, ONE, False)]
    box = Boxes(1, tuple(bounds), lambda index, side: SpecError(f"{index} {side}")).of(())
    assert not box.empty
    assert box.contains([ONE])
