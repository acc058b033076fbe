"""What a vector of duals proves about a linear program, whoever made it.

For every y, with y_i > 0 only on rows with a lower bound and y_i < 0 only on rows with an upper one,

    cost·x  >=  Σ_i y_i (row_lower_i if y_i > 0 else row_upper_i)  +  Σ_j min(d_j lower_j, d_j upper_j),

d = cost − A^T y, at every feasible x (weak duality). Where columns lie in a ball too, their part of the last sum is its
least value over the ball and the box together (`ball`). The right side is evaluated in float64 and everything that
rounding may have gained is taken off, so the solver that found y need not be trusted at all.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from netproof.numerics import enlarged, few_roundings, raised, rounding, with_vanishing
from netproof.programs.model import Floats, LinearProgram, RoundBall


def clip_signs(program: LinearProgram, duals: Floats) -> Floats:
    """Return the nearest duals that weak duality admits; anything that is not a finite number becomes 0."""
    duals = np.where(np.isfinite(duals), duals, 0.0)
    unusable = ((duals > 0) & np.isinf(program.row_lower)) | ((duals < 0) & np.isinf(program.row_upper))
    return np.where(unusable, 0.0, duals)


def proved_by(program: LinearProgram, duals: Floats, *, infeasible: bool) -> float:
    """Return what duals prove of the least value: +inf where they are a ray that proves that there is no point.

    −inf where they prove nothing.
    """
    if not infeasible:
        return lagrangian_bound(program, duals)
    empty = lagrangian_bound(replace(program, cost=np.zeros_like(program.cost)), duals) > 0
    return math.inf if empty else -math.inf


def lagrangian_bound(program: LinearProgram, duals: Floats) -> float:
    """Bound cost·x over the feasible set from below, rigorously for any duals (row,); −inf if they say nothing.

    With a zero cost a positive bound proves that there is no feasible point.
    """
    with np.errstate(all="ignore"):
        y = clip_signs(program, duals)
        reduced, error = reduced_cost(program, y)
        on_ball = np.zeros(0)
        if program.ball is not None:
            reduced, error, on_ball = _share_with_ball(program.ball, reduced, error)
        ends = np.minimum(_times(reduced, program.lower), _times(reduced, program.upper))
        reach = np.maximum(np.abs(program.lower), np.abs(program.upper))
        rows = _times(y, np.where(y > 0, program.row_lower, program.row_upper))
        terms = np.concatenate([ends, rows, on_ball])
        # Each term is one product, off by a relative unit or an underflow; the sum itself is exact (fsum).
        products = with_vanishing(few_roundings(np.abs(terms), 2))
        slack = enlarged(np.concatenate([_times(error, reach), products]))
    if not (np.isfinite(terms).all() and np.isfinite(slack).all()):
        return -math.inf
    try:
        total = math.fsum(np.concatenate([terms, -slack]).tolist())
    except OverflowError:
        return -math.inf
    return math.nextafter(total, -math.inf)


def _share_with_ball(ball: RoundBall, reduced: Floats, error: Floats) -> tuple[Floats, Floats, Floats]:
    """Return what the ball leaves of d for the box, with its error, and terms whose sum is at most u·x.

    The ball takes u; any u would do: x = centre + δ gives u·x >= u·centre − radius·‖u‖. What is left is rounded once.
    """
    own = reduced[ball.columns]
    taken = np.copysign(ball.shape.taken(torch.from_numpy(own)[None])[0].numpy(), own)
    top = np.abs(taken).max(initial=0.0) or 1.0  # squares of small numbers underflow
    norm = raised(float(np.sqrt(np.square(taken / top).sum())) * top, len(own) + 8)
    left, wider = reduced.copy(), error.copy()
    left[ball.columns] = own - taken
    wider[ball.columns] += few_roundings(np.abs(own - taken), 2)
    return left, wider, np.append(_times(taken, ball.centre), -ball.shape.radius * norm)


def reduced_cost(program: LinearProgram, y: Floats) -> tuple[Floats, Floats]:
    """Return cost − A^T y and the most that rounding may have moved it by, both (col,)."""
    row, col, value = program.entries
    columns = len(program.cost)
    product = value * y[row]
    reduced = program.cost - np.bincount(col, product, columns)
    size: Floats = np.abs(program.cost) + np.bincount(col, np.abs(product), columns)
    terms = np.bincount(col, (value != 0) & (y[row] != 0), columns)
    most = int(terms.max(initial=0)) + 2
    # A column that no product reached is exact: without this an unbounded one would spoil the sum.
    return reduced, np.where(terms > 0, enlarged(with_vanishing(rounding(size, most))), 0.0)


def _times(a: Floats, b: Floats) -> Floats:
    """Return a·b, with 0·inf = 0: a zero multiplier asks nothing of a missing bound."""
    return np.where(a == 0, 0.0, a * b)
