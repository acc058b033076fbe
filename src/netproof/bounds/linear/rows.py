"""What intervals of all nodes say of a property's rows: the first rung of a root, which costs about one evaluation."""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.bounds.linear.coefficients import Dense
from netproof.bounds.linear.interval import Intervals
from netproof.bounds.linear.memory import rows_that_fit
from netproof.bounds.linear.region import Region
from netproof.core.deadline import Deadline
from netproof.numerics import enlarged_rounding, lowered, rounding, vanishing
from netproof.problem.problem import Problem


@torch.no_grad()
def bounds_by_intervals(problem: Problem, device: torch.device, deadline: Deadline) -> Tensor | None:
    """Bound the largest row of every target on the whole input set, (target,); None past the deadline.

    Raises Unbounded where a node's values have no bounds.
    """
    intervals = Intervals(problem.graph.to(device, torch.float64), Region.of(problem.input_set, device, torch.float64))
    for _ in intervals.graph.nodes:
        if deadline.expired:
            return None
        intervals.extend(deadline)
    rows = problem.rows.to(device)
    flat, last = rows.coef.flatten(0, 1), intervals.graph.output
    sizes = intervals.charge.magnitude[-1].flatten()
    at_once = rows_that_fit(intervals.graph, last.index, device, torch.float64, grad=False)
    least = [_least(intervals, some) for some in flat.view(-1, *last.shape).split(at_once)]
    offset = rows.offset.flatten()
    error = enlarged_rounding(flat.abs() @ sizes + offset.abs(), 4)
    value = lowered(torch.cat(least) - offset, error).view(rows.valid.shape)
    return value.masked_fill(~rows.valid, -torch.inf).amax(1)


def _least(intervals: Intervals, coef: Tensor) -> Tensor:
    """Bound <coef, output> from below, coef (n, *output): back to the last nonlinear nodes, then by their intervals."""
    back, last = intervals.back, intervals.graph.output
    done = back.walk(last.index, Dense(coef, len(last.shape)), None, intervals.graph.input.index, keep=True)
    terms, charge = [back.least(intervals.region, done)], coef.new_zeros(len(coef))
    for index, here in done.kept.items():
        lower, upper = intervals.of[index]
        middle = lower / 2 + upper / 2
        radius = torch.maximum(upper - middle, middle - lower)
        terms.append(here.dot(middle) - here.size(radius))
        magnitude = intervals.charge.magnitude[index]
        charge = charge + rounding(here.size(magnitude), magnitude.numel() + 16) + vanishing(magnitude.sum())
    sizes = torch.stack(terms).abs().sum(0)
    return lowered(torch.stack(terms).sum(0), charge + rounding(sizes, len(terms) + 8))
