"""Boxes that input splitting leaves open, decided one by one by the complete search over ReLU splits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import torch
from torch import Tensor

from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.problem.problem import InputSet, Problem, Rows
from netproof.search.boxes.frontier import Boxes
from netproof.search.evidence import RANKS, Outcome
from netproof.search.goals import Goal
from netproof.search.loop import Search
from netproof.search.method import Method

G = TypeVar("G", bound=Goal)
Report = Callable[[str, float, int], None]  # phase, proved bound, open sub-domains


@dataclass(frozen=True, eq=False)
class OpenBox:
    """A part of a problem's input set on which one of its targets is undecided."""

    problem: int
    target: int  # the problem's own count
    lower: Tensor  # (*input) float64, on the CPU
    upper: Tensor
    bound: float  # proved of the target here
    level: int  # halvings that led here: the box is the share 2^-level of its set


@dataclass(frozen=True, eq=False)
class OpenBoxes:
    """Many of them, worst bound first, as tensors: there may be millions."""

    problem: Tensor  # (box,)
    target: Tensor  # (box,)
    lower: Tensor  # (box, *input)
    upper: Tensor
    bound: Tensor  # (box,)
    level: Tensor  # (box,)

    @classmethod
    def of(cls, boxes: Boxes, owner: Tensor, first: Sequence[int], shape: tuple[int, ...]) -> OpenBoxes:
        """owner (target,): each target's problem; first: each problem's first target."""
        boxes = boxes.select(boxes.bound.argsort(stable=True))
        problem = owner[boxes.target].cpu()
        target = boxes.target.cpu() - torch.tensor(first)[problem]
        lower, upper = (side.cpu().view(-1, *shape) for side in (boxes.lower, boxes.upper))
        return cls(problem, target, lower, upper, boxes.bound.cpu(), boxes.depth.cpu())

    def __len__(self) -> int:
        return self.problem.shape[0]

    def __iter__(self) -> Iterator[OpenBox]:
        for i in range(len(self)):
            place = int(self.problem[i]), int(self.target[i])
            yield OpenBox(*place, self.lower[i], self.upper[i], float(self.bound[i]), int(self.level[i]))


def sub_problem(problem: Problem, box: OpenBox) -> Problem:
    """The box with the one target that is open on it."""
    rows = Rows(*(t[box.target : box.target + 1] for t in _tensors(problem.rows)))
    most = int(rows.valid.sum())
    if bool(rows.valid[0, :most].all()):  # padding stands last
        rows = Rows(*(t[:, :most] for t in _tensors(rows)))
    inputs = InputSet(box.lower, box.upper)
    return Problem(problem.graph, inputs, rows, (problem.disjuncts[box.target],))


def _tensors(rows: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return rows.coef, rows.offset, rows.strict, rows.valid


def hand_over(
    problems: Sequence[Problem],
    proved: Sequence[Fraction],
    parts: Sequence[float],
    boxes: OpenBoxes,
    method: Method,
    goal_of: Callable[[Problem], G],
    seen: Callable[[Problem, G], None],
    device: torch.device,
    workers: int,
    deadline: Deadline,
    stats: Stats,
    report: Report = lambda phase, bound, frontier: None,
) -> Outcome:
    """Search every open box; the outcome of all problems together.

    proved, parts: by target, one problem after the other, the share of its set that is proved without these boxes, and
    the least bound there. goal_of: the goal of a sub-problem, whose only target is number 0; `seen`
    is given both once it is searched.
    """
    first = torch.tensor([0, *itertools.accumulate(len(p.disjuncts) for p in problems)])
    target = first[boxes.problem] + boxes.target
    shares, searched = list(proved), boxes.bound.clone()  # by target, and by box what is proved on it
    witness, reason, stopped, decided_by = None, "", False, "search"
    least = min(parts)  # proved where it was searched
    for at, box in enumerate(boxes):
        sub = sub_problem(problems[box.problem], box)
        goal = goal_of(sub)
        others = min([least, *boxes.bound[at + 1 : at + 2].tolist()])  # the worst comes first
        search = Search(sub, method, goal, device, workers, deadline, stats, _with_others(report, others))
        outcome = search.run()
        search.discard()
        seen(sub, goal)
        searched[at] = max(outcome.lower_bound, box.bound)
        least = min(least, float(searched[at]))
        shares[int(target[at])] += outcome.proved[0] / 2**box.level
        witness, stopped = outcome.witness, outcome.status == "timeout"
        if witness is not None or stopped:
            decided_by, reason = outcome.decided_by, f"{len(boxes) - at} boxes still open"
            break
        reason = reason or outcome.reason
        decided_by = max(decided_by, outcome.decided_by, key=RANKS.index)
    bounds = torch.tensor(parts, dtype=torch.float64).scatter_reduce(0, target, searched, "amin")
    return Outcome(tuple(shares), tuple(bounds.tolist()), witness, reason, stopped, decided_by)


def _with_others(report: Report, others: float) -> Report:
    """A report of one box that speaks of all of them: what is proved of the others is `others`."""
    return lambda phase, bound, frontier: report(phase, min(bound, others), frontier)
