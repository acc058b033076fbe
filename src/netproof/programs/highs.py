"""HiGHS, asked for duals. No answer of it is trusted: see `programs/check.py`.

HiGHS releases the interpreter lock while it runs, so a pool of threads keeps every core busy; each run uses
one thread, a fixed seed and a start that its caller names, so an answer does not depend on what ran beside it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np

from netproof.core.deadline import Deadline
from netproof.programs.check import lagrangian_bound
from netproof.programs.model import Entries, Floats, Ints, Layout, LinearProgram

# Above this many rows and columns interior point (with crossover, which makes the duals sharp) beats simplex.
SIMPLEX_SIZE = 1000

# The same for the condensed LP, whose rows are few and dense. Measured, seconds by simplex and by interior point:
# 7 thousand rows and columns 0.2 and 0.3, 12 thousand 4.7 and 2.7, 14 thousand 5.6 and 2.5.
CONDENSED_SIZE = 10_000


@dataclass(frozen=True, eq=False)
class Answer:
    """A claim to be checked. `duals` (row,) are of the program itself or, when `infeasible`, a ray."""

    infeasible: bool
    point: Floats | None
    duals: Floats | None

    def within(self, program: LinearProgram, columns: Ints) -> Floats | None:
        """Return the point's values of some columns, within their bounds."""
        if self.point is None:
            return None
        return np.clip(self.point[columns], program.lower[columns], program.upper[columns])


NOTHING = Answer(False, None, None)

INFEASIBLE = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)

Basis = highspy.HighsBasis


def solve(program: LinearProgram, layout: Layout, time_limit: float) -> Answer:
    """Run HiGHS; when it finds no feasible point, look for a ray that proves it."""
    end = time.monotonic() + time_limit
    simplex = len(program.cost) + len(program.row_lower) <= SIMPLEX_SIZE
    solver = _run(program, layout, simplex, time_limit)
    if solver is None:
        return NOTHING
    if solver.getModelStatus() in INFEASIBLE:
        return _if_infeasible(program, layout, solver if simplex else None, end - time.monotonic())
    return claimed(solver)


def claimed(solver: highspy.Highs) -> Answer:
    """Take the point and the duals that a solver ended with."""
    solution = solver.getSolution()
    point = np.array(solution.col_value) if solution.value_valid else None
    return Answer(False, point, np.array(solution.row_dual) if solution.dual_valid else None)


def solve_from(
    program: LinearProgram, layout: Layout, basis: Basis | None, cutoff: float, deadline: Deadline
) -> tuple[Answer, Basis | None]:
    """Run dual simplex from a basis of a program with the same layout; return also the basis that it ends with.

    It stops once its duals show that the value is above `cutoff`, and at the deadline. Without a basis a large program
    is solved by interior point, with crossover to have one.
    """
    simplex = basis is not None or len(program.cost) + len(program.row_lower) <= CONDENSED_SIZE
    how = {"solver": "simplex" if simplex else "ipm", "run_crossover": "on", "objective_bound": cutoff}
    solver = new_solver(deadline.remaining(), how)
    if deadline.expired or solver.passModel(highs_lp(program, layout)) == highspy.HighsStatus.kError:
        return NOTHING, None
    if basis is not None:
        solver.setBasis(basis)
    for callback in (solver.cbSimplexInterrupt, solver.cbIpmInterrupt):
        interrupt_at(callback, deadline)
    solver.run()
    if solver.getModelStatus() in INFEASIBLE:
        return _if_infeasible(program, layout, solver if simplex else None, deadline.remaining()), None
    found = solver.getBasis()
    return claimed(solver), found if found.valid else None


def interrupt_at(callback: Any, deadline: Deadline) -> None:
    """Stop the solver at the deadline, which another thread may cancel: the solver's time limit sees only the clock."""

    def look(event: Any) -> None:
        if deadline.expired:
            event.interrupt()

    callback.subscribe(look)


def new_solver(time_limit: float, options: Mapping[str, str | float]) -> highspy.Highs:
    solver = highspy.Highs()
    common = {
        "output_flag": False,
        "threads": 1,
        "parallel": "off",
        "random_seed": 0,
        "time_limit": time_limit if math.isfinite(time_limit) else highspy.kHighsInf,
    }
    for name, value in {**common, **options}.items():
        solver.setOptionValue(name, value)
    return solver


def _run(
    program: LinearProgram, layout: Layout, simplex: bool, time_limit: float, presolve: str = "choose"
) -> highspy.Highs | None:
    if time_limit <= 0:
        return None
    how = {"solver": "simplex" if simplex else "ipm", "run_crossover": "on", "presolve": presolve}
    solver = new_solver(time_limit, how)
    if solver.passModel(highs_lp(program, layout)) == highspy.HighsStatus.kError:
        return None
    solver.run()
    return solver


def highs_lp(program: LinearProgram, layout: Layout) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.cost), len(program.row_lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = layout.start.astype(np.int32)
    lp.a_matrix_.index_ = layout.column.astype(np.int32)
    lp.a_matrix_.value_ = layout.values(program.entries.value)
    return lp


def _if_infeasible(program: LinearProgram, layout: Layout, solver: highspy.Highs | None, time_limit: float) -> Answer:
    """Prove a program infeasible by a ray. Where there is none, ask again without presolve, whose word may be wrong."""
    end, feasibility = time.monotonic() + time_limit, replace(program, cost=np.zeros_like(program.cost))
    ray = _ray(feasibility, solver, time_limit)
    if ray.duals is None or lagrangian_bound(feasibility, ray.duals) > 0:
        return ray
    second = _run(program, layout, True, end - time.monotonic(), presolve="off")
    return ray if second is None or second.getModelStatus() in INFEASIBLE else claimed(second)


def _ray(program: LinearProgram, solver: highspy.Highs | None, time_limit: float) -> Answer:
    """Find duals that prove a program without costs infeasible: simplex has them, else another program is solved."""
    if solver is not None:
        _, found, ray = solver.getDualRay()
        for duals in (ray, -ray) if found else ():  # solvers differ in the sign of a ray
            if lagrangian_bound(program, duals) > 0:
                return Answer(True, None, duals)
    return _least_violation(program, time_limit)


def _least_violation(program: LinearProgram, time_limit: float) -> Answer:
    """Let every row be violated at a price of 1: the duals of that program are a ray of the given one."""
    rows, columns = len(program.row_lower), len(program.cost)
    index = np.arange(rows, dtype=np.int64)
    one, many = np.ones(rows), np.full(rows, math.inf)
    above = Entries(index, columns + index, one)
    below = Entries(index, columns + rows + index, -one)
    elastic = LinearProgram(
        np.concatenate([program.cost, one, one]),
        np.concatenate([program.lower, 0 * one, 0 * one]),
        np.concatenate([program.upper, many, many]),
        program.row_lower,
        program.row_upper,
        Entries.join([program.entries, above, below]),
    )
    simplex = len(elastic.cost) + rows <= SIMPLEX_SIZE
    solver = _run(elastic, Layout.of(elastic.entries, rows, len(elastic.cost)), simplex, time_limit)
    if solver is None:
        return NOTHING
    duals = claimed(solver).duals
    return NOTHING if duals is None else Answer(True, None, duals)
