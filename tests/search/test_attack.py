"""The attack on large questions: some of many targets, points by parts, the deadline between any two steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.core.deadline import Deadline
from netproof.core.verdict import Witness
from netproof.problem.problem import Problem
from netproof.search import attack
from netproof.search.attack import QUICK, Pgd, Seen, Slope
from netproof.search.goals import Decide
from support.awkward import GraphBuilder
from support.problems import box_problem, targets_of

CPU = torch.device("cpu")
MANY = 40


def refuse(point: Tensor, target: int) -> Witness | None:
    return None


def many_targets() -> Problem:
    """Targets whose rows are x + their number on [−1, 1]: the lower the number, the nearer; in no order."""
    order = [(7 * k) % MANY for k in range(MANY)]
    build = GraphBuilder(1, 1)
    build.linear(0, np.eye(1), np.zeros(1))
    return box_problem(build.finish(), -1.0, 1.0, targets_of([[[1.0]]] * MANY, [[-2.0 - k] for k in order]))


def seen_of(problem: Problem) -> list[int]:
    goal = Decide(problem, refuse)
    assert not QUICK.find(problem, goal, CPU, 0, Deadline())
    return goal.upper.isfinite().nonzero()[:, 0].tolist()


def test_all_targets_of_a_small_network_are_attacked() -> None:
    assert seen_of(many_targets()) == list(range(MANY))


def test_of_many_targets_of_a_large_network_the_nearest_are_attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "ALL_TARGETS", 0)
    problem = many_targets()
    nearest = problem.rows.offset[:, 0].argsort(descending=True)[: QUICK.points // attack.FEWEST]
    assert seen_of(problem) == sorted(nearest.tolist())


def test_points_by_parts_see_what_all_at_once_see(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = many_targets()
    whole, parts = Decide(problem, refuse), Decide(problem, refuse)
    Pgd(steps=3).find(problem, whole, CPU, 0, Deadline())
    sizes: list[int] = []
    at = Slope.at

    def noted(self: Slope, x: Tensor) -> tuple[Seen, Tensor]:
        sizes.append(len(x))
        return at(self, x)

    monkeypatch.setattr(Slope, "at", noted)
    monkeypatch.setattr(attack, "points_that_fit", lambda *_: 7)
    Pgd(steps=3).find(problem, parts, CPU, 0, Deadline())
    assert max(sizes) == 7
    assert torch.equal(whole.upper, parts.upper)


def test_the_deadline_is_looked_at_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """It expires in the third step, after which there is no look for a witness."""
    problem, deadline, steps, at = many_targets(), Deadline(), [], Slope.at

    def slow(self: Slope, x: Tensor) -> tuple[Seen, Tensor]:
        steps.append(len(x))
        if len(steps) == 3:
            deadline.cancel()
        return at(self, x)

    monkeypatch.setattr(Slope, "at", slow)
    goal = Decide(problem, refuse)
    assert not Pgd().find(problem, goal, CPU, 0, deadline)
    assert len(steps) == 3
    assert bool(goal.upper.isfinite().all())
