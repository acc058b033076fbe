"""Input splitting: right answers, no violation lost, and several problems at once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.boxes.bounder import BoxBounder
from netproof.core.deadline import Deadline
from netproof.problem.problem import Problem
from netproof.search.boxes.loop import SplitResult
from netproof.search.goals import Minimise
from support.asking import knotted, sharpened, worst_row
from support.awkward import GraphBuilder
from support.boxes import Run, deaf, problems_of, several, truth, worst
from support.exact import enumerate_minimum, milp_minimum, rows_of
from support.problems import box_problem, random_relus, targets_of
from support.random_graphs import random_question, seeded

# --- the answers ---


@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_enumeration(seed: int) -> None:
    question = random_question(seeded(seed), neurons=8, inputs=3)
    expected = truth(question)
    run = Run(problems_of(question))
    status = run.finish().status if run.status == "undecided" else run.status
    if expected != "tie":
        assert status == expected
    assert run.status != "timeout"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("margin", [0.02, -0.02])
def test_it_splits_until_little_room_decides(seed: int, margin: float) -> None:
    """Most neurons are unstable at the root, and the least value is a fiftieth above 0 or below it."""
    question = sharpened(knotted(seed), [Fraction(margin).limit_denominator(100)])
    run = Run(problems_of(question))
    assert run.status == ("proved" if margin > 0 else "found")
    if margin > 0:
        assert 0 <= run.result.outcome.lower_bound <= margin + 1e-6
        assert len(run.result.open) == 0
    else:
        assert run.goal.witness is not None


@pytest.mark.parametrize("sweeps", [0, 2])
@pytest.mark.parametrize("seed", range(6))
def test_no_violation_is_lost_on_the_way(seed: int, sweeps: int) -> None:
    """With a replay that is deaf, every violation must lie in a box that is still open, however long the search ran."""
    question = sharpened(knotted(seed), [Fraction(-1, 5)])
    (problem,) = problems_of(question)
    low, high = problem.input_set.lower.flatten(), problem.input_set.upper.flatten()
    rng = torch.Generator().manual_seed(seed)
    points = low + torch.rand(4000, len(low), generator=rng, dtype=torch.float64) * (high - low)
    for limit in (0, 20, 200):
        run = Run([problem], replay=deaf, limit=limit, sweeps=sweeps)
        assert run.status == "undecided"
        outside = assert_open(problem, run.result, points)
    assert outside > 0  # it does get somewhere


def assert_open(problem: Problem, result: SplitResult, points: Tensor) -> int:
    """Every point (n, input) that violates a target lies in a box still open for it; how many lie in none."""
    lower, upper = result.open.lower.flatten(1), result.open.upper.flatten(1)
    outside = 0
    for t in range(len(problem.disjuncts)):
        mine = result.open.target == t
        inside = ((points[:, None] >= lower[mine]) & (points[:, None] <= upper[mine])).all(2).any(1)
        bad = worst_row(problem, points.reshape(-1, *problem.input_set.lower.shape), t) <= 0
        assert bool(bad.any())
        assert bool(inside[bad].all())
        outside += int((~inside).sum())
    return outside


@pytest.mark.parametrize("calls", [1, 3, 6, 7])
def test_a_deadline_in_the_middle_of_a_round_loses_nothing(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = problems_of(sharpened(knotted(2), [Fraction(-1, 5)]))
    inner, deadline, left = BoxBounder.bound, Deadline(), [calls]

    def late(self: BoxBounder, *rest: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            deadline.cancel()
        return inner(self, *rest, **more)

    monkeypatch.setattr(BoxBounder, "bound", late)
    monkeypatch.setattr(BoxBounder, "boxes_that_fit", lambda self: 3)  # several parts a round
    run = Run([problem], replay=deaf, deadline=deadline)
    assert (run.status, left[0]) == ("timeout", 0)
    rng = torch.Generator().manual_seed(0)
    low, high = problem.input_set.lower.flatten(), problem.input_set.upper.flatten()
    points = low + torch.rand(2000, len(low), generator=rng, dtype=torch.float64) * (high - low)
    assert_open(problem, run.result, points)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_a_cut_off_search_hold(seed: int) -> None:
    question = knotted(seed)
    (problem,) = problems_of(question)
    run = Run([problem], replay=deaf, limit=30, samples=0)
    for t, disjunct in enumerate(question.property.disjuncts):
        least = milp_minimum(question.graph, *question.box, *rows_of(disjunct, question.graph.output.size)).value
        assert float(run.bounds[0][t]) <= least + 1e-6


def test_a_conjunction_that_no_single_row_excludes() -> None:
    """x <= 0 and −x + 0.1 <= 0 on [−1, 1]: each row alone is violated somewhere, both together nowhere."""
    build = GraphBuilder(1, 1)
    build.linear(build.relu(build.linear(0, np.array([[1.0], [-1.0]]))), np.array([[1.0, -1.0]]))
    rows = targets_of([[[1.0], [-1.0]]], [[0.0, -0.1]])
    run = Run([box_problem(build.finish(), -1.0, 1.0, rows)])
    assert run.status == "proved"


def test_a_flat_network_is_sampled_where_its_violations_are() -> None:
    """y = 1 − 100·relu(x_0 + x_1 − 1.98): flat nearly everywhere, violated in one corner only."""
    build = GraphBuilder(1, 2)
    h = build.relu(build.linear(0, np.array([[1.0, 1.0]]), np.array([-1.98])))
    build.linear(h, np.array([[-100.0]]), np.array([1.0]))
    run = Run([box_problem(build.finish(), -1.0, 1.0)], samples=64, limit=1)
    assert run.status == "found"
    assert run.stats.domains == 0


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_a_minimum(seed: int) -> None:
    graph = random_relus(seed, (5, 4), 1)
    problem = box_problem(graph, -1.0, 1.0)
    goal = Minimise(problem, 1e-3)
    run = Run([problem], goal)
    least = enumerate_minimum(graph, np.full(2, -1.0), np.full(2, 1.0), np.ones((1, 1)), np.zeros(1)).value
    assert run.status == "proved"
    assert run.result.outcome.lower_bound <= least + 1e-6
    assert run.result.outcome.lower_bound >= least - 1e-2
    assert float(goal.upper[0]) == pytest.approx(least, abs=1e-2)


# --- several problems at once ---


def test_problems_of_one_network_are_searched_at_once() -> None:
    problems, least = several()
    together = Run(problems)
    assert together.status == "proved"
    assert [len(b) for b in together.bounds] == [len(p.disjuncts) for p in problems]
    proved = torch.cat(together.bounds)
    assert bool((proved >= 0).all())
    assert bool((proved <= torch.tensor(least) + 1e-6).all())
    assert all(Run([p]).status == "proved" for p in problems)
    assert together.stats.rounds < sum(Run([p]).stats.rounds for p in problems)


def test_the_witness_is_that_of_the_problem_which_has_one() -> None:
    problems, _ = several()
    rows = problems[2].rows
    broken = Problem(
        problems[2].graph,
        problems[2].input_set,
        type(rows)(rows.coef, rows.offset + 0.06, rows.strict, rows.valid),
        problems[2].disjuncts,
    )
    run = Run([problems[0], problems[1], broken, problems[3]])
    witness = run.goal.witness
    assert (run.status, run.result.outcome.witness) == ("found", witness)
    assert witness is not None
    assert min(worst(broken, torch.from_numpy(witness.input), t) for t in range(len(broken.disjuncts))) <= 0


def test_a_first_pass_bounds_all_boxes_and_splits_none() -> None:
    problems, _ = several()
    run = Run(problems, limit=0)
    assert run.stats.domains == run.stats.rounds == 0
    assert set(run.homes) == {0, 2, 3}
    assert 0 <= min(run.result.least) <= float(run.bounds[1].min())  # 0 is what clipping proves of its cuts
    assert bool((run.bounds[1] > 0).all())
    left = run.result.open
    for i, (home, target) in enumerate(zip(run.homes, left.target.tolist(), strict=True)):
        inputs = problems[home].input_set
        assert bool((left.lower[i] >= inputs.lower.flatten()).all())
        assert bool((left.upper[i] <= inputs.upper.flatten()).all())
        assert float(left.bound[i]) == run.result.outcome.bounds[target] <= 0
    assert run.finish().status == "proved"
