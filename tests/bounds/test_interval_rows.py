"""The first rung of a root: what intervals say of a property's rows holds, and is there where the root was late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import netproof
from netproof.bounds.beta import Beta
from netproof.bounds.linear.rows import bounds_by_intervals
from netproof.bounds.neurons import worth
from netproof.core.deadline import Deadline
from netproof.core.reasons import INTERVALS_ONLY, ROOT_LATE
from netproof.errors import Unbounded
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet, Problem
from netproof.problem.property import Property
from netproof.run import gather
from support.asking import ask, at_most, dense, whole_box
from support.awkward import GraphBuilder
from support.image_graphs import image_graph
from support.problems import box_problem, random_points, targets_of
from support.rational import exact

CPU = torch.device("cpu")


def bounds_of(problem: Problem) -> list[float]:
    found = bounds_by_intervals(problem, CPU, Deadline())
    assert found is not None
    return found.tolist()


def image_problem(seed: int) -> Problem:
    """A random graph of images, asked for three targets of one, two and three rows."""
    graph = image_graph(seed)
    shape, size = graph.input.shape, graph.output.size
    made = torch.Generator().manual_seed(seed)
    centre = torch.rand(shape, generator=made, dtype=torch.float64)
    rows = [torch.randn(n, size, generator=made, dtype=torch.float64).tolist() for n in (1, 2, 3)]
    return Problem(graph, InputSet(centre - 0.05, centre + 0.05), targets_of(rows), (0, 1, 2))


@pytest.mark.parametrize("seed", range(16))
def test_bounds_lie_below_every_value(seed: int) -> None:
    problem = image_problem(seed)
    points = random_points(problem, 100, seed).double()
    y = problem.graph.to(CPU, torch.float64).forward(points).flatten(1)
    rows = torch.einsum("tro,no->ntr", problem.rows.coef, y) - problem.rows.offset
    least = rows.masked_fill(~problem.rows.valid, -torch.inf).amax(2).amin(0)
    for bound, value in zip(bounds_of(problem), least.tolist(), strict=True):
        assert bound <= value + 1e-12 * (1 + abs(value))


def line(weights: Sequence[float], last: Sequence[float]) -> Graph:
    """last · relu(weights · x), of one input."""
    build = GraphBuilder(1, 1)
    h = build.relu(build.linear(0, np.array(weights)[:, None], np.zeros(len(weights))))
    build.linear(h, np.array([last]), np.zeros(1))
    return build.finish()


def test_rounding_is_charged() -> None:
    """Where intervals lose nothing the bound is below the exact least value, by next to nothing."""
    weights, last = [0.1, 0.3, 0.7], [0.1, 0.2, 0.3]
    problem = box_problem(line(weights, last), 0.1, 1.0)
    (bound,) = bounds_of(problem)
    (lower,) = exact(problem.input_set.lower)
    least = sum(lower * Fraction(a) * Fraction(b) for a, b in zip(weights, last, strict=True))
    assert Fraction(bound) < least
    assert Fraction(bound) > least - Fraction(1, 10**12)


def test_both_sides_of_a_neuron_count() -> None:
    """relu(x) − relu(−x) on [−1, 2]: by intervals at least 0 − 1, and its negative at least −2."""
    problem = box_problem(line([1.0, -1.0], [1.0, -1.0]), -1.0, 2.0, targets_of([[[1.0]], [[-1.0]]]))
    assert bounds_of(problem) == pytest.approx([-1.0, -2.0])


def test_the_best_row_of_a_target_counts() -> None:
    problem = box_problem(line([1.0], [1.0]), 1.0, 2.0, targets_of([[[1.0], [-1.0]]], [[0.5, 1.0]]))
    assert bounds_of(problem) == pytest.approx([0.5])


def test_nothing_is_said_past_the_deadline() -> None:
    assert bounds_by_intervals(box_problem(line([1.0], [1.0]), 1.0, 2.0), CPU, Deadline(0.0)) is None


# --- where the root was late ---

told: list[netproof.Progress] = []  # by the last question


def late(
    monkeypatch: pytest.MonkeyPatch,
    *,
    first: bool,
    after: bool,
    root: Callable[..., None] = lambda *_: None,
    eps: float = 0.1,
) -> netproof.Verdict:
    """Ask with a root that is never bounded; intervals go first, or may be had afterwards, or neither.

    At 0.01 intervals prove it, at 0.1 they do not.
    """
    monkeypatch.setattr(Beta, "root", root)
    monkeypatch.setattr(worth, "SHORT", 0.0 if first else float("inf"))
    monkeypatch.setattr(worth, "AFTERWARDS", 1 << 18 if after else 0)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(12, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    label = int(net(torch.zeros(1, 12)).argmax())
    told.clear()
    region = netproof.linf_ball(torch.zeros(12), eps)
    return netproof.verify(net, region, label=label, device="cpu", method="beta", timeout=60, progress=told.append)


def by_phase(phase: str) -> list[float | None]:
    return [one.lower_bound for one in told if one.phase == phase]


def test_intervals_go_first_where_the_root_may_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are told before the attack begins, so that they are known even of a process that is ended."""
    found = late(monkeypatch, first=True, after=False)
    assert (found.status, found.reason) == ("timeout", INTERVALS_ONLY)
    assert found.lower_bound is not None
    assert found.lower_bound < 0
    assert by_phase("attack") == by_phase("root") == [found.lower_bound]


@pytest.mark.parametrize("first", [True, False])
def test_what_intervals_prove_is_proved(first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = late(monkeypatch, first=first, after=True, eps=0.01)
    assert (found.status, found.reason, found.decided_by) == ("unsat", "", "root")
    assert found.lower_bound is not None
    assert found.lower_bound > 0
    assert by_phase("root") == ([] if first else [None])  # nothing is left for it


def test_a_root_is_for_what_intervals_leave_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Y_0 >= −100 needs no more than intervals; Y_0 >= 0 does, and is the whole question of the root."""
    asked = list[int]()

    def root(self: Beta, problem: Problem, *_: object) -> None:
        asked.extend(problem.disjuncts)

    monkeypatch.setattr(Beta, "root", root)
    monkeypatch.setattr(worth, "SHORT", 0.0)
    box = whole_box([-1], [1])
    net = dense(([[1.0], [0.5]], [0.0, 0.1]), ([[1.0, -1.0]], [0.25]))
    limits = [at_most(box, net, limit).disjuncts[0] for limit in (-100, 0)]
    found = ask(net, Property(tuple(limits), 1, 1), tmp_path, method="beta", attack=False, timeout=60)
    assert asked == [1]
    assert found.lower_bound == pytest.approx(-0.35)


def test_where_they_take_no_time_they_come_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    found = late(monkeypatch, first=False, after=True)
    assert (found.status, found.reason) == ("timeout", INTERVALS_ONLY)
    assert by_phase("attack") == by_phase("root") == [None]
    assert found.lower_bound == late(monkeypatch, first=True, after=False).lower_bound


def test_ones_that_had_no_time_come_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline came while they were computed first."""
    real, calls = gather.bounds_by_intervals, list[Deadline]()

    def whole(problem: Any, device: Any, deadline: Deadline) -> Any:
        calls.append(deadline)
        return None if len(calls) == 1 else real(problem, device, deadline)

    monkeypatch.setattr(gather, "bounds_by_intervals", whole)
    found = late(monkeypatch, first=True, after=True)
    assert (found.status, found.reason) == ("timeout", INTERVALS_ONLY)
    assert by_phase("attack") == by_phase("root") == [None]
    assert found.lower_bound is not None
    assert calls[-1].remaining() <= worth.AT_THE_END


def test_who_gives_up_does_not_wait_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[Any]()

    def cancelled(self: Beta, problem: Any, threshold: Any, device: Any, deadline: Deadline, clock: Any) -> None:
        deadline.cancel()

    monkeypatch.setattr(gather, "bounds_by_intervals", lambda *given: calls.append(given))
    late(monkeypatch, first=False, after=True, root=cancelled)
    assert not calls


def test_without_them_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    found = late(monkeypatch, first=False, after=False)
    assert (found.status, found.reason, found.lower_bound) == ("timeout", ROOT_LATE, None)


def test_what_intervals_cannot_bound_is_left_to_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbounded(*_: object) -> None:
        raise Unbounded("no bounds")

    monkeypatch.setattr(gather, "bounds_by_intervals", unbounded)
    assert late(monkeypatch, first=True, after=True).reason == ROOT_LATE


def test_a_network_is_large_by_its_passes_and_the_time_left() -> None:
    graph = line([1.0] * 64, [1.0] * 64)
    passes = 64 * graph.entries // worth.OPEN / worth.A_SECOND["cpu"] / worth.SHORT
    assert worth.may_be_late(graph, CPU, 0.9 * passes)
    assert not worth.may_be_late(graph, CPU, 1.1 * passes)
    assert not worth.may_be_late(graph, CPU, float("inf"))
