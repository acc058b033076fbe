"""The triangle LP against exact minima: below them always, equal to them once everything is split."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.core.deadline import Deadline
from netproof.model.affine import Linear, Scale
from netproof.model.graph import Graph, Node
from netproof.model.nonlinear import LeakyRelu
from netproof.model.ops import Affine, Input
from netproof.problem.problem import InputSet, Rows
from netproof.programs import highs
from netproof.programs import triangle as triangle_module
from netproof.programs.check import lagrangian_bound
from netproof.programs.model import Program
from netproof.programs.triangle import DomainBounds, LPTask, TriangleLP, solve_many
from support.exact import enumerate_minimum, rows_of
from support.random_graphs import (
    NetworkBuilder,
    Question,
    input_set,
    questions,
    random_question,
    rows_tensor,
    seeded,
)

CPU = torch.device("cpu")


def triangle(graph: Graph, inputs: InputSet) -> tuple[TriangleLP, list[tuple[np.ndarray, np.ndarray]]]:
    region = Region.of(inputs, CPU, torch.float64)
    intervals = [(i.lower.reshape(-1).numpy(), i.upper.reshape(-1).numpy()) for i in interval_bounds(graph, region).of]
    return TriangleLP(graph, inputs, intervals), intervals


def one_row(coef: list[float], offset: float = 0.0) -> Rows:
    return rows_tensor(np.array([coef]), np.array([offset]))


def asked(question: Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for disjunct in question.property.disjuncts:
        yield rows_of(disjunct, question.graph.output.size)


def leaves(graph: Graph, intervals: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[DomainBounds]:
    """Every way to split every neuron that the intervals leave unstable; the halves are closed."""
    unstable = [
        (node, element)
        for node in graph.nonlinear
        for lower, upper in [intervals[graph.nodes[node].inputs[0]]]
        for element in np.flatnonzero((lower < 0) & (upper > 0))
    ]
    for signs in itertools.product((True, False), repeat=len(unstable)):
        bounds = {
            node: tuple(side.copy() for side in intervals[graph.nodes[node].inputs[0]]) for node in graph.nonlinear
        }
        for (node, element), active in zip(unstable, signs, strict=True):
            bounds[node][0 if active else 1][element] = 0.0
        yield bounds


@pytest.fixture(params=["simplex", "interior point"])
def solver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(highs, "SIMPLEX_SIZE", 10**9 if request.param == "simplex" else 0)
    return str(request.param)


@settings(max_examples=60, deadline=None)
@given(questions(neurons=8), st.integers(0, 2**32 - 1))
def test_the_bound_is_below_the_exact_minimum_and_every_sample(question: Question, seed: int) -> None:
    graph = question.graph
    lower, upper = question.box
    lp, _ = triangle(graph, input_set(lower, upper, graph.input.shape))
    x = np.random.default_rng(seed).uniform(lower, upper, size=(50, len(lower)))
    y = graph.forward(torch.from_numpy(x).reshape(-1, *graph.input.shape)).flatten(1).numpy()
    for coef, offset in asked(question):
        outcome = lp.solve(LPTask(rows_tensor(coef, offset), 0, {}))
        assert outcome.status == "bounded"
        assert outcome.bound <= enumerate_minimum(graph, lower, upper, coef, offset).value + 1e-6
        assert outcome.bound <= (y @ coef.T - offset).max(1).min() + 1e-9


@pytest.mark.parametrize("seed", range(25))
def test_the_least_leaf_is_the_exact_minimum(seed: int) -> None:
    question = random_question(seeded(1000 + seed), neurons=5, inputs=3)
    graph = question.graph
    lp, intervals = triangle(graph, input_set(*question.box, graph.input.shape))
    coef, offset = next(asked(question))
    tasks = [LPTask(rows_tensor(coef, offset), 0, bounds) for bounds in leaves(graph, intervals)]
    outcomes = [lp.solve(task) for task in tasks]
    assert {outcome.status for outcome in outcomes} <= {"bounded", "infeasible"}
    exact = enumerate_minimum(graph, *question.box, coef, offset).value
    assert min(outcome.bound for outcome in outcomes) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_the_rigorous_bound_is_near_the_solvers_value_and_takes_its_point(seed: int, solver: str) -> None:
    question = random_question(seeded(2000 + seed))
    lp, _ = triangle(question.graph, input_set(*question.box, question.graph.input.shape))
    coef, offset = next(asked(question))
    task = LPTask(rows_tensor(coef, offset), 0, {})
    program = lp._with_rows(lp._domain_program({}), task)
    claimed = highs.solve(program, lp._layout(program), math.inf).point[-1]
    outcome = lp.solve(task)
    assert claimed - 1e-6 <= outcome.bound <= claimed + 1e-6
    assert (question.box[0] <= outcome.point).all()
    assert (outcome.point <= question.box[1]).all()


@pytest.mark.parametrize("leak", [0.0, 0.25])
def test_what_is_0_whatever_the_input_is_has_a_column_too(leak: float, solver: str) -> None:
    """relu(relu(x − 5)) on [−1, 1]: both of its ends are 0, so that it is active and inactive at once."""
    build = NetworkBuilder(1)
    dead = build.relu(build.linear(0, np.array([[1.0], [1.0]]), np.array([0.0, -5.0])))
    again = build.relu(dead) if leak == 0 else build.leaky_relu(dead, leak)
    last = build.relu(build.linear(again, np.array([[1.0, 2.0], [-1.0, 3.0]]), np.array([0.0, 0.5])))
    build.linear(last, np.array([[-1.0, -1.0]]), np.zeros(1))
    graph, box = build.finish().graph, (np.array([-1.0]), np.array([1.0]))
    lp, intervals = triangle(graph, input_set(*box, graph.input.shape))
    outcomes = [lp.solve(LPTask(one_row([1.0]), 0, bounds)) for bounds in leaves(graph, intervals)]
    assert {outcome.status for outcome in outcomes} <= {"bounded", "infeasible"}
    assert min(outcome.bound for outcome in outcomes) == pytest.approx(-1.0, abs=1e-6)


def test_an_entry_without_a_column_is_refused() -> None:
    program = Program()
    program.add_columns(np.zeros(2), np.ones(2))
    rows = program.add_rows(np.zeros(1), np.zeros(1))
    program.add_entries(rows, np.array([-1]), 1.0)
    with pytest.raises(RuntimeError, match="no column"):
        program.finish()


def test_an_equality_holds_whatever_is_within_its_error() -> None:
    value, error = np.array([1.0, -3.0, 0.1, 0.5]), np.array([1e-20, 2.0**-53, 1e-3, 0.0])
    program = Program()
    rows = program.add_equalities(value, error)
    found = program.finish()
    for row, v, e in zip(rows.tolist(), value.tolist(), error.tolist(), strict=True):
        assert Fraction(found.row_lower[row]) <= Fraction(v) - Fraction(e)
        assert Fraction(found.row_upper[row]) >= Fraction(v) + Fraction(e)
    assert found.row_lower[3] == found.row_upper[3] == 0.5  # what is exact stays so


@settings(max_examples=60, deadline=None)
@given(questions(neurons=6, inputs=3), st.integers(0, 2**32 - 1))
def test_corrupted_duals_prove_nothing_false(question: Question, seed: int) -> None:
    graph, rng = question.graph, np.random.default_rng(seed)
    lp, _ = triangle(graph, input_set(*question.box, graph.input.shape))
    coef, offset = next(asked(question))
    exact = enumerate_minimum(graph, *question.box, coef, offset).value
    task = LPTask(rows_tensor(coef, offset), 0, {})
    program = lp._with_rows(lp._domain_program({}), task)
    duals = highs.solve(program, lp._layout(program), math.inf).duals
    for scale in (1e-9, 1e-3, 1.0, 1e6):
        wrong = duals + rng.normal(scale=scale, size=len(duals)) * (rng.random(len(duals)) < 0.5)
        assert lagrangian_bound(program, wrong) <= exact + 1e-7
        assert lp._checked(program, task, highs.Answer(True, None, wrong)).status == "failed"


def relu_minus_relu() -> Graph:
    """f = relu(x) − relu(x), the paper's example, with two neurons of their own."""
    build = NetworkBuilder(1)
    h = build.linear(0, np.ones((2, 1)), np.zeros(2))
    build.linear(build.relu(h), np.array([[1.0, -1.0]]), np.zeros(1))
    return build.finish().graph


def test_conflicting_splits_meet_in_one_point_where_the_leaf_is_zero(solver: str) -> None:
    graph = relu_minus_relu()
    lp, intervals = triangle(graph, input_set([-1.0], [1.0], graph.input.shape))
    root = lp.solve(LPTask(one_row([1.0]), 0, {}))
    assert root.bound == pytest.approx(-0.5, abs=1e-6)
    values = [lp.solve(LPTask(one_row([1.0], -0.001), 0, leaf)).bound for leaf in leaves(graph, intervals)]
    assert len(values) == 4
    assert values == pytest.approx([0.001] * 4, abs=1e-7)


def test_the_leafs_value_is_over_the_leaf_not_over_the_box(solver: str) -> None:
    build = NetworkBuilder(1)
    build.relu(0)
    graph = build.finish().graph
    lp, _ = triangle(graph, input_set([-1.0], [1.0], graph.input.shape))
    active = {1: (np.array([0.0]), np.array([1.0]))}
    assert lp.solve(LPTask(one_row([1.0]), 0, active)).bound == pytest.approx(0.0, abs=1e-9)


def test_a_claim_of_presolve_that_no_ray_proves_is_not_the_last_word() -> None:
    """Presolve calls this LP infeasible, whose rows a zero weight and intervals around it leave without room."""
    build = NetworkBuilder(1)
    hidden = build.relu(build.linear(0, np.array([[1.0], [0.0]]), np.zeros(2)))
    build.linear(hidden, np.array([[0.25, 0.25], [0.25, 0.0]]), np.zeros(2))
    graph = build.finish().graph
    lp, _ = triangle(graph, input_set(np.array([0.0]), np.array([0.25]), graph.input.shape))
    outcome = lp.solve(LPTask(one_row([0.0, -1.0]), 0, {}))
    assert outcome.bound == pytest.approx(-0.0625, abs=1e-9)
    assert outcome.bound <= -0.0625


def test_an_empty_domain_is_proved_by_a_ray(solver: str) -> None:
    build = NetworkBuilder(2)
    h = build.linear(0, np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([0.0, -0.5]))
    build.linear(build.relu(h), np.array([[1.0, -1.0]]), np.zeros(1))
    graph = build.finish().graph
    lp, _ = triangle(graph, input_set([-1.0, -1.0], [1.0, 1.0], graph.input.shape))
    # x + y <= 0 and x + y − 0.5 >= 0 are consistent with the intervals, but not with each other.
    conflict = {2: (np.array([-2.0, 0.0]), np.array([0.0, 1.5]))}
    outcome = lp.solve(LPTask(one_row([1.0]), 0, conflict))
    assert (outcome.status, outcome.bound, outcome.point) == ("infeasible", math.inf, None)
    possible = {2: (np.array([0.0, 0.0]), np.array([2.0, 1.5]))}
    assert lp.solve(LPTask(one_row([1.0]), 0, possible)).bound == pytest.approx(0.5)


def test_infeasible_is_not_said_without_a_ray_that_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = relu_minus_relu()
    lp, _ = triangle(graph, input_set([-1.0], [1.0], graph.input.shape))
    lie = highs.Answer(True, None, np.ones(lp.size[0] + 1))
    monkeypatch.setattr(triangle_module, "solve", lambda *_: lie)
    assert lp.solve(LPTask(one_row([1.0]), 0, {})).status == "failed"


def test_contradicting_bounds_are_an_empty_domain_and_nan_is_no_bound() -> None:
    graph = relu_minus_relu()
    lp, _ = triangle(graph, input_set([-1.0], [1.0], graph.input.shape))
    node = graph.nonlinear[0]
    crossed = {node: (np.array([0.5, -1.0]), np.array([0.25, 1.0]))}
    assert lp.solve(LPTask(one_row([1.0]), 0, crossed)).status == "infeasible"
    unknown = {node: (np.array([math.nan, -1.0]), np.array([1.0, math.nan]))}
    outcome = lp.solve(LPTask(one_row([1.0]), 0, unknown))
    assert outcome.bound == pytest.approx(lp.solve(LPTask(one_row([1.0]), 0, {})).bound)


def test_an_input_split_tightens_the_box() -> None:
    build = NetworkBuilder(1)
    build.linear(0, np.array([[2.0]]), np.array([1.0]))
    graph = build.finish().graph
    lp, _ = triangle(graph, input_set([-1.0], [1.0], graph.input.shape))
    right = {0: (np.array([0.5]), np.array([1.0]))}
    assert lp.solve(LPTask(one_row([1.0]), 0, right)).bound == pytest.approx(2.0)
    assert lp.solve(LPTask(one_row([1.0]), 0, {})).bound == pytest.approx(-1.0)


def test_multipliers_weigh_the_rows_and_padding_has_none() -> None:
    build = NetworkBuilder(1)
    build.linear(0, np.array([[1.0], [-1.0]]), np.zeros(2))
    graph = build.finish().graph
    lp, _ = triangle(graph, input_set([-1.0], [2.0], graph.input.shape))
    rows = rows_tensor(np.array([[1.0, 0.0], [0.0, 1.0], [7.0, 7.0]]), np.array([-0.5, -0.5, -99.0]))
    rows.valid[0, 2] = False
    outcome = lp.solve(LPTask(rows, 0, {}))
    # max(x, −x) + 1/2: no row alone is positive everywhere, half of each is.
    assert outcome.bound == pytest.approx(0.5)
    np.testing.assert_allclose(outcome.multipliers, [0.5, 0.5, 0.0], atol=1e-9)


def test_a_ball_is_exact() -> None:
    build = NetworkBuilder(3)
    build.linear(0, np.array([[1.0, -2.0, 0.5]]), np.zeros(1))
    graph = build.finish().graph
    wide, centre = torch.full((1, 3), 9.0, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64)
    for p, expected in ((1, -0.5 - 2 * 0.25), (2, -0.5 - 5.25**0.5 * 0.25)):
        lp, _ = triangle(graph, InputSet(-wide, wide, centre, 0.25, p))
        assert lp.solve(LPTask(one_row([1.0]), 0, {})).bound == pytest.approx(expected)


def test_inexact_weights_widen_their_rows() -> None:
    error = Scale(torch.full((1, 1), 0.125, dtype=torch.float64), torch.full((1, 1), 0.25, dtype=torch.float64))
    off = Linear(torch.tensor([[2.0]], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64), error)
    graph = Graph((Node(0, Input(), (), (1, 1), "x"), Node(1, off, (0,), (1, 1), "y")))
    lp, _ = triangle(graph, input_set([1.0], [2.0], (1, 1)))
    # 2x + 1 >= 3, less a radius of |x|/8 + 1/4 at the largest |x|.
    assert lp.solve(LPTask(one_row([1.0]), 0, {})).bound == pytest.approx(3.0 - 0.5)


def test_data_movement_costs_no_columns_and_repeats_are_summed(solver: str) -> None:
    build = NetworkBuilder(4)
    image = build.reshape(0, (1, 1, 2, 2))
    flat = build.reshape(image, (1, 4))
    twice = build.concat(build.slice(flat, 0, 3), build.slice(flat, 1, 4))
    doubled = build.add(twice, twice)
    build.linear(doubled, np.array([[1.0, 1.0, 1.0, 1.0, -1.0, 1.0]]), np.zeros(1))
    graph = build.finish().graph
    lp, _ = triangle(graph, input_set([-1.0] * 4, [1.0] * 4, graph.input.shape))
    assert lp.size == (7, 4 + 6 + 1)
    lower, upper = np.full(4, -1.0), np.full(4, 1.0)
    exact = enumerate_minimum(graph, lower, upper, np.ones((1, 1)), np.zeros(1)).value
    assert lp.solve(LPTask(one_row([1.0]), 0, {})).bound == pytest.approx(exact)


def test_a_leak_above_one_is_refused() -> None:
    graph = Graph((Node(0, Input(), (), (1, 1), "x"), Node(1, LeakyRelu(2.0), (0,), (1, 1), "bent")))
    with pytest.raises(TypeError, match="bent"):
        TriangleLP(graph, input_set([-1.0], [1.0], (1, 1)), [(np.array([-2.0]), np.array([1.0]))] * 2)


def test_every_affine_op_is_read_by_its_adjoint_as_its_forward_says() -> None:
    for seed in range(20):
        graph = random_question(seeded(seed)).graph
        x = torch.randn(1, *graph.input.shape, dtype=torch.float64)
        lp, _ = triangle(graph, input_set(x.reshape(-1), x.reshape(-1), graph.input.shape))
        assert any(isinstance(node.op, Affine) for node in graph.nodes)
        value = graph.forward(x).reshape(-1)
        for sign in (1.0, -1.0):
            row = one_row([sign, *[0.0] * (graph.output.size - 1)])
            assert lp.solve(LPTask(row, 0, {})).bound == pytest.approx(sign * float(value[0]), abs=1e-9)


def many_leaves() -> tuple[TriangleLP, list[LPTask]]:
    question = random_question(seeded(5), neurons=6, inputs=3)
    lp, intervals = triangle(question.graph, input_set(*question.box, question.graph.input.shape))
    coef, offset = next(asked(question))
    return lp, [LPTask(rows_tensor(coef, offset), 0, leaf) for leaf in leaves(question.graph, intervals)]


def test_the_number_of_workers_changes_nothing() -> None:
    lp, tasks = many_leaves()
    assert len(tasks) > 3
    alone, together = (solve_many(lp, tasks, workers=w, deadline=Deadline(None)) for w in (1, 4))
    assert [o.status for o in alone] == [o.status for o in together]
    assert [o.bound for o in alone] == [o.bound for o in together]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_expired_deadline_starts_no_solver(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lp, tasks = many_leaves()
    monkeypatch.setattr(highs.highspy, "Highs", lambda: pytest.fail("a solver was started"))
    deadline = Deadline(None)
    deadline.cancel()
    outcomes = solve_many(lp, tasks, workers=workers, deadline=deadline)
    assert [o.status for o in outcomes] == ["failed"] * len(tasks)
    assert lp.solve(tasks[0], 0.0).status in ("failed", "infeasible")


def test_each_lp_gets_the_smaller_of_its_limit_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    lp, tasks = many_leaves()
    limits = []
    real = highs.solve
    monkeypatch.setattr(triangle_module, "solve", lambda *a: limits.append(a[2]) or real(*a))
    solve_many(lp, tasks[:2], workers=1, deadline=Deadline(1000.0), limit=5.0)
    solve_many(lp, tasks[:2], workers=1, deadline=Deadline(3.0), limit=5.0)
    assert all(limit <= 5.0 for limit in limits[: len(limits) // 2])
    assert all(limit <= 3.0 for limit in limits[len(limits) // 2 :])
    assert limits
