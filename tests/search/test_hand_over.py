"""What input splitting leaves open is finished by splits on neurons."""

from __future__ import annotations

import time
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
from netproof.search.boxes import parts, remainder
from netproof.search.boxes.remainder import as_domains, hand_over
from netproof.search.evidence import Outcome
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Work
from support.awkward import GraphBuilder
from support.boxes import CPU, Run, deaf, ignore, several
from support.exact import enumerate_minimum
from support.looks import Looks
from support.problems import box_problem, packed_values, random_relus, targets_of


def tie() -> Problem:
    """y = relu(x) − relu(x) on [−1, 1], asked for y < 0: 0 everywhere, which rounding keeps from being proved."""
    build = GraphBuilder(1, 1)
    h = build.relu(build.linear(0, np.array([[1.0], [1.0]])))
    build.linear(h, np.array([[1.0, -1.0]]))
    return box_problem(build.finish(), -1.0, 1.0, targets_of([[[1.0]]], strict=True))


def test_what_splitting_cannot_decide_is_returned() -> None:
    """Neither proved nor dropped: a tie within rounding ends, and soon."""
    run = Run([tie()], replay=deaf)
    assert run.status == "undecided"
    assert len(run.result.open) > 0
    assert run.stats.domains < 2000
    assert -1e-9 < run.result.outcome.lower_bound <= 0


@pytest.mark.parametrize("together", [1024, 2])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_boxes_are_finished_under_one_root(seed: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two targets that hold, or one of them not, by a little; a limit leaves several boxes of each open."""
    monkeypatch.setattr(parts, "TOGETHER", together)
    graph, rng = random_relus(seed, (8, 6), 2), np.random.default_rng(seed)
    coefs = [[rng.normal(size=2)], [rng.normal(size=2), rng.normal(size=2)]]
    room = [0.02, 0.02 if seed % 2 else -0.02]
    ends = (np.full(2, -1.0), np.full(2, 1.0))
    least = [enumerate_minimum(graph, *ends, np.array(rows), np.zeros(len(rows))).value for rows in coefs]
    offsets = [[value - more] * len(rows) for value, more, rows in zip(least, room, coefs, strict=True)]
    problem = box_problem(graph, *ends, targets_of(coefs, offsets))
    run = Run([problem], replay=deaf, limit=24, samples=0)
    assert len(run.result.open) > 1
    outcome = run.finish()
    assert outcome.status == ("proved" if seed % 2 else "found")
    for bound, value in zip(outcome.bounds, room, strict=True):
        assert bound <= value + 1e-9
    if seed % 2:
        assert outcome.proved == (1, 1)


def violated() -> Problem:
    whole = several()[0][0]
    offset = whole.rows.offset + 1.0
    return Problem(whole.graph, whole.input_set, replace(whole.rows, offset=offset), whole.disjuncts)


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_what_is_stopped_half_way_has_the_bounds_of_what_was_not_searched(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deadline after some groups of two boxes: no bound is above that of a box that nobody searched.

    Those that come last are given worse bounds than those before, as a search of these might lift them.
    """
    monkeypatch.setattr(parts, "TOGETHER", 2)
    monkeypatch.setattr(remainder, "AGAIN", 0)
    problem, deadline, real, done = violated(), Deadline(), Search.run, []
    run = Run([problem], replay=deaf, limit=24, samples=0)
    worse = run.result.open.bound - torch.arange(len(run.result.open), dtype=torch.float64)
    assert len(worse) > 6

    def search(self: Search, rounds: int | None = None) -> Outcome:
        if len(done) == calls:
            deadline.cancel()
        done.append(self)
        return real(self, rounds)

    monkeypatch.setattr(Search, "run", search)
    method = build_method("lirpa", method_info("lirpa").options({"leaf_lp": "false"}), CPU)
    result, work = replace(run.result, open=replace(run.result.open, bound=worse)), Work(CPU, 1, deadline, Stats())
    outcome = hand_over(problem, result, method, lambda p: Decide(p, deaf), ignore, work)
    assert outcome.status == "timeout"
    assert len(done) == calls + 1
    left = worse[2 * (calls + 1) :]
    assert min(outcome.bounds) <= float(left.min())
    assert f"{len(left)} boxes not searched" in outcome.reason


def test_what_the_root_of_the_boxes_proves_is_proved_at_every_look() -> None:
    """It proves all that they leave, and the deadline comes after it or later: that is no timeout."""
    problem = violated()
    run = Run([problem], replay=deaf, limit=24, samples=0)
    easy = replace(problem, rows=replace(problem.rows, offset=problem.rows.offset - 50))
    method, statuses, looks = build_method("beta", method_info("beta").options({}), CPU), list[str](), 0
    deadline = Looks(-1)
    while deadline.left < 0:
        deadline = Looks(looks)
        work = Work(CPU, 1, deadline, Stats())
        outcome = hand_over(easy, run.result, method, lambda p: Decide(p, deaf), ignore, work)
        assert outcome.status == "proved" or max(outcome.bounds) < 0
        statuses.append(outcome.status)
        looks += 1
    assert statuses == sorted(statuses, reverse=True)  # "timeout", and from some look on "proved"


def test_seconds_of_a_hand_over_are_counted() -> None:
    problem = violated()
    run = Run([problem], replay=deaf, limit=24, samples=0)
    stats, began = Stats(), time.monotonic()
    method = build_method("lirpa", method_info("lirpa").options({"leaf_lp": "false"}), CPU)
    work = Work(CPU, 1, Deadline(1.0), stats)
    hand_over(problem, run.result, method, lambda p: Decide(p, deaf), ignore, work)
    spent = time.monotonic() - began
    assert stats.seconds["root"] > 0
    assert 0.5 * spent < sum(stats.seconds.values()) <= spent


def test_boxes_become_sub_domains_with_what_is_known_of_them() -> None:
    """Each keeps its box, its target, its share and its bound; its neurons are no wider than the root's, and hold."""
    whole = violated()
    problems = [whole]
    run = Run(problems, replay=deaf, limit=24, samples=0)
    (places,) = parts.together(run.result.open, whole.boxes.home)
    boxes = run.result.open.select(places)
    assert len(boxes) > 1
    shape = whole.graph.input.shape
    hull = InputSet(boxes.lower.amin(0).view(shape), boxes.upper.amax(0).view(shape))
    root = build_root(replace(whole, input_set=hull), CPU, Schedule(0), Deadline())
    assert root is not None
    made = as_domains(root, boxes, run.result.bounder, Work(CPU, 1, Deadline(), Stats()))
    assert torch.equal(made.inside[:, 0], boxes.lower)
    assert torch.equal(made.inside[:, 1], boxes.upper)
    for mine, given in ((made.target, boxes.target), (made.level, boxes.level), (made.bound, boxes.bound)):
        assert torch.equal(mine, given)
    low, high = root.packed_bounds
    assert bool((made.lower >= low).all() and (made.upper <= high).all())
    assert bool(((made.upper - made.lower) < (high - low)).any())
    share = torch.rand(200, 1, boxes.lower.shape[1], dtype=torch.float64)
    points = boxes.lower + share * (boxes.upper - boxes.lower)
    for i in range(len(boxes)):
        h = packed_values(root, points[:, i].view(-1, *shape))
        assert bool(((h >= made.lower[i]) & (h <= made.upper[i])).all())


def test_a_box_with_a_pinned_input_is_not_empty() -> None:
    """y = relu(x_0) − relu(x_1) + x_0 with x_1 = 1/2 reaches −3/2: nothing of it may be dropped."""
    build = GraphBuilder(1, 2)
    build.linear(build.concat(build.relu(0), 0), np.array([[1.0, -1.0, 1.0, 0.0]]))
    problem = box_problem(build.finish(), np.array([-1.0, 0.5]), np.array([1.0, 0.5]))
    run = Run([problem], replay=deaf, samples=0, limit=64)
    assert run.status == "undecided"
    assert len(run.result.open) > 0


def test_what_nothing_can_decide_stays_undecided() -> None:
    run = Run([tie()], replay=deaf, limit=0)
    assert len(run.result.open) > 0
    method = build_method("lirpa", method_info("lirpa").options(), CPU)
    work = Work(CPU, 1, Deadline(60.0), run.stats)
    outcome = hand_over(tie(), run.result, method, lambda p: Decide(p, deaf), ignore, work)
    assert (outcome.status, outcome.witness) == ("undecided", None)
    assert "within rounding" in outcome.reason  # it is told, not only missed


def test_every_box_adds_its_own_share_to_its_own_target() -> None:
    """Boxes of several problems, all halved before: together they are each target's whole set, once."""
    problems, least = several()
    run = Run(problems, replay=deaf, limit=8, samples=0)
    boxes = run.result.open
    assert set(run.homes) > {0}
    assert int(boxes.level.min()) > 0
    outcome = run.finish()
    assert outcome.proved == (1,) * len(least)
    for bound, value in zip(outcome.bounds, least, strict=True):
        assert 0 <= bound <= value + 1e-9  # 0 where clipping took a part off


def test_nothing_is_searched_after_a_witness() -> None:
    """The worst box holds a violation; those after it do not, and have no say."""
    both = [violated(), several()[0][0]]
    run = Run(both, replay=deaf, limit=0, samples=0)
    assert run.homes == [0, 1]
    outcome = run.finish()
    assert outcome.status == "found"
    assert outcome.witness is not None
    assert outcome.proved[0] < 1
    assert outcome.proved[1] == 0


def test_handing_over_past_the_deadline_says_what_is_open() -> None:
    run = Run([tie()], replay=deaf, limit=0)
    expired = Deadline()
    expired.cancel()
    method = build_method("lirpa", method_info("lirpa").options(), CPU)
    work = Work(CPU, 1, expired, run.stats)
    outcome = hand_over(tie(), run.result, method, lambda p: Decide(p, deaf), ignore, work)
    assert (outcome.status, outcome.witness) == ("timeout", None)
    assert str(len(run.result.open)) in outcome.reason


def test_boxes_that_lie_far_apart_do_not_spoil_each_other() -> None:
    """y = relu(K/2 − K|x|) + ||x| − 1| + m: boxes stay open near ±1, and rounding between them is more than m."""
    steep, margin = 2.0**30, 2.0**-20
    build = GraphBuilder(1, 1)
    size = build.relu(build.linear(0, np.array([[1.0], [-1.0]])))
    hill = np.array([[-steep, -steep], [1.0, 1.0], [-1.0, -1.0]])
    tent = build.relu(build.linear(size, hill, np.array([steep / 2, -1.0, 1.0])))
    build.linear(tent, np.ones((1, 3)), np.array([margin]))
    problem = box_problem(build.finish(), -2.0, 2.0)
    thin = torch.tensor([[-1.0 - 1e-9], [1.0 - 1e-9]], dtype=torch.float64)
    run = Run([problem], replay=deaf, limit=0, samples=0)
    one = run.result.open.select(torch.zeros(2, dtype=torch.int64))
    left = replace(one, lower=thin, upper=thin + 2e-9, level=one.level + 1)
    outcome = hand_over(
        problem,
        replace(run.result, open=left),
        build_method("beta", method_info("beta").options(), CPU),
        lambda p: Decide(p, deaf),
        ignore,
        Work(CPU, 1, Deadline(60.0), run.stats),
    )
    assert outcome.proved == (1,)
    assert outcome.reason == ""
