"""Boxes that input splitting leaves open, as sub-domains of the complete search over splits of neurons.

A box of the input is decisions on node 0. So the boxes of a problem are sub-domains of one root, that of the set that
holds them all, each with its own box and with what input splitting learnt of the neurons on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import torch
from torch import Tensor

from netproof.bounds.base import Clock
from netproof.bounds.boxes.bounder import BoxBounder
from netproof.bounds.domains import Domains
from netproof.bounds.linear.layers import initial_slopes
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import DeadlineExpired
from netproof.numerics import float32_down, float32_up
from netproof.problem.problem import InputSet, Problem
from netproof.search.boxes.parts import Boxes
from netproof.search.evidence import RANKS, Outcome
from netproof.search.goals import Goal
from netproof.search.loop import Search
from netproof.search.method import Method, Report, Start, Work

G = TypeVar("G", bound=Goal)
TOGETHER = 1024  # boxes that are searched at once, worst first


@dataclass(frozen=True, eq=False)
class OpenBoxes:
    """Parts of problems' input sets on which a target is undecided, worst bound first. On the CPU."""

    problem: Tensor  # (box,)
    target: Tensor  # (box,) the problem's own count
    lower: Tensor  # (box, *input) float64
    upper: Tensor
    bound: Tensor  # (box,): proved of the target here
    level: Tensor  # (box,): halvings that led here: it is the share 2^-level of its set
    signs: Tensor  # (box, N): the neurons whose sign is known

    @classmethod
    def of(cls, boxes: Boxes, owner: Tensor, first: Sequence[int], shape: tuple[int, ...]) -> OpenBoxes:
        """owner (target,): each target's problem; first: each problem's first target."""
        boxes = boxes.select(boxes.bound.argsort(stable=True)).map(Tensor.cpu)
        problem = owner.cpu()[boxes.target]
        target = boxes.target - torch.tensor(first)[problem]
        lower, upper = (side.view(-1, *shape) for side in (boxes.lower, boxes.upper))
        return cls(problem, target, lower, upper, boxes.bound, boxes.level, boxes.signs)

    def __len__(self) -> int:
        return self.problem.shape[0]

    def select(self, index: Tensor) -> OpenBoxes:
        """Return some of them."""
        return OpenBoxes(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def together(self) -> Iterator[tuple[int, Tensor]]:
        """Yield problems, and places (n,) of boxes of theirs to be searched at once: those with the worst box first."""
        for problem in dict.fromkeys(self.problem.tolist()):
            for places in (self.problem == problem).nonzero()[:, 0].split(TOGETHER):
                yield problem, places


def hand_over(
    problems: Sequence[Problem],
    left: tuple[Sequence[Fraction], Sequence[float], OpenBoxes, BoxBounder],
    method: Method,
    goal_of: Callable[[Problem], G],
    seen: Callable[[Problem, G], None],
    work: Work,
) -> Outcome:
    """Search every open box; the outcome of all problems together.

    left: by target, one problem after the other, the share of its set that is proved without these boxes and the least
    bound there; the boxes; and what knows of their neurons. goal_of: the goal of a problem; `seen` is given both once
    it is searched.
    """
    proved, parts, boxes, bounder = left
    first = torch.tensor([0, *itertools.accumulate(len(p.disjuncts) for p in problems)])
    shares, bounds, waiting = list(proved), torch.tensor(parts, dtype=torch.float64), boxes.bound.clone()
    witness, reason, stopped, decided_by = None, "", False, "search"
    for index, places in boxes.together():
        some = boxes.select(places)
        waiting[places] = torch.inf
        sub, which = _part(problems[index], some)
        goal = goal_of(sub)
        others = min([*bounds.tolist(), *waiting.tolist()])
        telling = replace(work, report=_with_others(work.report, others))
        outcome = _search(sub, some, method, goal, telling, bounder)
        seen(sub, goal)
        for target, share, bound in zip((first[index] + which).tolist(), outcome.proved, outcome.bounds, strict=True):
            shares[target] += share
            bounds[target] = min(float(bounds[target]), bound)
        witness, stopped = outcome.witness, outcome.status == "timeout"
        if witness is not None or stopped:
            decided_by, reason = outcome.decided_by, f"{len(places) + int(waiting.isfinite().sum())} boxes still open"
            break
        reason = reason or outcome.reason
        decided_by = max(decided_by, outcome.decided_by, key=RANKS.index)
    bounds = bounds.scatter_reduce(0, first[boxes.problem] + boxes.target, waiting, "amin")
    return Outcome(tuple(shares), tuple(bounds.tolist()), witness, reason, stopped, decided_by)


def _part(problem: Problem, boxes: OpenBoxes) -> tuple[Problem, Tensor]:
    """Return the problem on a set that holds the boxes, with the targets that are open on some; and which these are."""
    which = boxes.target.unique()
    inputs = InputSet(boxes.lower.amin(0), boxes.upper.amax(0))
    return Problem(
        problem.graph, inputs, problem.rows.of(which), tuple(problem.disjuncts[t] for t in which.tolist())
    ), which


def _search(problem: Problem, boxes: OpenBoxes, method: Method, goal: Goal, work: Work, bounder: BoxBounder) -> Outcome:
    """Search the boxes as sub-domains of one root."""
    given = torch.searchsorted(boxes.target.unique(), boxes.target).to(work.device)
    threshold = goal.thresholds(torch.arange(len(problem.disjuncts), device=work.device))
    found = method.bounder.root(problem, threshold, work.device, work.deadline, Clock(recorder=work.recorder))
    try:
        if found is None:
            raise DeadlineExpired
        domains = as_domains(found[0], boxes, given, bounder, work)
    except DeadlineExpired:
        none = Outcome.nothing(len(problem.disjuncts), "the boxes were not bounded in time")
        return replace(none, bounds=_least(boxes.bound, given.cpu(), len(problem.disjuncts)), stopped=True)
    search = Search(problem, method, goal, work, start=Start(found[0], domains, bounded=False))
    outcome = search.run()
    search.discard()
    return outcome


def as_domains(root: Root, boxes: OpenBoxes, target: Tensor, bounder: BoxBounder, work: Work) -> Domains:
    """Make sub-domains of a root of the boxes, for its targets (box,), with what is known of the neurons on each.

    Raises DeadlineExpired.
    """
    inside = torch.stack([boxes.lower.flatten(1), boxes.upper.flatten(1)], 1).to(work.device)
    whole = Domains.unsplit(
        target, *root.packed_bounds, root.points, torch.zeros(1, root.count, device=work.device), root.valid[target]
    )
    lower, upper = whole.lower, whole.upper
    for some in torch.arange(len(boxes), device=work.device).split(bounder.boxes_that_fit()):
        signs = boxes.signs[some.cpu()].to(work.device)
        known = bounder.of_neurons(inside[some, 0], inside[some, 1], signs, work.deadline)
        for layer in root.layers:
            low, high = (side[:, layer.index] for side in known[layer.pre])
            lower[some, layer.packed] = lower[some, layer.packed].maximum(float32_down(low))
            upper[some, layer.packed] = upper[some, layer.packed].minimum(float32_up(high))
    slopes = initial_slopes(root.layers, lower, upper)
    bound, level = boxes.bound.to(work.device), boxes.level.to(work.device)
    return replace(whole, lower=lower, upper=upper, slopes=slopes, bound=bound, level=level, inside=inside)


def _least(bound: Tensor, target: Tensor, targets: int) -> tuple[float, ...]:
    """Return by target the least of the bounds (n,) of its parts."""
    none = torch.full((targets,), torch.inf, dtype=torch.float64)
    return tuple(none.scatter_reduce(0, target, bound, "amin").tolist())


def _with_others(report: Report, others: float) -> Report:
    """A report of some boxes that speaks of all of them: what is proved of the others is `others`."""
    return lambda phase, bound, frontier: report(phase, min(bound, others), frontier)
