"""Boxes that input splitting leaves open, as sub-domains of the complete search over splits of neurons.

A box of the input is decisions on node 0. So the boxes of a problem are sub-domains of one root, that of the set that
holds them all, each with its own box and with what input splitting learnt of the neurons on it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from netproof.bounds.base import Clock
from netproof.bounds.boxes.bounder import BoxBounder
from netproof.bounds.domains import Domains
from netproof.bounds.linear.layers import initial_slopes
from netproof.bounds.linear.memory import attempted, with_less
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import DeadlineExpired
from netproof.numerics import float32_outward
from netproof.problem.problem import Problem, hull
from netproof.search.boxes.parts import Boxes, SplitResult, together
from netproof.search.evidence import RANKS, Outcome
from netproof.search.goals import Goal
from netproof.search.loop import Search
from netproof.search.method import Method, Report, Start, Work

G = TypeVar("G", bound=Goal)

# Rounding is charged by the largest values on the hull of the boxes. Where boxes lie far apart that may be too much for
# a small margin, so a group that stays undecided is halved by place, so many times.
AGAIN = 2


def hand_over(
    problem: Problem,
    left: SplitResult,
    method: Method,
    goal_of: Callable[[Problem], G],
    seen: Callable[[Problem, G], None],
    work: Work,
) -> Outcome:
    """Search every open box of a joined problem; return the outcome of all of it.

    goal_of: makes the goal of a problem; `seen` is given both once it is searched.
    """
    boxes = left.open
    shares, bounds = list(left.outcome.proved), torch.tensor(left.least, dtype=torch.float64)
    waiting = boxes.bound.clone()  # by box, what is proved on it; inf once it is searched
    witness, reason, stopped, decided_by = None, "", False, "search"
    groups = deque((places, AGAIN) for places in together(boxes, problem.boxes.home))
    while groups:
        places, again = groups.popleft()
        some = boxes.select(places)
        waiting[places] = torch.inf
        which, given = some.target.unique(return_inverse=True)
        sides = torch.stack([some.lower, some.upper], 1)
        inputs = hull(sides, problem.graph.input.shape)
        part = replace(problem.select(which), input_set=inputs, own=None)
        goal, others = goal_of(part), float(torch.cat([bounds, waiting]).min())
        telling = replace(work, report=_with_others(work.report, others))
        outcome = _search(part, replace(some, target=given), method, goal, telling, left.bounder)
        seen(part, goal)
        if outcome.status == "undecided" and again and len(places) > 1:
            waiting[places] = some.bound
            groups.extendleft((places[half], again - 1) for half in _halves(some))
            continue
        for target, share, bound in zip(which.tolist(), outcome.proved, outcome.bounds, strict=True):
            shares[target] += share
            bounds[target] = min(float(bounds[target]), bound)
        witness, stopped = outcome.witness, outcome.status == "timeout"
        if witness is not None or stopped:
            more = int((waiting < torch.inf).sum())
            decided_by, reason = outcome.decided_by, f"{outcome.reason}, {more} boxes not searched"
            break
        reason = reason or outcome.reason
        decided_by = max(decided_by, outcome.decided_by, key=RANKS.index)
    bounds = bounds.scatter_reduce(0, boxes.target, waiting, "amin")
    return Outcome(tuple(shares), tuple(bounds.tolist()), witness, reason, stopped, decided_by)


def _halves(boxes: Boxes) -> tuple[Tensor, Tensor]:
    """Return the places (n,) of those on either side of the middle of the widest direction in which they lie apart."""
    centre = boxes.lower / 2 + boxes.upper / 2
    widest = (centre.amax(0) - centre.amin(0)).argmax()
    order = centre[:, widest].argsort(stable=True)
    return order[: len(order) // 2], order[len(order) // 2 :]


def _search(problem: Problem, boxes: Boxes, method: Method, goal: Goal, work: Work, bounder: BoxBounder) -> Outcome:
    """Search boxes as sub-domains of one root; their targets are those of the problem."""
    began, clock, every = time.monotonic(), Clock(recorder=work.recorder), torch.arange(len(problem.disjuncts))
    work.report("root", float(boxes.bound.min()), len(boxes))
    threshold = goal.thresholds(every.to(work.device))
    given = problem, threshold, work.device, work.deadline, clock
    found = with_less(lambda: method.bounder.root(*given), work.device)
    start = None
    if found is not None:
        root, whole = found
        start = _start(root, boxes, whole.domains.bound, bounder, work)
    work.stats.seconds["confirm"] += clock.confirm
    work.stats.seconds["root"] += time.monotonic() - began - clock.confirm
    if start is None:
        none = Outcome.nothing(len(every), f"{len(boxes)} boxes not bounded in time")
        least = torch.full((len(every),), torch.inf, dtype=torch.float64)
        least = least.scatter_reduce(0, boxes.target, boxes.bound, "amin")
        return replace(none, bounds=tuple(least.tolist()), stopped=True)
    search = Search(problem, method, goal, work, start=start)
    try:
        return search.run()
    finally:
        search.discard()


def _start(root: Root, boxes: Boxes, whole: Tensor, bounder: BoxBounder, work: Work) -> Start | None:
    """Begin with boxes under a root; whole (target,): what is proved on all of its set. None past the deadline."""
    try:
        domains = with_less(lambda: as_domains(root, boxes, bounder, work), work.device)
    except DeadlineExpired:
        return None
    better = domains.bound.fmax(whole[domains.target])
    return Start(root, replace(domains, bound=better), bounded=False)


def as_domains(root: Root, boxes: Boxes, bounder: BoxBounder, work: Work) -> Domains:
    """Make sub-domains of a root of boxes, with what is known of the neurons on each. Raises DeadlineExpired."""
    device = work.device
    here = boxes.map(lambda t: t.to(device))
    none = torch.zeros(1, root.count, device=device)
    whole = Domains.unsplit(here.target, *root.packed_bounds, root.points, none, root.valid[here.target])
    lower, upper, done, chunk = whole.lower, whole.upper, 0, bounder.boxes_that_fit()
    while done < len(here):
        some = slice(done, done + chunk)
        bound = partial(bounder.of_neurons, here.lower[some], here.upper[some], here.signs[some], work.deadline)
        known = attempted(bound, device) if chunk > 1 else bound()
        if known is None:
            bounder.shrink()
            chunk //= 2
            continue
        for layer in root.layers:
            low, high = float32_outward(*(side[:, layer.index] for side in known[layer.pre]))
            lower[some, layer.packed] = lower[some, layer.packed].fmax(low)
            upper[some, layer.packed] = upper[some, layer.packed].fmin(high)
        done += chunk
    slopes, inside = initial_slopes(root.layers, lower, upper), torch.stack([here.lower, here.upper], 1)
    return replace(whole, lower=lower, upper=upper, slopes=slopes, bound=here.bound, level=here.level, inside=inside)


def _with_others(report: Report, others: float) -> Report:
    """Make a report of some boxes speak of all of them: what is proved of the others is `others`."""
    return lambda phase, bound, frontier: report(phase, min(bound, others), frontier)
