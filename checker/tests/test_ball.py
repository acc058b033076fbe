"""Balls: how they are read, rounded and bounded, and proofs that need them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcheck.__main__ as command
import npcheck.ball
import npcheck.bound
from certificates import AGAIN, CLIP, Case, bounds, dense, leaf, spec, split
from npcheck.ball import Ball, root_above
from npcheck.bound import UNIT
from npcheck.errors import Invalid, Refused
from npcheck.ranges import start
from npcheck.statement import state
from npcheck.vnnlib_file import read_question
from test_charges import chain, without
from test_witness import judged

DISC = "(<= (+ (* X_0 X_0) (* X_1 X_1)) 1)"


def asked(*formulas: str, inputs: int = 2) -> str:
    return spec([-1] * inputs, [1] * inputs, 1, *formulas)


# --- reading ---


@pytest.mark.parametrize(
    ("formula", "centre", "square"),
    [
        (DISC, (0, 0), 1),
        ("(<= (+ (* 4 (* X_0 X_0)) (* 4 (* X_1 X_1)) (* 4 X_1) 0.75) (+ (* 2 X_0) 1))", ("1/4", "-1/2"), "3/8"),
        ("(>= 0.25 (+ (* (- X_0 0.5) (- X_0 0.5)) (* (+ X_1 1) (+ 1 X_1))))", ("1/2", -1), "1/4"),
        ("(<= (+ (* X_1 X_1) (* X_0 X_0) 1) 0.5)", (0, 0), "-1/2"),
    ],
)
def test_a_ball_is_read_exactly(formula: str, centre: tuple[Any, ...], square: Any) -> None:
    (disjunct,) = read_question(asked(formula, "(<= Y_0 0)")).disjuncts
    assert disjunct.ball is not None
    assert disjunct.ball.inputs == (0, 1)
    assert disjunct.ball.centre == tuple(map(Fraction, centre))
    assert disjunct.ball.square == Fraction(square)
    assert len(disjunct.rows) == 1


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("(<= (+ (* X_0 X_0) (* 2 X_1 X_1)) 1)", "only supported where they say a ball"),
        ("(<= (+ (* X_0 X_0) X_1) 1)", "only supported where they say a ball"),
        ("(<= (+ (* X_0 X_0) Y_0) 1)", "only supported where they say a ball"),
        ("(>= (* X_0 X_0) 1)", "the outside of a ball"),
        ("(<= (* X_0 X_1) 1)", "a product of variables is not supported"),
        ("(<= (* Y_0 Y_0) 1)", "a product of variables is not supported"),
        ("(<= (* X_0 X_0 X_0) 1)", "a product of variables is not supported"),
        ("(<= (* (* X_0 X_0) (* X_0 X_0)) 1)", "a product of variables is not supported"),
        (f"(and {DISC} {DISC})", "several balls"),
    ],
)
def test_other_products_are_refused(formula: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        read_question(asked(formula, "(<= Y_0 0)"))


def test_squares_that_cancel_are_none() -> None:
    (disjunct,) = read_question(asked("(<= (+ (* X_0 X_0) X_1) (* X_0 X_0))", "(<= Y_0 0)")).disjuncts
    assert disjunct.ball is None
    assert disjunct.upper[1] == 0


@pytest.mark.parametrize("square", [0, 1, 2, Fraction(1, 3), Fraction(1, 10**40), 10**40 + 1, Fraction(9, 49)])
def test_roots_are_rounded_up(square: Any) -> None:
    square = Fraction(square)
    root = root_above(square)
    assert root * root >= square
    assert root == 0 or (root - root / 2**119) ** 2 < square


def test_the_ball_in_float64_contains_the_exact_one() -> None:
    formula = "(<= (+ (* (- X_0 0.1) (- X_0 0.1)) (* (- X_1 0.7) (- X_1 0.7))) 0.02)"
    (disjunct,) = read_question(asked(formula, "(<= Y_0 0)")).disjuncts
    assert disjunct.ball is not None
    ball = Ball.around(disjunct.ball.inputs, disjunct.ball.centre, disjunct.ball.square)
    assert ball.centre.tolist() == [0.1, 0.7]
    moved = sum((Fraction(c) - exact) ** 2 for c, exact in zip([0.1, 0.7], disjunct.ball.centre, strict=True))
    least = root_above(Fraction(1, 50)) + root_above(moved)  # within 2^-120 of what is needed
    assert Fraction(ball.radius) >= least * (1 - Fraction(1, 2**100))
    assert Fraction(np.nextafter(ball.radius, 0.0)) < least


@pytest.mark.parametrize(("formula", "why"), [("1e70", "beyond 2"), ("1e390", "beyond 2")])
def test_a_ball_beyond_all_numbers_is_refused(formula: str, why: str) -> None:
    for text in (DISC.replace(" 1)", f" {formula})"), f"(<= (* (- X_0 {formula}) (- X_0 {formula})) 1)"):
        with pytest.raises(Refused, match=why):
            state(read_question(asked(text, "(<= Y_0 0)")))


def test_regions_have_one_ball_each() -> None:
    """Disjuncts with another ball are another region; one whose radius is no number is empty."""
    shifted, none = DISC.replace("(* X_1 X_1)", "(* X_1 X_1) X_1"), DISC.replace(" 1)", " -1)")
    cases = " ".join(f"(and {part} (<= Y_0 0))" for part in (DISC, shifted, "(<= X_0 1)", DISC, none))
    statement = state(read_question(asked(f"(or {cases})")))
    assert [region.targets for region in statement.regions] == [(0, 3), (1,), (2,)]
    assert [region.ball is None for region in statement.regions] == [False, False, True]
    assert statement.empty == (4,)


# --- bounds ---


def some_ball(rng: np.random.Generator, n: int) -> tuple[Ball, np.ndarray, np.ndarray, np.ndarray]:
    centre, width = rng.standard_normal(n), rng.random(n) * 2.0
    inputs = np.sort(rng.choice(n, int(rng.integers(1, n + 1)), replace=False))
    ball = Ball(inputs, centre[inputs] + 0.3 * rng.standard_normal(len(inputs)), float(rng.random()) * 2.0)
    return ball, centre - width, centre + width, rng.standard_normal((7, n)) * (rng.random((7, n)) < 0.8)


@pytest.mark.parametrize("seed", range(30))
def test_no_point_of_the_set_is_below_and_the_bound_is_the_best_of_its_kind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    ball, low, high, a = some_ball(rng, n)
    values, _ = ball.least(a, low[None], high[None])
    points = low + (high - low) * rng.random((4000, n))
    offsets = points[:, ball.inputs] - ball.centre
    sizes = np.linalg.norm(offsets, axis=1, keepdims=True)
    offsets *= np.minimum(1.0, ball.radius / np.maximum(sizes, 1e-9))
    points[:, ball.inputs] = ball.centre + offsets
    inside = ((points >= low) & (points <= high)).all(1)
    assert (a @ points[inside].T >= values[:, None] - 1e-9).all()
    for division in (0.0, 1.0, 0.3):
        u = np.zeros_like(a)
        u[:, ball.inputs] = division * a[:, ball.inputs]
        v = a - u
        other = u[:, ball.inputs] @ ball.centre - ball.radius * np.linalg.norm(u, axis=1)
        assert (values >= other + np.minimum(v * low, v * high).sum(1) - 1e-9).all()


@pytest.mark.parametrize(
    ("a", "least"),
    [((1.0, 1.0), -1.2 * 2**0.5), ((1.0, 0.1), -1.0 - 0.1 * 0.44**0.5), ((0.0, 0.0), 0.0), ((2.0, 0.0), -2.0)],
)
def test_what_the_box_cuts_off(a: tuple[float, float], least: float) -> None:
    ball = Ball(np.array([0, 1]), np.zeros(2), 1.2)
    (value,), _ = ball.least(np.array([a]), -np.ones((1, 2)), np.ones((1, 2)))
    assert abs(value - least) < 1e-12


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1.0, 1e170])
def test_squares_do_not_underflow_or_overflow(scale: float) -> None:
    ball = Ball(np.array([0, 1]), np.zeros(2), 1.0)
    (value,), _ = ball.least(np.array([[3.0, 4.0]]) * scale, np.full((1, 2), -9.0), np.full((1, 2), 9.0))
    assert abs(value / (5.0 * scale) + 1.0) < 1e-12


def exact_least(ball: Ball, constant: float, a: np.ndarray, low: np.ndarray, high: np.ndarray) -> Fraction:
    """Return the exact bound for the same u."""
    u = ball.divided(a[None], low[None], high[None])[0][0]
    rest = [Fraction(x) for x in a.tolist()]
    total = Fraction(constant) - Fraction(ball.radius) * root_above(sum(Fraction(x) ** 2 for x in u.tolist()))
    for i, part, c in zip(ball.inputs.tolist(), u.tolist(), ball.centre.tolist(), strict=True):
        rest[i] -= Fraction(part)
        total += Fraction(part) * Fraction(c)
    return total + sum(
        min(x * Fraction(lo), x * Fraction(hi)) for x, lo, hi in zip(rest, low.tolist(), high.tolist(), strict=True)
    )


CENTRE = "np.abs(u) @ np.abs(self.centre) + fall"
CHARGES = {
    "of the centre": (npcheck.ball, (CENTRE, "fall")),
    "of the norm": (npcheck.ball, (CENTRE, "np.abs(u) @ np.abs(self.centre)")),
    "of the box": (npcheck.ball, ("(np.abs(v) * np.max", "(0.0 * np.abs(v) * np.max")),
    "none": (npcheck.ball, ()),
}


@pytest.mark.parametrize("what", CHARGES)
def test_each_charge_is_needed_and_enough(what: str) -> None:
    """Forms whose value is almost 0, where roundings of large numbers are all that is left."""
    module, change = CHARGES[what]
    changed = without(module, change) if change else module
    rng = np.random.default_rng(8)
    above = 0
    network = chain(6)
    for _ in range(300):
        ball = changed.Ball(np.arange(3), np.zeros(3), 0.25)
        low, high = np.full(6, -2.0), np.full(6, 2.0)
        a = rng.standard_normal(6)
        if what == "of the centre":
            ball = changed.Ball(np.arange(3), rng.standard_normal(3) * 2.0**40, 2.0**-30)
            a[2] = -(a[:2] @ ball.centre[:2]) / ball.centre[2]
            low[:3], high[:3] = ball.centre - 1.0, ball.centre + 1.0
        a[3:] *= what == "of the box"
        if what == "of the box":
            ball = changed.Ball(np.arange(3), np.zeros(3), 2.0**-40)
        value = float(ball.least(a[None], low[None], high[None])[0][0])
        constant = 0.0 if what == "of the centre" else -value
        form = npcheck.bound.Form(np.array([constant]), np.zeros(1), {0: a[None]})
        (bound,) = npcheck.bound.lower_bound(network, form, start(network, low[None], high[None], None, ball), None)
        above += Fraction(bound) > exact_least(ball, constant, a, low, high)
    assert (above > 0) is (what != "none")
    assert UNIT == 2.0**-53


# --- proofs ---


SUM = dense(([[1.0, 1.0]], [0.0]))


@pytest.mark.parametrize(("limit", "holds"), [("-1.4142135623", False), ("-1.4142135624", True), ("-1.9", True)])
def test_a_sum_on_a_disc(tmp_path: Path, limit: str, holds: bool) -> None:
    """The least of x + y is −√2 on the disc, and −2 on its box."""
    case = Case(tmp_path, SUM, asked(DISC, f"(<= Y_0 {limit})"))
    if holds:
        assert case.check(leaf(), exact=3).exact == (1, 0)
    else:
        with pytest.raises(Invalid, match="leaf 0 is not shown"):
            case.check(leaf())


KNOT = dense(([[1.0, 1.0], [1.0, -1.0]], [1.5, 1.5]), ([[1.0, -1.0]], [0.0]))


def test_the_answer_names_balls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case(tmp_path, SUM, asked(DISC, "(or (<= Y_0 -1.5) (<= Y_0 -1.6))"))
    assert case.check(leaf() + leaf()).balls == 2
    assert command.main([str(case.certificate), str(case.model), str(case.spec)]) == 0
    assert "2 of the disjuncts lie in a ball, too: in its exact points" in capsys.readouterr().out


def test_neurons_that_read_the_input_are_bounded_on_the_ball(tmp_path: Path) -> None:
    """x ± y + 1.5 is positive on the disc alone, where the network is linear: 2y, at least −2."""
    case = Case(tmp_path, KNOT, asked(DISC, "(<= Y_0 -2.001)"))
    with pytest.raises(Invalid, match="not shown"):
        case.check(bounds(2) + leaf())
    case.check(bounds(2, codes=[0x11, 0x11]) + leaf(), exact=20)
    halves = split(0, 0.25) + (bytes((AGAIN,)) + leaf()) * 2
    case.check(bounds(2) + halves, exact=20)  # bounded again by the same rule
    case.check(bounds(2) + bytes((CLIP,)) + halves, exact=20)


def test_another_ball_is_another_statement(tmp_path: Path) -> None:
    body = bounds(2, codes=[0x11, 0x11]) + leaf()
    for disc, holds in (
        (DISC, True),
        (DISC.replace(" 1)", " 1.003)"), False),
        (DISC.replace("(* X_1 X_1)", "(* X_1 X_1) (* 0.01 X_1)"), False),
    ):
        case = Case(tmp_path, KNOT, spec([-3, -3], [3, 3], 1, disc, "(<= Y_0 -2.001)"))
        if holds:
            assert case.check(body).leaves == 1
        else:
            with pytest.raises(Invalid, match="not shown"):
                case.check(body)


def test_a_counterexample_lies_in_the_ball(tmp_path: Path) -> None:
    for strict, x, inside in (("<=", 0.75, True), ("<", 0.75, False), ("<=", 0.76, False)):
        about = asked(f"({strict} (+ (* X_0 X_0) (* X_1 X_1)) 1.125)", "(<= Y_0 9)")
        found = judged(tmp_path, f"((X_0 {x})(X_1 -0.75))", SUM, about)
        assert found.violated is inside
        assert inside or "it is not in the ball" in found.lines[0]
