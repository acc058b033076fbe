"""The triangle LP of a domain: its value where it is bounded, a proof where the domain is empty.

min t subject to r_j <= t for every row of one target, over the triangle relaxation of the network on the
domain. The rigorous bound on t comes from the LP's duals (`programs/check.py`), never from its claimed value. On a
domain without unstable neurons the relaxation is the network itself, so the bound is exact up to rounding:
the LP's value, not only its feasibility, is what makes the search complete.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.model.graph import Graph
from netproof.numerics import rounding, with_vanishing
from netproof.problem.problem import InputSet, Rows
from netproof.programs.ball import solve_in_ball
from netproof.programs.check import clip_signs, proved_by
from netproof.programs.highs import Answer, solve
from netproof.programs.model import Entries, Floats, Layout, LinearProgram
from netproof.programs.network import Bounds, Hinges, flat_bounds, network_program

# What a domain knows more than the root, each (lower, upper) flat and confirmed: for a nonlinear node's index
# the bounds of its input (a ReLU split clamps one of them at 0), for index 0 the box of the network's input.
DomainBounds = Mapping[int, tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class LPOutcome:
    """`bound` is rigorous: below min t on the domain; +inf where that is proved empty, −inf if unknown."""

    status: Literal["bounded", "infeasible", "failed"]
    bound: float = -math.inf
    point: Floats | None = None  # (input,) flat: where the LP takes its least value; to be tried as a witness
    multipliers: Floats | None = None  # (row,) λ >= 0 with Σλ = 1, 0 on padding
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class LPTask:
    """One target of `rows` on one domain."""

    rows: Rows
    target: int
    bounds: DomainBounds


class TriangleLP:
    """The relaxation of one graph on one input set; `intervals` are confirmed (lower, upper) of every node.

    Never written to after it is made, so that threads may share it.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: InputSet,
        intervals: Sequence[tuple[object, object]],
        deadline: Deadline | None = None,
    ) -> None:
        self.graph = graph
        self._root = Bounds(graph, intervals)
        self._network = network_program(graph, inputs, self._root, deadline or Deadline())
        self._layouts: dict[int, Layout] = {}

    @property
    def size(self) -> tuple[int, int]:
        """Return (rows, columns), without those of the objective."""
        program = self._network.program
        return len(program.row_lower), len(program.cost)

    def solve(self, task: LPTask, time_limit: float = math.inf) -> LPOutcome:
        """Bound the minimum over the domain of max_j r_j from below."""
        start = time.monotonic()
        domain = self._domain_program(task.bounds)
        if domain is None:
            return LPOutcome("infeasible", math.inf, seconds=time.monotonic() - start)
        program = self._with_rows(domain, task)
        layout, end = self._layout(program), start + time_limit
        answer = solve(program, layout, end - time.monotonic())
        answer = solve_in_ball(program, layout, answer, end - time.monotonic())
        outcome = self._checked(program, task, answer)
        return replace(outcome, seconds=time.monotonic() - start)

    def _checked(self, program: LinearProgram, task: LPTask, answer: Answer) -> LPOutcome:
        """Return what the solver's answer proves, if anything."""
        if answer.duals is None:
            return LPOutcome("failed")
        bound = proved_by(program, answer.duals, infeasible=answer.infeasible)
        if bound == -math.inf:
            return LPOutcome("failed")
        if answer.infeasible:
            return LPOutcome("infeasible", bound)
        point = answer.within(program, self._network.columns[0])
        return LPOutcome("bounded", bound, point, _multipliers(program, task, answer.duals))

    def _domain_program(self, bounds: DomainBounds) -> LinearProgram | None:
        """Return the network's program with the domain's column bounds, chords and fixed neurons.

        None where confirmed bounds contradict each other: then the domain is empty.
        """
        base = self._network.program
        value = base.entries.value.copy()
        sides = (base.lower, base.upper, base.row_lower, base.row_upper)
        lower, upper, row_lower, row_upper = (side.copy() for side in sides)
        program = replace(
            base,
            lower=lower,
            upper=upper,
            row_lower=row_lower,
            row_upper=row_upper,
            entries=base.entries._replace(value=value),
        )
        for node, pair in bounds.items():
            source = self.graph.nodes[node].inputs[0] if node else 0
            at = self._network.columns[source]
            low, high = flat_bounds(pair, len(at))
            if (low > high).any():
                return None
            live = at >= 0
            np.fmax.at(lower, at[live], low[live])
            np.fmin.at(upper, at[live], high[live])
        for hinges in self._network.hinges:
            _fit_hinges(program, hinges)
        return None if (lower > upper).any() else program

    def _with_rows(self, domain: LinearProgram, task: LPTask) -> LinearProgram:
        """Add the column t and the rows coef·y − t <= offset; padding rows are left free."""
        coef = task.rows.coef[task.target].numpy()
        offset = task.rows.offset[task.target].numpy()
        valid = task.rows.valid[task.target].numpy()
        y = self._network.columns[-1]
        least, most = row_range(coef, offset, domain.lower[y], domain.upper[y])
        count, outputs = coef.shape
        rows = [Entries(np.repeat(domain.next_rows(count), outputs), np.tile(y, count), coef.reshape(-1))]
        return domain.minimising(rows, np.where(valid, offset, math.inf), least[valid], most[valid])

    def _layout(self, program: LinearProgram) -> Layout:
        """Return the layout, the same for every target with as many rows: each row holds every output, zeros too."""
        rows = len(program.row_lower)
        if rows not in self._layouts:
            self._layouts[rows] = Layout.of(program.entries, rows, len(program.cost))
        return self._layouts[rows]


def _fit_hinges(program: LinearProgram, hinges: Hinges) -> None:
    """Write into the program what the bounds of h say of max(h, a·h)."""
    low, high = program.lower[hinges.before], program.upper[hinges.before]
    active = low >= 0
    inactive = ~active & (high <= 0)
    unstable = ~active & ~inactive
    leak = hinges.relaxation.leak
    program.row_lower[hinges.identity] = np.where(inactive, -math.inf, 0.0)
    program.row_upper[hinges.identity] = np.where(active, 0.0, math.inf)
    if leak != 0:
        program.row_lower[hinges.scaled] = np.where(active, -math.inf, 0.0)
        program.row_upper[hinges.scaled] = np.where(inactive, 0.0, math.inf)
    bounded = unstable & np.isfinite(low) & np.isfinite(high)
    h = Interval(*(torch.from_numpy(np.where(bounded, side, end)) for side, end in ((low, -1.0), (high, 1.0))))
    chord = hinges.relaxation.family(h, proof=True)
    program.entries.value[hinges.slope] = -chord.upper_slope.numpy()
    program.row_lower[hinges.chord] = -math.inf
    program.row_upper[hinges.chord] = np.where(bounded, chord.upper_intercept.numpy(), math.inf)
    # A hinge takes its extremes at the ends, or 0 in between; a·h is rounded once.
    ends = [np.where(side >= 0, side, leak * side if leak else 0.0) for side in (low, high)]
    least, most = np.minimum(*ends), np.maximum(*ends)
    least = np.where(unstable, np.minimum(least, 0.0), least)
    if leak not in (0.0, 1.0):
        least, most = np.nextafter(least, -math.inf), np.nextafter(most, math.inf)
    program.lower[hinges.after] = np.fmax(program.lower[hinges.after], least)
    program.upper[hinges.after] = np.fmin(program.upper[hinges.after], most)


def row_range(coef: Floats, offset: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Bound coef·y − offset, (row,), from both sides, rounded outward, for y in a box (output,)."""
    with np.errstate(invalid="ignore"):
        ends = [np.where(coef == 0, 0.0, coef * side) for side in (lower, upper)]
        size = np.maximum(np.abs(ends[0]), np.abs(ends[1])).sum(-1) + np.abs(offset)
        error = with_vanishing(rounding(size, coef.shape[1] + 8))
        least = np.minimum(*ends).sum(-1) - offset - error
        most = np.maximum(*ends).sum(-1) - offset + error
    return np.where(np.isnan(least), -math.inf, least), np.where(np.isnan(most), math.inf, most)


def _multipliers(program: LinearProgram, task: LPTask, duals: Floats) -> Floats:
    count = task.rows.coef.shape[1]
    weights: Floats = -clip_signs(program, duals)[len(duals) - count :]
    valid: Floats = task.rows.valid[task.target].numpy().astype(np.float64)
    total = float(weights.sum())
    return weights / total if total > 0 else valid / max(1.0, float(valid.sum()))


def solve_many(
    lp: TriangleLP,
    tasks: Sequence[LPTask],
    *,
    workers: int,
    deadline: Deadline,
    limit: float = math.inf,
) -> list[LPOutcome]:
    """Solve every task, in order; those that the deadline leaves no time for have failed."""

    def one(task: LPTask) -> LPOutcome:
        if deadline.expired:
            return LPOutcome("failed")
        return lp.solve(task, min(limit, deadline.remaining()))

    if workers <= 1 or len(tasks) <= 1:
        return [one(task) for task in tasks]
    with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
        return list(pool.map(one, tasks))
