"""The range of every output over the input set, by any of the bounds or exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from netproof.bounds.base import Bounder, Clock
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.memory import with_less
from netproof.bounds.linear.region import Region
from netproof.bounds.lirpa import CROWN, TIGHT
from netproof.core.deadline import Deadline
from netproof.core.reasons import CONTRADICTION
from netproof.core.verdict import Stats
from netproof.errors import UsageError
from netproof.problem.problem import Problem, Rows
from netproof.relax import without_lp_form
from netproof.search.goals import Minimise
from netproof.search.leaf import LeafLP
from netproof.search.loop import Search
from netproof.search.method import Method, Report, Work

RANGE_METHODS = ("ibp", "crown", "alpha", "lp", "exact")
TOLERANCE = 1e-6  # of an exact minimum, absolute and relative


@dataclass(frozen=True, eq=False)
class OutputBounds:
    """lower <= f(x) <= upper for every x in the set, confirmed; shaped like the output.

    `exact` says that both sides are attained to within 1e-6; where it is False, `reason` says why not.
    """

    lower: np.ndarray
    upper: np.ndarray
    method: str
    exact: bool = False
    reason: str = ""


def output_ranges(
    problems: Sequence[Problem],
    method: str,
    search: Method,
    device: torch.device,
    workers: int,
    deadline: Deadline,
    report: Report,
) -> OutputBounds:
    """Return the range of every output over all the problems' input sets; their rows play no part."""
    if method not in RANGE_METHODS:
        raise UsageError(f"no bounding method {method!r}", remedy=f"one of: {', '.join(RANGE_METHODS)}")
    missing = without_lp_form(problems[0].graph) if problems and method == "lp" else None
    if missing is not None:
        raise UsageError(f"no LP form for {missing}", remedy="use alpha or exact")
    least: Tensor | None = None
    exact, reason = method == "exact", ""
    for problem in problems:
        asked = _both_sides(problem)
        if method == "ibp":
            value = with_less(lambda asked=asked: _interval(asked, device), device)  # type: ignore[misc]
        elif method == "exact":
            value, reason = _minima(asked, search, device, workers, deadline, report)
            exact = exact and not reason
        else:
            value, reason = _relaxed(asked, method, device, workers, deadline)
        least = value if least is None else least.minimum(value)
        if reason:
            break
    if least is None:
        raise UsageError("the input set is empty, so no output has a range")
    shape = problems[0].graph.output.shape
    lower, upper = least.view(2, *shape).numpy()
    _agree(lower, -upper, "an output's lower bound is above its upper bound")
    if reason and len(problems) > 1:  # sets that were not reached are not in the hull
        lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
        return OutputBounds(lower, upper, method, False, reason)
    return OutputBounds(lower, -upper, method, exact, reason)


def _both_sides(problem: Problem) -> Problem:
    """Return the problem with one target per side of each output: r = y_i, then r = −y_i."""
    eye = torch.eye(problem.graph.output.size, dtype=torch.float64)
    coef = torch.cat([eye, -eye])[:, None]
    flat = coef.shape[:2]
    no, yes = torch.zeros(flat, dtype=torch.bool), torch.ones(flat, dtype=torch.bool)
    rows = Rows(coef, torch.zeros(flat, dtype=torch.float64), no, yes)
    return replace(problem, rows=rows, disjuncts=tuple(range(len(coef))))


def _interval(problem: Problem, device: torch.device) -> Tensor:
    region = Region.of(problem.input_set, device, torch.float64)
    last = interval_bounds(problem.graph.to(device, torch.float64), region).of[-1]
    return torch.cat([last.lower.flatten(), -last.upper.flatten()]).cpu()


def _relaxed(
    problem: Problem, method: str, device: torch.device, workers: int, deadline: Deadline
) -> tuple[Tensor, str]:
    bounder: Bounder = CROWN if method == "crown" else TIGHT
    never = torch.full((len(problem.disjuncts),), torch.inf, dtype=torch.float64, device=device)
    first = with_less(lambda: bounder.root(problem, never, device, deadline, Clock()), device)
    if first is None:
        return torch.full((len(problem.disjuncts),), -torch.inf, dtype=torch.float64), "timeout"
    root, bounds = first
    last = root.intervals.of[-1]  # the last step by intervals is at times the better one
    value = bounds.domains.bound.maximum(torch.cat([last.lower.flatten(), -last.upper.flatten()]))
    if method == "lp":
        value = value.maximum(LeafLP(root, workers).decide(bounds.domains, deadline).bound)
    return value.cpu(), "timeout" if deadline.expired else ""


def _minima(
    problem: Problem, method: Method, device: torch.device, workers: int, deadline: Deadline, report: Report
) -> tuple[Tensor, str]:
    """Search with thresholds that follow the least values seen; return the bounds, and why something is open."""
    goal = Minimise(problem, TOLERANCE)
    search = Search(problem, method, goal, Work(device, workers, deadline, Stats(), report))
    outcome = search.run()
    bounds = search.target_bounds()
    _agree(bounds.numpy(), goal.upper.cpu().numpy(), "a proved minimum is above a value at a point")
    if outcome.status == "proved":
        return bounds, ""
    if not outcome.reason:
        raise RuntimeError(f"{CONTRADICTION}: nothing is open, yet not everything is proved")
    return bounds, outcome.reason


def _agree(low: np.ndarray, high: np.ndarray, what: str) -> None:
    """Raise where bounds contradict each other: a bug in netproof, which no caller may take for a range."""
    if bool((low > high).any()):
        at = int(np.argmax((low > high).ravel()))
        raise RuntimeError(f"{CONTRADICTION}: {what}: {low.ravel()[at]:.17g} and {high.ravel()[at]:.17g}")
