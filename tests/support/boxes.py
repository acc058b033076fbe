"""Searches over boxes for tests: run on tiny problems, with the graph itself as the replay."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats, Witness
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.problem.joined import join
from netproof.problem.problem import Problem
from netproof.search.boxes.loop import InputSplit, SplitOptions
from netproof.search.boxes.parts import SplitResult
from netproof.search.boxes.remainder import hand_over
from netproof.search.evidence import Outcome
from netproof.search.goals import Decide, Goal
from netproof.search.method import Work
from support.exact import enumerate_minimum, rows_of
from support.problems import box_problem, random_relus, targets_of
from support.random_graphs import Question

CPU = torch.device("cpu")
Replay = Callable[[Tensor, int], Witness | None]


def worst(problem: Problem, x: Tensor, target: int) -> float:
    """max_j r_j at x (*input), in float64."""
    rows = problem.rows
    r = rows.coef[target] @ problem.graph.forward(x.double()[None]).flatten() - rows.offset[target]
    return float(r[rows.valid[target]].max())


def replay_of(problem: Problem) -> Replay:
    """The graph itself answers: a point of the box where no row is positive."""

    def replay(point: Tensor, target: int) -> Witness | None:
        x = point.double().maximum(problem.input_set.lower).minimum(problem.input_set.upper)
        y = problem.graph.forward(x[None])[0]
        return Witness(x.numpy(), y.numpy()) if worst(problem, x, target) <= 0 else None

    return replay


def joined_replay(problems: Sequence[Problem]) -> Replay:
    """The same for the targets of several problems, each on its own box."""
    each = [(replay_of(problem), target) for problem in problems for target in range(len(problem.disjuncts))]

    def replay(point: Tensor, target: int) -> Witness | None:
        own, at = each[target]
        return own(point, at)

    return replay


def deaf(point: Tensor, target: int) -> Witness | None:
    """A replay that never finds anything, so that violations stay open."""
    return None


def ignore(problem: Problem, goal: Goal) -> None:
    """What was seen is of no interest."""


class Run:
    def __init__(
        self,
        problems: Sequence[Problem],
        goal: Goal | None = None,
        replay: Replay | None = None,
        deadline: Deadline | None = None,
        device: torch.device = CPU,
        **options: Any,
    ) -> None:
        self.problems = problems
        self.joined = join(problems)
        self.goal = goal or Decide(self.joined, replay or joined_replay(problems))
        self.stats = Stats()
        self.reports: list[tuple[str, float, int]] = []
        self.search = InputSplit(
            self.joined,
            self.goal,
            Work(device, 1, deadline or Deadline(), self.stats, lambda *step: self.reports.append(step)),
            SplitOptions(**{"batch": 16, "samples": 64, **options}),
        )
        self.result: SplitResult = self.search.run()

    @property
    def homes(self) -> list[int]:
        """The problem of each box that is open."""
        homes: list[int] = self.joined.boxes.home[self.result.open.target].tolist()
        return homes

    @property
    def status(self) -> str:
        return self.result.outcome.status

    @property
    def bounds(self) -> list[Tensor]:
        """By problem (target,): what is proved of each target on the whole input set."""
        each = torch.tensor(self.result.outcome.bounds, dtype=torch.float64)
        return list(each.split([len(p.disjuncts) for p in self.problems]))

    def finish(self) -> Outcome:
        """What is open, by ReLU splitting."""
        method = build_method("lirpa", method_info("lirpa").options({"batch": "8"}), CPU)

        def goal_of(problem: Problem) -> Goal:
            return Decide(problem, replay_of(problem))

        return hand_over(self.joined, self.result, method, goal_of, ignore, Work(CPU, 1, Deadline(), self.stats))


def problems_of(question: Question) -> list[Problem]:
    """All disjuncts as the targets of one problem, as `reduce` makes them."""
    each = [rows_of(d, question.graph.output.size) for d in question.property.disjuncts]
    rows = targets_of([list(coef) for coef, _ in each], [list(offset) for _, offset in each])
    return [box_problem(question.graph, *question.box, rows)]


def truth(question: Question, tolerance: float = 1e-4) -> str:
    """proved, found, or a tie that no test should lean on."""
    graph = question.graph
    least = [
        enumerate_minimum(graph, *question.box, *rows_of(d, graph.output.size)).value
        for d in question.property.disjuncts
    ]
    if min(least) < -tolerance:
        return "found"
    return "proved" if min(least) > tolerance else "tie"


@functools.cache
def several() -> tuple[list[Problem], list[float]]:
    """Four boxes and three kinds of conjunctions on one network, and the least value of each target.

    Those of the second problem are seen to hold at once, the others are not.
    """
    graph = random_relus(5, (8, 6), 2)
    rng = np.random.default_rng(1)
    problems, least = [], []
    for k in range(4):
        low = rng.uniform(-1, 0, 2)
        high = low + rng.uniform(0.3, 1.0, 2)
        coefs = [[rng.normal(size=2) for _ in range(1 + k % 2)] for _ in range(1 + k % 3)]
        offsets = []
        for rows in coefs:
            value = enumerate_minimum(graph, low, high, np.array(rows), np.zeros(len(rows))).value
            least.append(3.0 if k == 1 else 0.03)
            offsets.append([value - least[-1]] * len(rows))
        problems.append(box_problem(graph, low, high, targets_of(coefs, offsets)))
    return problems, least
