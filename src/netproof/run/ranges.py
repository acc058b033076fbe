"""The range of every output over the input set, by any of the bounds or exactly."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Bounder, Clock
from netproof.bounds.domains import Domains
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.memory import release, targets_that_fit, with_less
from netproof.bounds.linear.region import Region
from netproof.bounds.lirpa import CROWN, TIGHT
from netproof.bounds.neurons.each import LayerNeurons
from netproof.bounds.neurons.refine import in_time
from netproof.bounds.neurons.root import Root
from netproof.core.about import About
from netproof.core.reasons import CONTRADICTION
from netproof.core.verdict import Stats
from netproof.errors import UsageError
from netproof.model.moves import Expand, Index, Reshape, Transpose
from netproof.problem.last.places import last_value
from netproof.problem.problem import Problem, Rows
from netproof.relax import without_lp_form
from netproof.search.goals import Minimise
from netproof.search.leaf import LeafLP
from netproof.search.loop import Search
from netproof.search.method import Method, Work

Asked = tuple[Problem, Tensor]  # with the outputs (n,) that its targets are about

MOVING = (Reshape, Transpose, Expand, Index)  # each of their results is one of their entries
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
    about: About | None = None  # the network


def output_ranges(problems: Sequence[Problem], method: str, search: Method, work: Work) -> OutputBounds:
    """Return the range of every output over all the problems' input sets; their rows play no part."""
    if method not in RANGE_METHODS:
        raise UsageError(f"no bounding method {method!r}", remedy=f"one of: {', '.join(RANGE_METHODS)}")
    missing = without_lp_form(problems[0].graph) if problems and method == "lp" else None
    if missing is not None:
        raise UsageError(f"no LP form for {missing}", remedy="use alpha or exact")
    least: Tensor | None = None
    exact, reason = method == "exact", ""
    for problem in problems:
        if method == "ibp":
            value = with_less(lambda problem=problem: _interval(problem, work.device), work.device)  # type: ignore[misc]
        else:
            value, reason = _some_at_a_time(problem, method, search, replace(work, stats=Stats()))
        exact = exact and not reason
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


def _some_at_a_time(problem: Problem, method: str, search: Method, work: Work) -> tuple[Tensor, str]:
    """Return the least value of each output and of its negative, (2·output,), and why a bound is not the best.

    Rows have an entry for every output, so that rows for all of them have the square of that. Where those are too many
    for one pass, what only moves numbers at the end of the network is left out as well: its outputs are entries of what
    it reads, which may be far fewer.
    """
    every = problem.graph.output.size
    if 2 * every <= targets_that_fit(every, work.device):
        ((value, reason),) = _least(_both_sides([problem], [torch.arange(every)]), method, search, work)
        return value, reason
    node, places = last_value(problem.graph, MOVING)
    inner = replace(problem, graph=problem.graph.ending_at(node.index)[0])
    asked = torch.tensor(places).unique()
    if method in ("crown", "alpha"):
        sides, why = _as_neurons(inner, asked, method, work)
        return sides[:, places].flatten(), why
    parts = asked.split(max(1, targets_that_fit(node.size, work.device) // 2))
    sides, why = with_less(lambda: _interval(inner, work.device), work.device).view(2, -1), ""
    found = _least(_both_sides([inner] * len(parts), parts), method, search, work)
    for part, (value, reason) in zip(parts, found, strict=False):
        sides[:, part] = sides[:, part].fmax(value.view(2, -1))
        why = why or reason
        if work.deadline.expired:
            why = why or "timeout"
            break
    return sides[:, places].flatten(), why


def _as_neurons(problem: Problem, outputs: Tensor, method: str, work: Work) -> tuple[Tensor, str]:
    """Bound outputs (n,) as a layer's neurons are, without rows: as forms of one entry each, as many as fit.

    Return both sides of every output, (2, output).
    """
    bounder, device = CROWN if method == "crown" else TIGHT, work.device
    ((one, _),) = _both_sides([problem], [outputs[:1]])
    never = torch.full((2,), torch.inf, dtype=torch.float64, device=device)
    found = with_less(partial(_bounded, bounder, one, never, work), device)
    sides = torch.full((2, problem.graph.output.size), -torch.inf, dtype=torch.float64)
    if found is None:
        return sides, "timeout"
    root, last = found[0], problem.graph.output.index
    known = root.intervals.of[last]
    sides[:] = torch.stack([known.lower.flatten(), -known.upper.flatten()]).cpu()
    schedule = Schedule(bounder.root_steps, bounder.rate, gain=bounder.root_gain)
    layer = LayerNeurons(root, last, schedule, work.deadline, None)
    for places in in_time(outputs.to(device), layer.chunk, work.deadline):
        better = with_less(lambda places=places: layer.bound(places)[0], device)  # type: ignore[misc]
        sides[:, places.cpu()] = sides[:, places.cpu()].fmax(torch.stack([better.lower, -better.upper]).cpu())
    return sides, "timeout" if work.deadline.expired else ""


def _both_sides(problems: Sequence[Problem], parts: Sequence[Tensor]) -> Iterator[Asked]:
    """Yield one target per side of each of some outputs (n,): r = y_i for all of them, then r = −y_i."""
    for problem, part in zip(problems, parts, strict=True):
        one = torch.zeros(len(part), 1, problem.graph.output.size, dtype=torch.float64)
        one[torch.arange(len(part)), 0, part] = 1.0
        coef = torch.cat([one, -one])
        flat = coef.shape[:2]
        no, yes = torch.zeros(flat, dtype=torch.bool), torch.ones(flat, dtype=torch.bool)
        rows = Rows(coef, torch.zeros(flat, dtype=torch.float64), no, yes)
        yield replace(problem, rows=rows, disjuncts=tuple(range(len(coef)))), part


def _interval(problem: Problem, device: torch.device) -> Tensor:
    region = Region.of(problem.input_set, device, torch.float64)
    last = interval_bounds(problem.graph.to(device, torch.float64), region).of[-1]
    return torch.cat([last.lower.flatten(), -last.upper.flatten()]).cpu()


def _least(parts: Iterable[Asked], method: str, search: Method, work: Work) -> Iterator[tuple[Tensor, str]]:
    """Yield by part the least value of each side, and why a bound is not the best."""
    if method != "exact":
        yield from _relaxed(parts, method, work)
        return
    for problem, _ in parts:
        yield _minima(problem, search, work)
        gc.collect()  # a search holds itself
        release(work.device)


def _relaxed(parts: Iterable[Asked], method: str, work: Work) -> Iterator[tuple[Tensor, str]]:
    """Bound by a relaxation, all parts under the root of the first."""
    bounder = CROWN if method == "crown" else TIGHT
    root: Root | None = None
    for problem, outputs in parts:
        never = torch.full((len(problem.disjuncts),), torch.inf, dtype=torch.float64, device=work.device)
        under = None if root is None else root.about(problem)
        found = with_less(partial(_bounded, bounder, under or problem, never, work), work.device)
        if found is None:
            yield torch.full((len(problem.disjuncts),), -torch.inf, dtype=torch.float64), "timeout"
            continue
        root, domains = found
        last = root.intervals.of[-1]  # the last step by intervals is at times the better one
        value = torch.cat([last.lower.flatten(), -last.upper.flatten()])
        if 2 * len(outputs) < len(value):
            value = value.view(2, -1)[:, outputs.to(work.device)].flatten()
        if domains is not None:
            value = domains.bound.maximum(value)
            if method == "lp":
                value = value.maximum(LeafLP(root, work.workers).decide(domains, work.deadline).bound)
        yield value.cpu(), "timeout" if work.deadline.expired else ""


def _bounded(
    bounder: Bounder, source: Problem | Root, threshold: Tensor, work: Work
) -> tuple[Root, Domains | None] | None:
    """Return a root and what it proves of the targets; nothing beyond intervals once a root's deadline is over."""
    if isinstance(source, Problem):
        found = bounder.root(source, threshold, work.device, work.deadline, Clock())
        return None if found is None else (found[0], found[1].domains)
    if work.deadline.expired:
        return source, None
    return source, bounder.whole(source, threshold, work.deadline, Clock()).domains


def _minima(problem: Problem, method: Method, work: Work) -> tuple[Tensor, str]:
    """Search with thresholds that follow the least values seen; return the bounds, and why something is open."""
    goal = Minimise(problem, TOLERANCE)
    search = Search(problem, method, goal, work)
    outcome = search.run()
    bounds = search.target_bounds()
    if goal.least:
        work.look(torch.stack(list(goal.least.values())))
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
