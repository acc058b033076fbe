"""Programs whose columns lie in an ℓ2 ball, solved by quadratic programs: duals for `lp_check`, never a value.

With a price μ >= 0 on ‖x − c‖² <= r² the program

    min  cost·x + μ/2 (‖x − c‖² − r²)    over the rows and the bounds

is quadratic and convex, and never above the one wanted. At the best μ it is equal to it and its solution lies on the
sphere, so μ is looked for until it does. Its duals y leave d = cost − A^T y = the bounds' part − μ(x − c), which is how
`lp_check` shares d between box and ball: what y proves is evaluated there, with no trust in μ or in the solver.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import highspy
import numpy as np

from netproof.bounds.lp_check import clip_signs, lagrangian_bound, reduced_cost
from netproof.bounds.lp_model import Floats, Layout, LinearProgram, RoundBall
from netproof.bounds.lp_solve import Answer, highs_lp, new_solver

PRICES = 16  # tried at most
CLOSE = 1e-6  # to the sphere, relative: what is proved is then within about its square of the best
GAP = 1e-7  # between what is proved and what a point of the ball attains, relative
STEPS = 20  # of the solver a row and column: three are common, and now and then it goes round in circles
STRIDE = 100.0  # by which a price falls while the ball does not bind


def solve_in_ball(
    program: LinearProgram, layout: Layout, first: Answer, time_limit: float, enough: float = math.inf
) -> Answer:
    """Better duals than those of the linear program alone, `first`, and a point of the ball where there is one.

    Stops once the duals prove more than `enough`.
    """
    ball = program.ball
    if ball is None or first.infeasible or first.duals is None or first.point is None:
        return first
    if _outside(ball, first.point) <= 1:
        return first
    end = time.monotonic() + time_limit
    best, bound = first, lagrangian_bound(program, first.duals)
    prices = _Prices(program, ball, first.duals)
    for _ in range(PRICES):
        if bound > enough:
            return best
        found = _quadratic(program, layout, ball, prices.now, end - time.monotonic())
        if found.duals is None or found.point is None:
            return best
        proved, outside = lagrangian_bound(program, found.duals), _outside(ball, found.point)
        best, bound = (found, proved) if proved > bound else (replace(best, point=found.point), bound)
        value = float(program.cost @ found.point)
        if abs(outside - 1) <= CLOSE or (outside < 1 and value - bound <= GAP * (1 + abs(value))):
            return best
        prices.move(outside)
    if prices.high < math.inf:
        return best
    # However dear, the ball is not reached: its nearest point to the centre may prove that none is.
    nearest = replace(program, cost=np.zeros_like(program.cost))
    found = _quadratic(nearest, layout, ball, 1.0, end - time.monotonic())
    proves = found.duals is not None and lagrangian_bound(nearest, found.duals) > 0
    return Answer(True, None, found.duals) if proves else best


class _Prices:
    """The price to try next: the radius over the distance grows with it, nearly in a straight line."""

    def __init__(self, program: LinearProgram, ball: RoundBall, duals: Floats) -> None:
        """Starts with what the duals' own d would pay."""
        reduced, _ = reduced_cost(program, clip_signs(program, duals))
        size = float(np.linalg.norm(reduced[ball.columns])) or 1.0
        self.now = size / (ball.shape.radius or 1.0)
        self.low, self.high = 0.0, math.inf  # prices whose solutions are outside and inside
        self._seen: list[tuple[float, float]] = [(0.0, 0.0)]  # price, radius over distance

    def move(self, outside: float) -> None:
        share = 1 / max(outside, 1e-9)
        if outside > 1:
            self.low = max(self.low, self.now)
        else:
            self.high = min(self.high, self.now)
        before, at = self._seen[-1]
        self._seen.append((self.now, share))
        slope = (share - at) / (self.now - before) if self.now != before else 0.0
        guess = self.now + (1 - share) / slope if slope > 0 else math.nan
        if self.low < guess < self.high:
            self.now = guess
        elif self.low == 0:
            self.now = self.high / STRIDE
        else:
            self.now = math.sqrt(self.low * self.high) if self.high < math.inf else self.low * STRIDE


def _outside(ball: RoundBall, point: Floats) -> float:
    """How far from the centre a point is, as a share of the radius."""
    return float(np.linalg.norm(point[ball.columns] - ball.centre)) / (ball.shape.radius or 1.0)


def _quadratic(program: LinearProgram, layout: Layout, ball: RoundBall, price: float, time_limit: float) -> Answer:
    """The program with the ball at a price, as HiGHS has it; nothing where it finds no answer in time."""
    nothing = Answer(False, None, None)
    if time_limit <= 0:
        return nothing
    count = len(program.cost)
    cost, weight = program.cost.copy(), np.zeros(count)
    cost[ball.columns] -= price * ball.centre
    weight[ball.columns] = price
    hessian = highspy.HighsHessian()
    hessian.dim_, hessian.format_ = count, highspy.HessianFormat.kTriangular
    hessian.start_ = np.append(0, np.cumsum(weight > 0)).astype(np.int32)
    hessian.index_, hessian.value_ = np.flatnonzero(weight).astype(np.int32), weight[weight > 0]
    model = highspy.HighsModel()
    model.lp_, model.hessian_ = highs_lp(replace(program, cost=cost), layout), hessian
    solver = new_solver(time_limit, {"qp_iteration_limit": STEPS * (count + len(program.row_lower))})
    if solver.passModel(model) == highspy.HighsStatus.kError:
        return nothing
    solver.run()
    solution = solver.getSolution()
    if not (solution.value_valid and solution.dual_valid):
        return nothing
    return Answer(False, np.array(solution.col_value), np.array(solution.row_dual))
