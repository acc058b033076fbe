"""What input splitting leaves open is finished by splits on neurons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.neurons.root import build_root
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.problem.problem import InputSet, Problem
from netproof.search.boxes.remainder import as_domains, hand_over
from netproof.search.goals import Decide
from netproof.search.method import Work
from support.awkward import GraphBuilder
from support.boxes import CPU, Run, deaf, ignore, problems_of, several, truth
from support.problems import box_problem, packed_values, targets_of
from support.random_graphs import random_question, seeded


def tie() -> Problem:
    """y = relu(x) − relu(x) on [−1, 1], asked for y < 0: 0 everywhere, which rounding keeps from being proved."""
    build = GraphBuilder(1, 1)
    h = build.relu(build.linear(0, np.array([[1.0], [1.0]])))
    build.linear(h, np.array([[1.0, -1.0]]))
    return box_problem(build.finish(), -1.0, 1.0, targets_of([[[1.0]]], strict=True))


def test_what_splitting_cannot_decide_is_returned() -> None:
    """Neither proved nor dropped: a tie within rounding ends, and soon."""
    run = Run([tie()], [Decide(tie(), deaf)])
    assert run.status == "undecided"
    assert len(run.result.open) > 0
    assert run.stats.domains < 2000
    assert -1e-9 < run.result.outcome.lower_bound <= 0


@pytest.mark.parametrize("seed", range(6))
def test_relu_splitting_finishes_every_box(seed: int) -> None:
    question = random_question(seeded(300 + seed), neurons=8, inputs=3)
    expected = truth(question)
    run = Run(problems_of(question), limit=0, samples=0)
    if run.status == "undecided":
        outcome = run.finish()
        if expected != "tie":
            assert outcome.status == expected
    elif expected != "tie":
        assert run.status == expected


def test_boxes_become_sub_domains_with_what_is_known_of_them() -> None:
    """Each keeps its box, its target, its share and its bound; its neurons are no wider than the root's, and hold."""
    whole = several()[0][0]
    offset = whole.rows.offset + 1.0  # violated, and nobody finds it: boxes stay open
    problems = [Problem(whole.graph, whole.input_set, replace(whole.rows, offset=offset), whole.disjuncts)]
    run = Run(problems, [Decide(p, deaf) for p in problems], limit=24, samples=0)
    ((index, places),) = run.result.open.together()
    boxes = run.result.open.select(places)
    assert len(boxes) > 1
    hull = InputSet(boxes.lower.amin(0), boxes.upper.amax(0))
    root = build_root(replace(problems[index], input_set=hull), CPU, Schedule(0), Deadline())
    assert root is not None
    made = as_domains(root, boxes, boxes.target, run.result.bounder, Work(CPU, 1, Deadline(), Stats()))
    assert torch.equal(made.inside[:, 0], boxes.lower.flatten(1))
    assert torch.equal(made.inside[:, 1], boxes.upper.flatten(1))
    for mine, given in ((made.target, boxes.target), (made.level, boxes.level), (made.bound, boxes.bound)):
        assert torch.equal(mine, given)
    whole = root.packed_bounds
    assert bool((made.lower >= whole.lower).all() and (made.upper <= whole.upper).all())
    assert bool(((made.upper - made.lower) < (whole.upper - whole.lower)).any())
    share = torch.rand(200, 1, *boxes.lower.shape[1:], dtype=torch.float64)
    points = boxes.lower + share * (boxes.upper - boxes.lower)
    for i in range(len(boxes)):
        h = packed_values(root, points[:, i])
        assert bool(((h >= made.lower[i]) & (h <= made.upper[i])).all())


def test_a_box_with_a_pinned_input_is_not_empty() -> None:
    """y = relu(x_0) − relu(x_1) + x_0 with x_1 = 1/2 reaches −3/2: nothing of it may be dropped."""
    build = GraphBuilder(1, 2)
    build.linear(build.concat(build.relu(0), 0), np.array([[1.0, -1.0, 1.0, 0.0]]))
    problem = box_problem(build.finish(), np.array([-1.0, 0.5]), np.array([1.0, 0.5]))
    run = Run([problem], [Decide(problem, deaf)], samples=0, limit=64)
    assert run.status == "undecided"
    assert len(run.result.open) > 0


def test_what_nothing_can_decide_stays_undecided() -> None:
    run = Run([tie()], [Decide(tie(), deaf)], limit=0)
    assert len(run.result.open) > 0
    method = build_method("lirpa", method_info("lirpa").options(), CPU)
    work = Work(CPU, 1, Deadline(60.0), run.stats)
    outcome = hand_over([tie()], run.left, method, lambda p: Decide(p, deaf), ignore, work)
    assert (outcome.status, outcome.witness) == ("undecided", None)
    assert "within rounding" in outcome.reason  # it is told, not only missed


def test_every_box_adds_its_own_share_to_its_own_target() -> None:
    """Boxes of several problems, all halved before: together they are each target's whole set, once."""
    problems, least = several()
    run = Run(problems, [Decide(p, deaf) for p in problems], limit=8, samples=0)
    boxes = run.result.open
    assert set(boxes.problem.tolist()) > {0}
    assert int(boxes.level.min()) > 0
    outcome = run.finish()
    assert outcome.proved == (1,) * len(least)
    for bound, value in zip(outcome.bounds, least, strict=True):
        assert 0 <= bound <= value + 1e-9  # 0 where clipping took a part off


def test_nothing_is_searched_after_a_witness() -> None:
    """The worst box holds a violation; those after it do not, and have no say."""
    whole = several()[0][0]
    offset = whole.rows.offset + 1.0
    violated = Problem(whole.graph, whole.input_set, replace(whole.rows, offset=offset), whole.disjuncts)
    run = Run([violated, whole], [Decide(p, deaf) for p in (violated, whole)], limit=0, samples=0)
    assert run.result.open.problem.tolist() == [0, 1]
    outcome = run.finish()
    assert outcome.status == "found"
    assert outcome.witness is not None
    assert outcome.proved == (0, 0)


def test_handing_over_past_the_deadline_says_what_is_open() -> None:
    run = Run([tie()], [Decide(tie(), deaf)], limit=0)
    expired = Deadline()
    expired.cancel()
    method = build_method("lirpa", method_info("lirpa").options(), CPU)
    work = Work(CPU, 1, expired, run.stats)
    outcome = hand_over([tie()], run.left, method, lambda p: Decide(p, deaf), ignore, work)
    assert (outcome.status, outcome.witness) == ("timeout", None)
    assert str(len(run.result.open)) in outcome.reason
