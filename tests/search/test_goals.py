"""Goals: only a replay makes a witness, and upper bounds come from points that were evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.linear.region import Region
from netproof.core.deadline import Deadline
from netproof.core.verdict import Witness
from netproof.model.affine import Linear
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet, Problem
from netproof.search.attack import QUICK, Pgd
from netproof.search.goals import TRIES, Decide, Judge, Minimise
from support.awkward import GraphBuilder
from support.problems import box_problem, plain_domains, random_points, targets_of
from support.rational import exact, exact_values

CPU = torch.device("cpu")


def identity(size: int = 1) -> Graph:
    build = GraphBuilder(1, size)
    build.linear(0, np.eye(size), np.zeros(size))
    return build.finish()


def judge_of(problem: Problem) -> Judge:
    return Judge(problem.graph.to(CPU, torch.float32), problem.rows)


def accept(point: Tensor, target: int) -> Witness:
    return Witness(point.numpy().copy(), np.array([target]))


def refuse(point: Tensor, target: int) -> None:
    return None


class Replays:
    """Remembers what it was asked; answers with `accepts`."""

    def __init__(self, accepts: Callable[[Tensor], bool] = lambda point: False) -> None:
        self.asked: list[tuple[list[float], int]] = []
        self._accepts = accepts

    def __call__(self, point: Tensor, target: int) -> Witness | None:
        self.asked.append((point.flatten().tolist(), target))
        return accept(point, target) if self._accepts(point) else None


def column(*values: float) -> Tensor:
    return torch.tensor(values).view(-1, 1, 1)


def zeros(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.int64)


# --- Decide ---


def test_a_point_that_the_replay_refuses_is_no_witness() -> None:
    problem = box_problem(identity(), -1.0, 1.0)
    goal = Decide(problem, refuse)
    assert not goal.offer(judge_of(problem), column(-1.0, -0.5), zeros(2))
    assert goal.witness is None
    assert float(goal.upper) == -1.0  # it was evaluated all the same


def test_the_replays_word_is_the_witness() -> None:
    problem = box_problem(identity(), -1.0, 1.0)
    replays = Replays(lambda point: float(point) == -0.5)
    goal = Decide(problem, replays)
    assert goal.offer(judge_of(problem), column(0.5, -0.5, -1.0), zeros(3))
    assert goal.witness is not None
    assert goal.witness.input.item() == -0.5
    assert replays.asked == [([-1.0], 0), ([-0.5], 0)]  # best first


def test_after_a_witness_no_point_has_a_say() -> None:
    """Neither one that would be refused, nor a worse violation, nor none at all."""
    problem = box_problem(identity(), -1.0, 1.0)
    replays = Replays(lambda point: float(point) == -0.5)
    goal = Decide(problem, replays)
    judge, target = judge_of(problem), torch.tensor([0])
    assert goal.offer(judge, column(-0.5), target)
    first = goal.witness
    for points in (column(-0.5), column(-1.0), column(1.0), torch.zeros(0, 1, 1)):
        assert goal.offer(judge, points, target[: len(points)])
        assert goal.consider(judge, points, points, target[: len(points)])
        assert goal.witness is first
    assert len(replays.asked) == 1


def test_points_that_are_clearly_good_are_not_replayed() -> None:
    problem = box_problem(identity(), -1.0, 1.0)
    replays = Replays(lambda point: True)
    goal = Decide(problem, replays)
    assert not goal.offer(judge_of(problem), column(0.5, 1.0), zeros(2))
    assert not replays.asked
    assert float(goal.upper) == 0.5


def test_a_tie_up_to_rounding_is_replayed() -> None:
    problem = box_problem(identity(), -1.0, 1.0)
    replays = Replays(lambda point: True)
    assert Decide(problem, replays).offer(judge_of(problem), column(1e-7), zeros(1))
    assert len(replays.asked) == 1


def test_no_more_than_a_few_replays_a_batch() -> None:
    problem = box_problem(identity(), -1.0, 1.0)
    replays = Replays()
    Decide(problem, replays).offer(judge_of(problem), -torch.rand(50, 1, 1), zeros(50))
    assert len(replays.asked) == TRIES
    assert [p for p, _ in replays.asked] == sorted(p for p, _ in replays.asked)


def test_no_points_decide_nothing() -> None:
    problem = box_problem(identity(), -1.0, 1.0)
    goal = Decide(problem, accept)
    assert not goal.offer(judge_of(problem), torch.zeros(0, 1, 1), zeros(0))
    assert goal.witness is None


def test_a_conjunction_is_as_good_as_its_best_row() -> None:
    """y0 <= 0 and y1 <= 0: a point is a violation when the larger of both is not positive."""
    rows = targets_of([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]])
    problem = box_problem(identity(2), -1.0, 1.0, rows)
    replays = Replays(lambda point: True)
    goal = Decide(problem, replays)
    mixed = torch.tensor([[[-1.0, 0.5]], [[0.25, -1.0]]])
    assert not goal.offer(judge_of(problem), mixed, zeros(2))
    assert goal.upper.tolist() == [0.25, float("inf")]
    assert not replays.asked
    assert goal.offer(judge_of(problem), mixed, torch.tensor([0, 0])) is False
    assert goal.offer(judge_of(problem), mixed[:1], torch.tensor([1]))  # of one row: y0 alone
    assert goal.upper.tolist() == [0.25, -1.0]


def test_offsets_are_taken_off() -> None:
    problem = box_problem(identity(), -1.0, 1.0, targets_of([[[2.0]]], [[1.0]]))  # 2·y <= 1
    goal = Decide(problem, refuse)
    goal.offer(judge_of(problem), column(0.75, 1.0), zeros(2))
    assert float(goal.upper) == 0.5


@pytest.mark.parametrize(("strict", "proved"), [(False, [False, False, True]), (True, [False, True, True])])
def test_a_bound_of_zero_proves_only_strict_violations_away(strict: bool, proved: list[bool]) -> None:
    """y < 0 is excluded by y >= 0; y <= 0 is not."""
    problem = box_problem(identity(), -1.0, 1.0, targets_of([[[1.0]]], strict=strict))
    bound = torch.tensor([-1e-300, 0.0, 1e-300], dtype=torch.float64)
    domains = replace(plain_domains(3, 1), target=zeros(3), bound=bound)
    assert Decide(problem, refuse).proved(domains).tolist() == proved


def test_strictness_must_be_of_every_row() -> None:
    rows = targets_of([[[1.0], [2.0]], [[1.0]]], strict=True)
    rows.strict[0, 1] = False
    problem = box_problem(identity(), -1.0, 1.0, rows)
    domains = replace(plain_domains(2, 1), bound=torch.zeros(2, dtype=torch.float64))
    assert Decide(problem, refuse).proved(domains).tolist() == [False, True]


def test_a_nan_proves_nothing() -> None:
    problem = box_problem(identity(), -1.0, 1.0)
    domains = replace(plain_domains(1, 1), bound=torch.tensor([float("nan")], dtype=torch.float64))
    assert not bool(Decide(problem, refuse).proved(domains).any())


# --- Minimise ---


def hinge_problem() -> Problem:
    """relu(x/3) on [−1, 1], below and (as −y) above."""
    build = GraphBuilder(1, 1)
    build.linear(build.relu(build.linear(0, np.array([[1 / 3]]), np.zeros(1))), np.array([[1.1]]), np.array([0.1]))
    return box_problem(build.finish(), -1.0, 1.0, targets_of([[[1.0]], [[-1.0]]]))


def test_upper_bounds_are_not_below_exact_values() -> None:
    problem = hinge_problem()
    goal = Minimise(problem, 1e-6)
    points = random_points(problem, 20).float()
    for i in range(10):
        goal.offer(judge_of(problem), points[2 * i : 2 * i + 2], torch.tensor([0, 1]))
    values = [exact_values(problem.graph, exact(p))[-1][0] for p in points]
    least = min(values[0::2])
    most = min(-v for v in values[1::2])
    assert Fraction(float(goal.upper[0])) >= least
    assert Fraction(float(goal.upper[1])) >= most
    assert float(goal.upper[0]) == pytest.approx(float(least), rel=1e-9)
    assert float(goal.upper[1]) == pytest.approx(float(most), rel=1e-9)


def test_thresholds_follow_the_least_value_seen() -> None:
    problem = hinge_problem()
    goal = Minimise(problem, 1e-3)
    assert goal.thresholds(torch.tensor([0, 1])).tolist() == [float("inf")] * 2
    goal.offer(judge_of(problem), column(1.0), zeros(1))
    seen = float(goal.upper[0])
    assert goal.thresholds(zeros(1)).tolist() == pytest.approx([seen - 1e-3 * (1 + seen)])
    goal.offer(judge_of(problem), column(-1.0), zeros(1))
    assert float(goal.upper[0]) == pytest.approx(0.1)
    assert goal.thresholds(torch.tensor([1])).tolist() == [float("inf")]


def test_a_point_outside_the_box_is_moved_in_before_it_counts() -> None:
    problem = box_problem(identity(), -1.0, 1.0)
    goal = Minimise(problem, 1e-6)
    goal.offer(judge_of(problem), column(-5.0), zeros(1))
    assert float(goal.upper) == pytest.approx(-1.0)


@pytest.mark.parametrize("p", [1, 2])
def test_a_point_outside_the_ball_does_not_count_as_it_is(p: int) -> None:
    """The corner (−1, −1) of the box is not in the unit ball; the least of x + y there is −1 or −√2."""
    graph = identity(2)
    box = box_problem(graph, -1.0, 1.0, targets_of([[[1.0, 1.0]]]))
    ball = InputSet(box.input_set.lower, box.input_set.upper, torch.zeros(1, 2, dtype=torch.float64), 1.0, p)
    problem = replace(box, input_set=ball)
    goal = Minimise(problem, 1e-6)
    goal.offer(judge_of(problem), torch.tensor([[[-1.0, -1.0]]]), zeros(1))
    least = -1.0 if p == 1 else -(2**0.5)
    assert least <= float(goal.upper) <= least + 1e-6


def test_a_ball_whose_centre_the_box_cuts_off() -> None:
    """Clipping (0, −1) into x >= 0.9 gives (0.9, −1), which is not in the unit ball; (0.9, −√0.19) is."""
    low, high = (torch.tensor([v], dtype=torch.float64) for v in ([0.9, -2.0], [2.0, 2.0]))
    inputs = InputSet(low, high, torch.zeros(1, 2, dtype=torch.float64), 1.0, 2)
    problem = Problem(identity(2), inputs, targets_of([[[0.0, 1.0]]]), (0,))
    goal = Minimise(problem, 1e-6)
    goal.offer(judge_of(problem), torch.tensor([[[0.0, -1.0]]]), zeros(1))
    assert float(goal.upper) == pytest.approx(-(0.19**0.5), abs=1e-6)
    assert float(goal.upper) >= -(0.19**0.5)
    far = Problem(problem.graph, replace(inputs, radius=0.5), problem.rows, (0,))  # the ball misses the box
    goal = Minimise(far, 1e-6)
    goal.offer(judge_of(far), torch.tensor([[[0.9, 0.0]]]), zeros(1))
    assert float(goal.upper) == float("inf")


# --- the attack ---


def watched(graph: Graph, kind: type[Linear]) -> Graph:
    """The same one-layer network, whose float32 copy is of the class `kind`."""
    single = graph.to(CPU, torch.float32)
    op = single.output.op
    assert isinstance(op, Linear)
    graph._copies[CPU, torch.float32] = Graph((single.input, replace(single.output, op=kind(op.weight, op.bias))))
    return graph


def attacked(problem: Problem, accepts: Callable[[Tensor], bool], seed: int = 0) -> tuple[bool, Decide, Replays]:
    replays = Replays(accepts)
    goal = Decide(problem, replays)
    found = Pgd().find(problem, goal, CPU, seed, Deadline())
    assert found == (goal.witness is not None)
    return found, goal, replays


def test_a_planted_counterexample_is_found() -> None:
    """|x − 0.3| summed over 8 inputs is below 0.1 only near one point."""
    build = GraphBuilder(1, 8)
    both = np.vstack([np.eye(8), -np.eye(8)])
    h = build.relu(build.linear(0, both, -0.3 * both.sum(1)))
    build.linear(h, np.ones((1, 16)), np.array([-0.5]))
    problem = box_problem(build.finish(), -1.0, 1.0)
    found, goal, _ = attacked(problem, lambda x: float((x.double() - 0.3).abs().sum()) <= 0.5)
    assert found
    assert goal.witness is not None
    assert np.abs(goal.witness.input - 0.3).sum() <= 0.5


@pytest.mark.parametrize("size", [2, 6, 12])
def test_a_tie_that_only_corners_reach_is_found(size: int) -> None:
    """min over x in [0, 1]^n of 1 − mean of |2x − 1| is exactly 0, at the corners."""
    build = GraphBuilder(1, size)
    both = np.vstack([2 * np.eye(size), -2 * np.eye(size)])
    h = build.relu(build.linear(0, both, np.concatenate([-np.ones(size), np.ones(size)])))
    build.linear(h, np.full((1, 2 * size), -1.0), np.array([float(size)]))
    problem = box_problem(build.finish(), 0.0, 1.0)
    found, goal, _ = attacked(problem, lambda x: bool(((x == 0) | (x == 1)).all()))
    assert found
    assert float(goal.upper) == 0.0


def test_every_target_is_attacked() -> None:
    """Only target 2 can be violated."""
    rows = targets_of([[[1.0]], [[1.0]], [[-1.0]]], [[-2.0], [-1.5], [-0.99]])
    problem = box_problem(identity(), -1.0, 1.0, rows)
    found, goal, replays = attacked(problem, lambda x: float(x) >= 0.99)
    assert found
    assert {target for _, target in replays.asked} == {2}
    assert goal.upper.tolist()[:2] == pytest.approx([1.0, 0.5])


def test_only_the_wanted_targets_are_attacked() -> None:
    rows = targets_of([[[1.0]], [[-1.0]], [[1.0]]], [[-2.0], [-1.5], [-3.0]])
    problem = box_problem(identity(), -1.0, 1.0, rows)
    goal = Decide(problem, refuse)
    assert not Pgd().find(problem, goal, CPU, 0, Deadline(), targets=[1])
    assert goal.upper.tolist() == [float("inf"), 0.5, float("inf")]


@pytest.mark.parametrize("attack", [QUICK, Pgd(), Pgd(steps=1), Pgd(steps=6)])
def test_every_step_counts(attack: Pgd) -> None:
    """The least value of all points that the attack came through is known in the end, the last one's too."""
    seen: list[Tensor] = []

    class Watching(Linear):
        def forward(self, *xs: Tensor) -> Tensor:
            y = super().forward(*xs)
            seen.append(y.flatten())
            return y

    build = GraphBuilder(1, 3)
    build.linear(0, np.array([[1.0, -2.0, 0.5]]), np.zeros(1))
    problem = box_problem(watched(build.finish(), Watching), -1.0, 2.0, targets_of([[[1.0]]], [[-100.0]]))
    goal = Decide(problem, refuse)
    assert not attack.find(problem, goal, CPU, 0, Deadline())
    assert float(goal.upper) == float(torch.cat(seen).min()) + 100.0


def test_a_conjunction_is_attacked_as_a_whole() -> None:
    """y0 <= −0.5 and y1 <= −0.5 with y = x: each alone is easy, both are in one corner of four."""
    rows = targets_of([[[1.0, 0.0], [0.0, 1.0]]], [[-0.5, -0.5]])
    problem = box_problem(identity(2), -1.0, 1.0, rows)
    found, goal, _ = attacked(problem, lambda x: bool((x <= -0.5).all()))
    assert found
    assert float(goal.upper) <= 0.0


def test_what_cannot_be_violated_is_not() -> None:
    problem = box_problem(identity(), 0.5, 1.0)
    found, goal, replays = attacked(problem, lambda x: True)
    assert not found
    assert not replays.asked
    assert float(goal.upper) == 0.5


def test_a_constant_network_is_no_trouble() -> None:
    build = GraphBuilder(1, 2)
    build.linear(0, np.zeros((1, 2)), np.array([1.0]))
    found, goal, _ = attacked(box_problem(build.finish(), -1.0, 1.0), lambda x: True)
    assert not found
    assert float(goal.upper) == 1.0


def test_the_seed_decides_the_points() -> None:
    build = GraphBuilder(1, 30)
    h = build.relu(build.linear(0, np.random.default_rng(0).standard_normal((8, 30)), np.zeros(8)))
    build.linear(h, -np.ones((1, 8)), np.array([4.0]))  # not violated at the centre
    problem = box_problem(build.finish(), -1.0, 1.0)
    runs = [attacked(problem, lambda x: True, seed)[2].asked for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_the_attack_starts_at_the_centre_at_corners_and_elsewhere() -> None:
    """Watched through a network that is its input, on which nothing is a violation."""
    starts: list[Tensor] = []

    class Watching(Linear):
        def forward(self, *xs: Tensor) -> Tensor:
            starts.append(xs[0].clone())
            return super().forward(*xs)

    rows = targets_of([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
    problem = box_problem(watched(identity(3), Watching), 1.0, 2.0, rows)
    Pgd().find(problem, Decide(problem, refuse), CPU, 0, Deadline(0.0))
    for points in starts[0].chunk(2):  # by target
        corners = ((points == 1) | (points == 2)).flatten(1).all(1)
        assert bool((points[0] == 1.5).all())
        assert 0.4 <= float(corners.float().mean()) <= 0.6
        assert bool(((points >= 1) & (points <= 2)).all())


def test_an_expired_deadline_ends_the_attack() -> None:
    calls = []
    problem = box_problem(identity(), 0.5, 1.0)

    class Counting(Decide):
        def consider(self, judge: Judge, points: Tensor, y: Tensor, target: Tensor) -> bool:
            calls.append(len(points))
            return super().consider(judge, points, y, target)

    assert not Pgd().find(problem, Counting(problem, refuse), CPU, 0, Deadline(0.0))
    assert len(calls) == 1


@pytest.mark.parametrize("p", [1, 2])
def test_the_attack_stays_in_the_ball(p: int) -> None:
    centre = torch.tensor([[0.2, -0.1, 0.3]], dtype=torch.float64)
    inputs = InputSet(centre - 0.5, centre + 0.5, centre, 0.5, p)
    rows = targets_of([[[1.0, 2.0, -1.0]]])
    seen: list[Tensor] = []

    class Watching(Linear):
        def forward(self, *xs: Tensor) -> Tensor:
            seen.append(xs[0].clone())
            return super().forward(*xs)

    problem = Problem(watched(identity(3), Watching), inputs, rows, (0,))
    goal = Decide(problem, refuse)
    assert not Pgd().find(problem, goal, CPU, 0, Deadline())
    away = (torch.cat(seen).double() - centre).flatten(1).norm(p=p, dim=1)
    assert float(away.max()) <= 0.5 * (1 + 1e-6)
    coef = torch.tensor([[1.0, 2.0, -1.0]], dtype=torch.float64)
    region = Region.of(inputs, CPU, torch.float64)
    least = float((coef * region.minimiser(coef)).sum())
    assert float(goal.upper) == pytest.approx(least, abs=1e-3)


def test_a_target_whose_points_are_refused_leaves_others_their_turn() -> None:
    """The first target's points look worse each time, and are refused; the second's is a violation."""
    problem = box_problem(identity(), -1.0, 1.0, targets_of([[[1.0]], [[1.0]]]))
    goal = Decide(problem, lambda point, target: accept(point, target) if target == 1 else None)
    points, target = column(*[-0.5] * (2 * TRIES), -0.25), torch.tensor([0] * (2 * TRIES) + [1])
    assert not goal.offer(judge_of(problem), points, target)
    assert goal.offer(judge_of(problem), points, target)
    assert goal.witness is not None
