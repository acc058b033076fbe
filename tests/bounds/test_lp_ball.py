"""Programs whose columns lie in an ℓ2 ball: what their duals prove, against values known in closed form."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.linear.ball import Ball
from netproof.problem.problem import InputSet
from netproof.programs.ball import solve_in_ball
from netproof.programs.check import _share_with_ball, lagrangian_bound
from netproof.programs.highs import Answer, solve
from netproof.programs.model import Layout, LinearProgram, Program, RoundBall


def program_of(
    cost: np.ndarray, rows: np.ndarray, most: np.ndarray, centre: np.ndarray, radius: float, side: float = 9.0
) -> LinearProgram:
    """min cost·x, rows·x <= most, |x| <= side and ‖x − centre‖₂ <= radius."""
    made = Program()
    wide = np.full(len(cost), side)
    x = made.add_columns(-wide, wide)
    index = made.add_rows(np.full(len(most), -math.inf), most)
    made.add_entries(np.repeat(index, len(cost)), np.tile(x, len(most)), rows.reshape(-1))
    low, high, middle = (torch.from_numpy(t.copy())[None] for t in (-wide, wide, centre))
    about, ball = Ball.of(InputSet(low, high, middle, radius, 2))
    made.ball = RoundBall(x, about[0].numpy(), ball)
    return replace(made.finish(), cost=cost)


def decide(program: LinearProgram) -> Answer:
    layout = Layout.of(program.entries, len(program.row_lower), len(program.cost))
    return solve_in_ball(program, layout, solve(program, layout, math.inf), math.inf)


def test_a_half_plane_cuts_the_disc() -> None:
    """min x over the unit disc and y >= 1/2: at (−√3/2, 1/2). The program without the ball says −9."""
    program = program_of(np.array([1.0, 0.0]), np.array([[0.0, -1.0]]), np.array([-0.5]), np.zeros(2), 1.0)
    answer = decide(program)
    assert answer.duals is not None
    assert answer.point is not None
    true = -math.sqrt(0.75)
    assert lagrangian_bound(program, answer.duals) == pytest.approx(true, abs=1e-6)
    assert lagrangian_bound(program, answer.duals) <= true
    np.testing.assert_allclose(answer.point, [true, 0.5], atol=1e-3)
    assert np.linalg.norm(answer.point) <= 1 + 1e-9


def test_a_corner_just_outside_is_left_for_the_circle() -> None:
    """x + y >= −s cuts off the corner of the disc at which the program without the ball lies."""
    for s in (1.0, 1.2, 1.4, 1.41, 1.4142):
        program = program_of(np.array([1.0, 1.0 + 1e-3]), -np.ones((1, 2)), np.array([s]), np.zeros(2), 1.0)
        answer = decide(program)
        assert answer.duals is not None
        # On the line, at the circle: x + y = −s, y as low as it gets.
        low = (-s - math.sqrt(2 - s * s)) / 2
        assert lagrangian_bound(program, answer.duals) == pytest.approx(-s + 1e-3 * low, abs=1e-6)


@pytest.mark.parametrize("centre", [[0.0, 0.0], [1.0, -2.0]])
def test_a_ball_that_misses_the_rows_is_proved_empty(centre: list[float]) -> None:
    """x + y >= centre + 1.5 is 1.06 from the centre."""
    middle = np.array(centre)
    most = np.array([-1.5 - middle.sum()])
    for cost in (np.array([1.0, 0.0]), np.array([-0.3, 2.0])):
        answer = decide(program_of(cost, -np.ones((1, 2)), most, middle, 1.0))
        assert answer.infeasible
    touching = program_of(np.array([1.0, 0.0]), -np.ones((1, 2)), most + 0.5, middle, 1.0)
    assert not decide(touching).infeasible


@pytest.mark.parametrize("radius", [0.0, 5e-324, 1e-200])
def test_a_ball_too_small_for_its_square_is_the_box_about_it(radius: float) -> None:
    """A radius of 5e-324 is what is left where a ball touches the box that cuts it; the least is cost·centre then."""
    centre, cost = np.array([0.25, -0.5]), np.array([3.0, 1.0])
    near = np.maximum(radius, np.spacing(centre))
    program = program_of(cost, np.ones((1, 2)), np.array([1.0]), centre, radius)
    program = replace(program, lower=centre - near, upper=centre + near)
    answer = decide(program)
    assert answer.duals is not None
    assert not answer.infeasible
    assert lagrangian_bound(program, answer.duals) == pytest.approx(float(cost @ centre), abs=1e-12)
    assert lagrangian_bound(program, answer.duals) <= cost @ centre


@pytest.mark.parametrize("seed", range(10))
def test_any_duals_prove_no_more_than_a_point_shows(seed: int) -> None:
    """Weak duality over ball and box together, at duals that solve nothing."""
    rng = np.random.default_rng(seed)
    cost, rows, centre = rng.standard_normal(4), rng.standard_normal((3, 4)), rng.uniform(-0.5, 0.5, 4)
    program = program_of(cost, rows, rows @ centre + 0.1, centre, 0.8, side=1.0)
    points = centre + 0.8 * _sphere(rng, 5000)
    points = points[(np.abs(points) <= 1).all(1) & (points @ rows.T <= rows @ centre + 0.1).all(1)]
    assert len(points) > 10
    for _ in range(20):
        assert lagrangian_bound(program, -rng.exponential(1.0, 3)) <= (points @ cost).min() + 1e-12


def _sphere(rng: np.random.Generator, count: int) -> np.ndarray:
    way = rng.standard_normal((count, 4))
    return way / np.linalg.norm(way, axis=1, keepdims=True)


def test_the_rounding_of_the_balls_share_is_charged() -> None:
    """Without rows the bound is cost·c − r‖cost‖; it stays below the rational value, by little."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        cost = rng.uniform(-1, 1, 5) * 10.0 ** rng.integers(-3, 4, 5)
        centre = rng.uniform(-1, 1, 5)
        program = program_of(cost, np.zeros((1, 5)), np.ones(1), centre, 0.5)
        bound = lagrangian_bound(program, np.zeros(1))
        c = [Fraction(v) for v in cost.tolist()]
        dot = sum((a * Fraction(b) for a, b in zip(c, centre.tolist(), strict=True)), Fraction(0))
        square = sum((a * a for a in c), Fraction(0)) / 4
        assert Fraction(bound) <= dot
        assert (dot - Fraction(bound)) ** 2 >= square
        assert bound == pytest.approx(float(dot) - math.sqrt(square), rel=1e-9, abs=1e-9)


def test_a_tiny_cost_does_not_underflow() -> None:
    """r‖cost‖ of four costs of 1e-200 is 1e-200, their squares are 0."""
    program = program_of(np.full(4, 1e-200), np.zeros((1, 4)), np.ones(1), np.zeros(4), 0.5)
    assert -1.0001e-200 < lagrangian_bound(program, np.zeros(1)) <= -1e-200


def test_every_rounding_of_the_share_is_on_the_safe_side() -> None:
    """The part left for the box is off by no more than is charged, and the norm that is taken off is no smaller."""
    inexact = shorter = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        cost = rng.uniform(-1, 1, 40) * 10.0 ** rng.uniform(-3, 1, 40)
        program = program_of(cost, np.zeros((1, 40)), np.ones(1), rng.uniform(-1, 1, 40), 1.5, side=1.2)
        assert program.ball is not None
        left, wider, terms = _share_with_ball(program.ball, cost, np.zeros(40))
        taken = np.copysign(program.ball.shape.taken(torch.from_numpy(cost)[None])[0].numpy(), cost)
        for own, mine, rest, slack in zip(*(t.tolist() for t in (cost, taken, left, wider)), strict=True):
            off = abs(Fraction(own) - Fraction(mine) - Fraction(rest))
            assert off <= Fraction(slack)
            inexact += off > 0
        square = Fraction(program.ball.shape.radius) ** 2 * sum(Fraction(v) ** 2 for v in taken.tolist())
        unit = Fraction(1, 2**53)
        assert (Fraction(-terms[-1]) * (1 + unit)) ** 2 >= square  # the product's own rounding is charged later
        plain = float(np.linalg.norm(taken))
        shorter += (Fraction(plain) * Fraction(program.ball.shape.radius)) ** 2 < square
    assert inexact > 20
    assert shorter > 30
