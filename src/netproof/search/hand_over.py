"""Boxes that input splitting leaves open, decided one by one by the complete search over ReLU splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.problem.problem import InputSet, Problem, Rows
from netproof.search.box_frontier import Boxes
from netproof.search.goals import Goal
from netproof.search.loop import Method, Outcome, Search


@dataclass(frozen=True, eq=False)
class OpenBox:
    """A part of a problem's input set on which one of its targets is undecided."""

    problem: int
    target: int  # the problem's own count
    lower: Tensor  # (*input) float64, on the CPU
    upper: Tensor
    bound: float  # proved of the target here


@dataclass(frozen=True, eq=False)
class OpenBoxes:
    """Many of them, worst bound first, as tensors: there may be millions."""

    problem: Tensor  # (box,)
    target: Tensor  # (box,)
    lower: Tensor  # (box, *input)
    upper: Tensor
    bound: Tensor  # (box,)

    @classmethod
    def of(cls, boxes: Boxes, owner: Tensor, first: Sequence[int], shape: tuple[int, ...]) -> OpenBoxes:
        """owner (target,): each target's problem; first: each problem's first target."""
        boxes = boxes.select(boxes.bound.argsort(stable=True))
        problem = owner[boxes.target].cpu()
        target = boxes.target.cpu() - torch.tensor(first)[problem]
        lower, upper = (side.cpu().view(-1, *shape) for side in (boxes.lower, boxes.upper))
        return cls(problem, target, lower, upper, boxes.bound.cpu())

    def __len__(self) -> int:
        return self.problem.shape[0]

    def __iter__(self) -> Iterator[OpenBox]:
        for i in range(len(self)):
            place = int(self.problem[i]), int(self.target[i])
            yield OpenBox(*place, self.lower[i], self.upper[i], float(self.bound[i]))


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
    boxes: OpenBoxes,
    method: Method,
    goal_of: Callable[[Problem], Goal],
    device: torch.device,
    workers: int,
    deadline: Deadline,
    stats: Stats,
    report: Callable[[str, float, int], None] = lambda phase, bound, frontier: None,
) -> tuple[Outcome, Goal | None]:
    """Search every open box; the outcome of all together, and the goal that holds a witness, if one does.

    goal_of: the goal of a sub-problem, whose only target is number 0.
    """
    least, undecided, decided_by = float("inf"), "", "root"
    for done, box in enumerate(boxes):
        sub = sub_problem(problems[box.problem], box)
        goal = goal_of(sub)
        search = Search(sub, method, goal, device, workers, deadline, stats, report)
        outcome = search.run()
        search.discard()
        least = min(least, max(outcome.lower_bound, box.bound))
        if outcome.status == "found":
            return outcome, goal
        if outcome.status == "timeout":
            least = min(least, float(boxes.bound[done:].min()))
            return Outcome("timeout", f"{len(boxes) - done} boxes still open", least, ""), None
        if outcome.status == "undecided":
            undecided = undecided or outcome.reason
        decided_by = max(decided_by, outcome.decided_by or "leaf", key=("root", "search", "leaf").index)
    if undecided:
        return Outcome("undecided", undecided, least, ""), None
    return Outcome("proved", "", least, decided_by if decided_by == "leaf" else "search"), None
