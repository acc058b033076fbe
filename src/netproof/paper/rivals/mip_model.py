"""The network as a mixed-integer program, for HiGHS. Nothing that it says of it is taken as true.

On the condensed triangle LP (`programs/condensed.py`) every unstable neuron gets a switch d in {0, 1}, with the big-M
of its own confirmed bounds: p <= u·d and w <= |l|·(1 − d). Without integrality that is the triangle again. The
objective's column t, the largest row, is at most 0: a solution is a violation, and none means that there is none. Or
it is free, and the solver is stopped once it says that the minimum is above 0.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import highspy
import numpy as np
from torch import Tensor

from netproof.core.deadline import Deadline
from netproof.programs.condensed import CondensedLP
from netproof.programs.highs import highs_lp, new_solver
from netproof.programs.model import Entries, Floats, Layout, LinearProgram

EARLY = 0.5  # seconds before the deadline that the solver is to stop: presolve and heuristics look at the clock seldom
DONE = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)


@dataclass(frozen=True)
class Claim:
    """How the solver ended, and how many nodes of its tree it saw."""

    status: Literal["found", "holds", "violated", "stopped", "failed"]  # found: by what was offered a solution
    nodes: int


@dataclass(frozen=True)
class Watch:
    """What looks at a run of the solver."""

    offer: Callable[[Floats], bool]  # takes each solution's input (input,), True ends the run
    tick: Callable[[int], None]  # told the number of nodes from time to time
    deadline: Deadline


def solve_mip(
    lp: CondensedLP, target: int, bounds: tuple[Tensor, Tensor], watch: Watch, *, minimise: bool = False
) -> Claim:
    """Run the solver on the program of a target and return how it ended.

    bounds: lower and upper (U,) of h. minimise: look for the least value, and not only for one that violates.
    """
    deadline = watch.deadline
    solver = new_solver(max(0.0, deadline.remaining() - EARLY), {"mip_rel_gap": 0.0})
    model = _highs_mip(lp, lp.program(target, *bounds), *bounds, minimise=minimise)
    if deadline.expired or solver.passModel(model) == highspy.HighsStatus.kError:
        return Claim("stopped" if deadline.expired else "failed", 0)
    found, above = threading.Event(), threading.Event()

    def improved(event: Any) -> None:
        if not found.is_set() and watch.offer(np.array(event.data_out.mip_solution)[lp.places.x]):
            found.set()

    def look(event: Any) -> None:
        watch.tick(int(event.data_out.mip_node_count))
        if minimise and 0.0 < event.data_out.mip_dual_bound < highspy.kHighsInf:
            above.set()
        if found.is_set() or above.is_set() or deadline.expired:
            event.interrupt()

    solver.cbMipSolution.subscribe(improved)
    for callback in (solver.cbMipInterrupt, solver.cbSimplexInterrupt):
        callback.subscribe(look)
    solver.run()
    nodes = max(0, int(solver.getInfo().mip_node_count))
    if found.is_set() or deadline.expired:
        return Claim("found" if found.is_set() else "stopped", nodes)
    return Claim("holds" if above.is_set() else _ended(solver), nodes)


def _ended(solver: highspy.Highs) -> Literal["holds", "violated", "stopped", "failed"]:
    """Return what a solver claims that nobody has stopped."""
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kTimeLimit:
        return "stopped"
    if status not in DONE:
        return "failed"
    none = status == highspy.HighsModelStatus.kInfeasible or solver.getInfo().objective_function_value > 0
    return "holds" if none else "violated"


def _highs_mip(
    lp: CondensedLP, program: LinearProgram, lower: Tensor, upper: Tensor, *, minimise: bool
) -> highspy.HighsLp:
    """Return the program with a switch per neuron in the place of its chord."""
    at, count = lp.places, len(lp.places.positive)
    columns, rows = len(program.cost), len(program.row_lower)
    switch = columns + np.arange(count)
    on, off = rows + np.arange(count), rows + count + np.arange(count)
    low, high = (side.cpu().numpy().astype(np.float64) for side in (lower, upper))
    one, none = np.ones(count), np.full(count, -np.inf)
    chords = np.isin(program.entries.row, at.chord)
    row, col, value = program.entries
    entries = Entries(row[~chords], col[~chords], value[~chords])
    row_upper = program.row_upper.copy()
    row_upper[at.chord] = np.inf
    column_lower, column_upper = program.lower.copy(), program.upper.copy()
    if not minimise:  # t
        column_upper[-1] = 0.0
        column_lower[-1] = min(column_lower[-1], 0.0)
    mixed = LinearProgram(
        np.append(program.cost, 0 * one),
        np.append(column_lower, 0 * one),
        np.append(column_upper, one),
        np.concatenate([program.row_lower, none, none]),
        np.concatenate([row_upper, 0 * one, -low]),
        Entries.join(
            [
                entries,
                Entries(on, at.positive, one),
                Entries(on, switch, -high),
                Entries(off, at.negative, one),
                Entries(off, switch, -low),
            ]
        ),
    )
    model = highs_lp(mixed, Layout.of(mixed.entries, len(mixed.row_lower), len(mixed.cost)))
    kinds = [highspy.HighsVarType.kContinuous] * columns + [highspy.HighsVarType.kInteger] * count
    model.integrality_ = kinds
    return model
