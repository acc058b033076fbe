"""Programs whose columns lie in an ℓ2 ball, solved by quadratic programs: duals for `programs/check.py`, never a value.

With a price μ >= 0 on ‖x − c‖² <= r² the program

    min  cost·x + μ/2 (‖x − c‖² − r²)    over the rows and the bounds

is quadratic and convex, and never above the one wanted. At the best μ it is equal to it and its solution lies on the
sphere, so μ is looked for until it does. Its duals y leave d = cost − A^T y = the bounds' part − μ(x − c), which is how
`check` shares d between box and ball: what y proves is evaluated there, with no trust in μ or in the solver.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import NamedTuple

import highspy
import numpy as np

from netproof.programs.check import clip_signs, lagrangian_bound, reduced_cost
from netproof.programs.highs import NOTHING, Answer, claimed, highs_lp, new_solver
from netproof.programs.model import Floats, Layout, LinearProgram, RoundBall

PRICES = 24  # prices tried at most; six are common
GAP = 1e-7  # relative gap between what is proved and what a point attains at which nothing is left to gain
STRIDE = 10.0  # factor by which a price rises while its solution is outside
FIRM = 1e-9  # what the solver adds to each column's square: its default 1e-7 makes what is proved visibly worse
LEAST = 1e-150  # radii whose squares vanish: such a ball is as good as the box about it, in which the columns lie
STEPS = 20  # steps of the solver per row and column, at most: three are common, and at times it runs in circles


def solve_in_ball(
    program: LinearProgram, layout: Layout, first: Answer, time_limit: float, enough: float = math.inf
) -> Answer:
    """Find better duals than those of the linear program alone, `first`, and a point of the ball where one is known.

    Stops once the duals prove more than `enough`.
    """
    ball = program.ball
    if ball is None or first.infeasible or first.duals is None or first.point is None:
        return first
    if ball.shape.radius < LEAST:
        return first
    prices = _Prices(program, ball, first)
    if prices.low.outside <= 1:
        return first
    end = time.monotonic() + time_limit
    best, bound = first, lagrangian_bound(program, first.duals)
    for _ in range(PRICES):
        price = prices.next()
        found = _quadratic(program, layout, ball, price, end - time.monotonic())
        if found.duals is None or found.point is None:
            break
        proved = lagrangian_bound(program, found.duals)
        best, bound = (found, proved) if proved > bound else (best, bound)
        prices.learn(price, found.point)
        if bound > enough or prices.attained - bound <= GAP * (1 + abs(bound)):
            break
    if prices.high is not None:
        return replace(best, point=prices.point)
    # No price was high enough to reach the ball: the nearest point to its centre may prove that none is in it.
    nearest = replace(program, cost=np.zeros_like(program.cost))
    found = _quadratic(nearest, layout, ball, 1.0, end - time.monotonic())
    proves = found.duals is not None and lagrangian_bound(nearest, found.duals) > 0
    return Answer(True, None, found.duals) if proves else best


class _Tried(NamedTuple):
    """A price and its solution."""

    price: float
    point: Floats  # (col,)
    away: Floats  # (n,) x − c in units of the radius
    outside: float  # its norm


class _Prices:
    """The price to try next. The solution moves on straight lines in 1/price, from a corner towards the centre."""

    def __init__(self, program: LinearProgram, ball: RoundBall, first: Answer) -> None:
        assert first.duals is not None
        assert first.point is not None
        self._cost, self._ball, self._radius = program.cost, ball, ball.shape.radius
        self.low = self._tried(0.0, first.point)  # its solution is outside: to begin with the program without the ball
        self.high: _Tried | None = None  # inside
        self._higher: _Tried | None = None  # the one before that
        self._width = math.inf
        # To start with: what the duals' own d would pay, or by how much the objective may vary at all.
        reduced, _ = reduced_cost(program, clip_signs(program, first.duals))
        own = float(np.linalg.norm(reduced[ball.columns])) / self._radius
        aimed = program.cost != 0
        varies = float(np.abs(program.cost[aimed]) @ (program.upper[aimed] - program.lower[aimed]))
        self._start = max(own, 0.01 * varies / self._radius**2 if math.isfinite(varies) else 0.0, 1e-30)

    @property
    def point(self) -> Floats:
        """Return where the line between the two solutions next to the best price meets the sphere: it is feasible."""
        assert self.high is not None
        share = _leaves(self.high.away, self.low.away - self.high.away)
        return self.high.point + (share or 0.0) * (self.low.point - self.high.point)

    @property
    def attained(self) -> float:
        return math.inf if self.high is None else float(self._cost @ self.point)

    def next(self) -> float:
        low, high = self.low, self.high
        if high is None:
            return low.price * STRIDE or self._start
        width = high.price - low.price
        halved, self._width = width <= self._width / 2, width
        for other in (self._higher, low):
            guess = self._on_the_sphere(other, high) if halved and other is not None else None
            if guess is not None and low.price < guess < high.price:
                return guess
        return math.sqrt(low.price * high.price) if low.price > 0 else high.price / STRIDE

    @staticmethod
    def _on_the_sphere(a: _Tried, b: _Tried) -> float | None:
        """Return the price at which the line through two solutions leaves the ball; None where it does not."""
        if a.price in (0.0, b.price):
            return None
        step = 1 / a.price - 1 / b.price
        way = (a.away - b.away) * math.copysign(1.0, step)  # as the price falls
        share = _leaves(b.away, way)
        inverse = 1 / b.price + abs(step) * share if share is not None else 0.0
        return 1 / inverse if inverse > 0 else None

    def learn(self, price: float, point: Floats) -> None:
        found = self._tried(price, point)
        if found.outside > 1:
            self.low = found
        else:
            self.high, self._higher = found, self.high

    def _tried(self, price: float, point: Floats) -> _Tried:
        away = (point[self._ball.columns] - self._ball.centre) / self._radius
        return _Tried(price, point, away, float(np.linalg.norm(away)))


def _leaves(start: Floats, way: Floats) -> float | None:
    """Return the t >= 0 at which start + t·way, from within, meets the unit sphere; None where it stays."""
    p, q, r = float(way @ way), float(start @ way), float(start @ start) - 1
    square = q * q - p * r
    return (math.sqrt(square) - q) / p if p > 0 and square >= 0 else None


def _quadratic(program: LinearProgram, layout: Layout, ball: RoundBall, price: float, time_limit: float) -> Answer:
    """Solve the program with the ball at a price by HiGHS; an empty answer where it finds none in time."""
    if time_limit <= 0:
        return NOTHING
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
    steps = STEPS * (count + len(program.row_lower))
    solver = new_solver(time_limit, {"qp_iteration_limit": steps, "qp_regularization_value": FIRM})
    if solver.passModel(model) == highspy.HighsStatus.kError:
        return NOTHING
    solver.run()
    found = claimed(solver)
    return NOTHING if found.point is None or found.duals is None else found
