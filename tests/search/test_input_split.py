"""Input splitting: right answers, no violation lost, several problems at once, and what is left for ReLU splitting."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.boxes import BoxBounder
from netproof.build import build_method
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats, Witness
from netproof.errors import DeviceError, UsageError
from netproof.methods import method_info
from netproof.problem.problem import InputSet, Problem
from netproof.search.box_ledger import BoxLedger
from netproof.search.goals import Decide, Goal, Minimise
from netproof.search.hand_over import hand_over, sub_problem
from netproof.search.input_split import InputSplit, SplitOptions, SplitResult, applies
from netproof.search.loop import Outcome
from support.asking import knotted, sharpened
from support.awkward import GraphBuilder
from support.exact import enumerate_minimum, milp_minimum, rows_of
from support.problems import box_problem, random_relus, targets_of
from support.random_graphs import Question, random_question, seeded

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


def deaf(point: Tensor, target: int) -> Witness | None:
    """A replay that never finds anything, so that violations stay open."""
    return None


class Run:
    def __init__(
        self,
        problems: Sequence[Problem],
        goals: Sequence[Goal] | None = None,
        deadline: Deadline | None = None,
        device: torch.device = CPU,
        **options: Any,
    ) -> None:
        self.problems = problems
        self.goals = goals or [Decide(p, replay_of(p)) for p in problems]
        self.stats = Stats()
        self.reports: list[tuple[str, float, int]] = []
        self.search = InputSplit(
            problems,
            self.goals,
            device,
            deadline or Deadline(),
            self.stats,
            lambda *step: self.reports.append(step),
            SplitOptions(**{"batch": 16, "samples": 64, **options}),
        )
        self.result: SplitResult = self.search.run()

    @property
    def status(self) -> str:
        return self.result.outcome.status

    def finish(self) -> tuple[Outcome, Goal | None]:
        """What is open, by ReLU splitting."""
        method = build_method("lirpa", method_info("lirpa").options({"batch": "8"}), CPU)

        def goal_of(problem: Problem) -> Goal:
            return Decide(problem, replay_of(problem))

        return hand_over(self.problems, self.result.open, method, goal_of, CPU, 1, Deadline(), self.stats)


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


# --- the answers ---


@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_enumeration(seed: int) -> None:
    question = random_question(seeded(seed), neurons=8, inputs=3)
    expected = truth(question)
    run = Run(problems_of(question))
    status = run.finish()[0].status if run.status == "undecided" else run.status
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
        assert run.result.found == 0
        goal = run.goals[0]
        assert isinstance(goal, Decide)
        assert goal.witness is not None


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
        run = Run([problem], [Decide(problem, deaf)], limit=limit, sweeps=sweeps)
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
        bad = torch.tensor([worst(problem, x.view_as(problem.input_set.lower), t) <= 0 for x in points])
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
    run = Run([problem], [Decide(problem, deaf)], deadline=deadline)
    assert (run.status, left[0]) == ("timeout", 0)
    rng = torch.Generator().manual_seed(0)
    low, high = problem.input_set.lower.flatten(), problem.input_set.upper.flatten()
    points = low + torch.rand(2000, len(low), generator=rng, dtype=torch.float64) * (high - low)
    assert_open(problem, run.result, points)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_a_cut_off_search_hold(seed: int) -> None:
    question = knotted(seed)
    (problem,) = problems_of(question)
    run = Run([problem], [Decide(problem, deaf)], limit=30, samples=0)
    for t, disjunct in enumerate(question.property.disjuncts):
        least = milp_minimum(question.graph, *question.box, *rows_of(disjunct, question.graph.output.size)).value
        assert float(run.result.bounds[0][t]) <= least + 1e-6


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
    run = Run([problem], [goal])
    least = enumerate_minimum(graph, np.full(2, -1.0), np.full(2, 1.0), np.ones((1, 1)), np.zeros(1)).value
    assert run.status == "proved"
    assert run.result.outcome.lower_bound <= least + 1e-6
    assert run.result.outcome.lower_bound >= least - 1e-2
    assert float(goal.upper[0]) == pytest.approx(least, abs=1e-2)


# --- several problems at once ---


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


def test_problems_of_one_network_are_searched_at_once() -> None:
    problems, least = several()
    together = Run(problems)
    assert together.status == "proved"
    assert [len(b) for b in together.result.bounds] == [len(p.disjuncts) for p in problems]
    proved = torch.cat(together.result.bounds)
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
    assert (run.status, run.result.found) == ("found", 2)
    found = [goal.witness is not None for goal in run.goals if isinstance(goal, Decide)]
    assert found == [False, False, True, False]
    witness = run.goals[2].witness  # type: ignore[attr-defined]
    assert min(worst(broken, torch.from_numpy(witness.input), t) for t in range(len(broken.disjuncts))) <= 0


def test_a_first_pass_bounds_all_boxes_and_splits_none() -> None:
    problems, _ = several()
    run = Run(problems, limit=0)
    assert run.stats.domains == run.stats.rounds == 0
    assert {box.problem for box in run.result.open} == {0, 2, 3}
    assert 0 <= run.result.proved <= float(run.result.bounds[1].min())  # 0 is what clipping proves of its cuts
    assert bool((run.result.bounds[1] > 0).all())
    for box in run.result.open:
        inputs = problems[box.problem].input_set
        assert bool((box.lower >= inputs.lower).all())
        assert bool((box.upper <= inputs.upper).all())
        assert box.bound == float(run.result.bounds[box.problem][box.target]) <= 0
    assert run.finish()[0].status == "proved"


# --- what is left for ReLU splitting ---


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
        outcome, goal = run.finish()
        assert (goal is not None) == (outcome.status == "found")
        if expected != "tie":
            assert outcome.status == expected
    elif expected != "tie":
        assert run.status == expected


def test_a_sub_problem_is_the_box_with_its_target_alone() -> None:
    problems, _ = several()
    run = Run(problems, limit=0)
    for box in run.result.open:
        whole, sub = problems[box.problem], sub_problem(problems[box.problem], box)
        assert sub.disjuncts == (whole.disjuncts[box.target],)
        assert torch.equal(sub.input_set.lower, box.lower)
        assert bool(sub.rows.valid.all())
        valid = whole.rows.valid[box.target]
        assert torch.equal(sub.rows.coef[0], whole.rows.coef[box.target][valid])
        assert torch.equal(sub.rows.offset[0], whole.rows.offset[box.target][valid])


def test_handing_over_past_the_deadline_says_what_is_open() -> None:
    run = Run([tie()], [Decide(tie(), deaf)], limit=0)
    expired = Deadline()
    expired.cancel()
    method = build_method("lirpa", method_info("lirpa").options(), CPU)
    outcome, goal = hand_over([tie()], run.result.open, method, lambda p: Decide(p, deaf), CPU, 1, expired, run.stats)
    assert (outcome.status, goal) == ("timeout", None)
    assert str(len(run.result.open)) in outcome.reason


# --- how it runs ---


def numbers(run: Run) -> tuple[object, ...]:
    bounds = [b.tolist() for b in run.result.bounds]
    return run.result.outcome, bounds, run.stats.domains, run.stats.rounds, run.reports


def test_the_same_search_twice_is_the_same_search() -> None:
    problems, _ = several()
    assert numbers(Run(problems)) == numbers(Run(problems))


@pytest.mark.parametrize("batch", [1, 4, 64])
def test_any_batch_will_do(batch: int) -> None:
    question = sharpened(knotted(3), [Fraction(1, 50)])
    run = Run(problems_of(question), batch=batch)
    assert run.status == "proved"
    assert run.stats.rounds >= 1
    assert [step[0] for step in run.reports[:2]] == ["root", "search"]


def test_an_expired_deadline_leaves_everything_open() -> None:
    problems, _ = several()
    expired = Deadline()
    expired.cancel()
    run = Run(problems, deadline=expired)
    assert run.status == "timeout"
    assert len(run.result.open) == sum(len(p.disjuncts) for p in problems)
    assert run.result.outcome.lower_bound == float("-inf")


def test_a_full_device_halves_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    problems, _ = several()
    expected = Run(problems).status
    inner, sizes = BoxBounder.bound, []

    def narrow(self: BoxBounder, lower: Tensor, *rest: Any, **more: Any) -> Any:
        sizes.append(len(lower))
        if len(lower) > 3:
            raise torch.OutOfMemoryError("a full device")
        return inner(self, lower, *rest, **more)

    monkeypatch.setattr(BoxBounder, "bound", narrow)
    assert Run(problems).status == expected
    assert max(sizes) > 3
    assert sum(n > 3 for n in sizes) < sum(n <= 3 for n in sizes)


def test_a_device_too_small_for_one_box_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **more: Any) -> Any:
        raise torch.OutOfMemoryError("a full device")

    monkeypatch.setattr(BoxBounder, "bound", full)
    with pytest.raises(DeviceError, match="one box"):
        Run(several()[0])


def test_a_crowded_frontier_is_searched_depth_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netproof.search.input_split.domains_that_fit", lambda each, device: (None, 2))
    question = sharpened(knotted(3), [Fraction(1, 50)])
    assert Run(problems_of(question), batch=2).status == "proved"


def test_balls_and_other_networks_are_refused() -> None:
    problems, _ = several()
    inputs = problems[0].input_set
    ball = InputSet(inputs.lower, inputs.upper, inputs.lower / 2 + inputs.upper / 2, 0.1, 2)
    round_set = Problem(problems[0].graph, ball, problems[0].rows, problems[0].disjuncts)
    other = box_problem(random_relus(1, (3,), 2), -1.0, 1.0)
    assert applies(problems)
    for bad in ([round_set], [problems[0], other]):
        assert not applies(bad)
        with pytest.raises(UsageError):
            Run(bad)


def test_a_row_that_must_be_below_is_excluded_on_the_threshold() -> None:
    problem = box_problem(random_relus(1, (3,), 1), -1.0, 1.0, targets_of([[[1.0], [1.0]]]))
    strict = Problem(problem.graph, problem.input_set, targets_of([[[1.0], [1.0]]], strict=True), (0,))
    least = torch.tensor([[0.0, -1.0, -1.0], [-1.0, -1.0, 0.0], [1e-300, -1.0, -1.0]], dtype=torch.float64)
    target = torch.zeros(3, dtype=torch.int64)
    for asked, expected in ((problem, [False, False, True]), (strict, [True, False, True])):
        ledger = BoxLedger([asked], [Decide(asked, deaf)], CPU)
        assert ledger.decided(least, target).tolist() == expected


@pytest.mark.gpu
def test_a_gpu_gives_the_same_answers() -> None:
    problems, _ = several()
    there, here = Run(problems, device=torch.device("cuda")), Run(problems)
    assert there.status == here.status == "proved"
    assert numbers(there) == numbers(Run(problems, device=torch.device("cuda")))


def test_a_graph_without_neurons_is_decided_at_the_root() -> None:
    build = GraphBuilder(1, 2)
    build.linear(0, np.array([[1.0, -1.0]]), np.array([2.5]))
    run = Run([box_problem(build.finish(), -1.0, 1.0)])
    assert (run.status, run.result.outcome.decided_by) == ("proved", "root")
    assert run.result.outcome.lower_bound == pytest.approx(0.5)
