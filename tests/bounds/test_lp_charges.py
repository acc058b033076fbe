"""What a network takes satisfies its linear programs in rational arithmetic: columns, rows, chords, errors."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import root_domains
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet, Problem, Rows
from netproof.programs.condensed import CondensedLP
from netproof.programs.highs import Answer
from netproof.programs.model import LinearProgram, Program
from netproof.programs.network import add_input_set
from netproof.programs.triangle import LPTask, TriangleLP, row_range
from support.asking import CPU
from support.awkward import GraphBuilder, awkward_graph
from support.problems import box_problem, folded_neurons, targets_of
from support.rational import Exact, exact, exact_values


def between(low: float, value: Fraction, high: float) -> bool:
    """An infinite side is none."""
    return (math.isinf(low) or Fraction(float(low)) <= value) and (math.isinf(high) or value <= Fraction(float(high)))


def assert_satisfies(program: LinearProgram, x: list[Fraction]) -> None:
    for value, low, high in zip(x, program.lower, program.upper, strict=True):
        assert between(low, value, high)
    rows = [Fraction(0)] * len(program.row_lower)
    for row, col, value in zip(*program.entries, strict=True):
        rows[row] += Fraction(float(value)) * x[col]
    for value, low, high in zip(rows, program.row_lower, program.row_upper, strict=True):
        assert between(low, value, high)


def worst_row(rows: Rows, y: Exact) -> Fraction:
    coef = exact(rows.coef[0]).reshape(-1, len(y))
    return max(row @ y - d for row, d, v in zip(coef, exact(rows.offset[0]), rows.valid[0], strict=True) if v)


# --- the triangle program ---


def triangle(graph: Graph, inputs: InputSet) -> TriangleLP:
    found = interval_bounds(graph, Region.of(inputs, CPU, torch.float64)).of
    return TriangleLP(graph, inputs, [(i.lower, i.upper) for i in found])


def assert_in_triangle(graph: Graph, inputs: InputSet, rows: Rows, points: list[Exact]) -> None:
    lp = triangle(graph, inputs)
    domain = lp._domain_program({})
    assert domain is not None
    program = lp._with_rows(domain, LPTask(rows, 0, {}))
    for point in points:
        values = exact_values(graph, point)
        x = [Fraction(0)] * len(program.cost)
        for columns, value in zip(lp._network.columns, values, strict=True):
            for column, v in zip(columns, value, strict=True):
                if column >= 0:
                    x[column] = v
        x[-1] = worst_row(rows, values[-1])
        assert_satisfies(program, x)


@pytest.mark.parametrize("leak", [0.0, 0.1, -0.5])
def test_chords_and_ends_hold_the_ends_of_a_neuron(leak: float) -> None:
    """Neurons that read the input itself, so that their bounds are exactly its ends."""
    rng = np.random.default_rng(0)
    build = GraphBuilder(1, 60)
    build.relu(0, leak)
    low, high = -rng.uniform(0.1, 1, (1, 60)), rng.uniform(0.1, 1, (1, 60))
    inputs = InputSet(torch.from_numpy(low), torch.from_numpy(high))
    assert_in_triangle(build.finish(), inputs, targets_of([[np.ones(60)]]), [exact(low), exact(high), exact(0 * low)])


@pytest.mark.parametrize("seed", range(8))
def test_awkward_networks_satisfy_their_programs(seed: int) -> None:
    graph = awkward_graph(seed)
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-1, 1, graph.input.shape)
    inputs = InputSet(torch.from_numpy(middle - 0.1), torch.from_numpy(middle + 0.1))
    rows = targets_of([rng.normal(size=(2, 2))], [rng.normal(size=2)])
    low, high = exact(inputs.lower), exact(inputs.upper)
    assert_in_triangle(graph, inputs, rows, [low, high, (low + high) / 2])


def test_the_range_of_a_row_is_outward() -> None:
    rng = np.random.default_rng(0)
    y = rng.uniform(0.5, 1, 8)
    for coef in rng.normal(size=(40, 1, 8)):
        coef[0, -1] = -(coef[0, :-1] @ y[:-1]) / y[-1]
        least, most = row_range(coef, np.zeros(1), y, y)
        value = exact(coef) @ exact(y)
        assert Fraction(float(least[0])) <= value <= Fraction(float(most[0]))


def test_the_box_around_a_ball_is_outward() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        centre, radius = rng.uniform(-1, 1, (1, 3)), float(rng.uniform(0.1, 1))
        side = torch.full((1, 3), 9.0, dtype=torch.float64)
        program = Program()
        columns = add_input_set(
            program, InputSet(-side, side, torch.from_numpy(centre), radius, 2), -side.numpy()[0], side.numpy()[0]
        )
        found = program.finish()
        assert all(exact(found.lower[columns]) <= exact(centre) - Fraction(radius))
        assert all(exact(found.upper[columns]) >= exact(centre) + Fraction(radius))


def test_what_is_not_a_number_is_no_bound() -> None:
    build = GraphBuilder(1, 1)
    build.linear(0, np.full((1, 1), 2.0))
    side, unknown = torch.ones(1, 1, dtype=torch.float64), torch.full((1, 1), torch.nan)
    lp = TriangleLP(build.finish(), InputSet(-side, side), [(-side, side), (unknown, unknown)])
    domain = lp._domain_program({})
    assert domain is not None
    assert_satisfies(domain, [Fraction(-1), Fraction(-2)])
    assert_satisfies(domain, [Fraction(1), Fraction(2)])


def test_a_sub_domain_whose_bounds_meet_has_a_program() -> None:
    build = GraphBuilder(1, 1)
    build.relu(build.linear(0, np.ones((1, 1))))
    side = torch.ones(1, 1, dtype=torch.float64)
    lp = triangle(build.finish(), InputSet(-side, side))
    assert lp._domain_program({2: (np.zeros(1), np.zeros(1))}) is not None
    assert lp._domain_program({2: (np.ones(1), np.zeros(1))}) is None


def test_duals_that_say_nothing_prove_nothing() -> None:
    build = GraphBuilder(1, 1)
    build.linear(build.relu(build.linear(0, np.ones((1, 1)))), np.ones((1, 1)))
    side = torch.ones(1, 1, dtype=torch.float64)
    lp = triangle(build.finish(), InputSet(-side, side))
    domain = lp._domain_program({})
    assert domain is not None
    task = LPTask(targets_of([[[1.0]]]), 0, {})
    program = lp._with_rows(domain, task)
    wild = np.full(len(program.row_lower), 1e308)
    found = lp._checked(program, task, Answer(False, None, wild))
    assert (found.status, found.bound) == ("failed", -math.inf)
    nothing = lp._checked(program, task, Answer(True, None, np.zeros_like(wild)))
    assert (nothing.status, nothing.bound) == ("failed", -math.inf)


# --- the condensed program ---


def rooted(problem: Problem) -> Root:
    root = build_root(problem, CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def assert_in_condensed(root: Root, lower: torch.Tensor, upper: torch.Tensor, points: list[Exact]) -> None:
    lp = CondensedLP(root, Deadline(None))
    net, at, trunk = lp._net, lp.places, root.condensed64.trunk
    for target in range(len(root.problem.disjuncts)):
        program = lp.program(target, lower, upper)
        rows = Rows(*(t[target : target + 1] for t in _tensors(root.problem.rows)))
        for point in points:
            values = exact_values(root.problem.graph, point)
            x = [Fraction(0)] * len(program.cost)
            y = values[trunk.node][trunk.index.numpy()]
            for column, minus, v in zip(net.y, net.minus, y, strict=True):
                x[column] = v if minus < 0 else x[column]
            for layer in root.graph64.layers:
                h, z = (values[i][layer.index.numpy()] for i in (layer.pre, layer.node))
                for k in range(layer.count):
                    place = layer.start + k
                    x[net.z[place]] = z[k]
                    x[at.positive[place]], x[at.negative[place]] = max(h[k], Fraction(0)), max(-h[k], Fraction(0))
            for column, v in zip(at.x, point, strict=True):
                x[column] = v
            x[-1] = worst_row(rows, values[-1])
            assert_satisfies(program, x)


def _tensors(rows: Rows) -> tuple[torch.Tensor, ...]:
    return rows.coef, rows.offset, rows.strict, rows.valid


def bounds_of(root: Root) -> tuple[torch.Tensor, torch.Tensor]:
    whole = root_domains(root)
    return whole.lower[0], whole.upper[0]


def test_chords_of_the_condensed_program_hold_the_ends_of_a_neuron() -> None:
    """Neurons that read one input each, whose ends are float32: given as their bounds, they are attained."""
    rng = np.random.default_rng(0)
    low, high = (rng.uniform(0.1, 1, 60).astype(np.float32).astype(np.float64) for _ in range(2))
    build = GraphBuilder(1, 60)
    build.linear(build.relu(build.linear(0, np.eye(60))), np.ones((1, 60)))
    root = rooted(box_problem(build.finish(), -low, high))
    assert root.count == 60
    order = root.graph64.layers[0].index.numpy()
    sides = (torch.from_numpy(side[order]).float() for side in (-low, high))
    assert_in_condensed(root, *sides, [exact(-low), exact(high)])


@pytest.mark.parametrize("seed", range(4))
def test_folded_neurons_satisfy_the_condensed_program(seed: int) -> None:
    root = rooted(folded_neurons(seed))
    assert_in_condensed(root, *bounds_of(root), [exact(root.problem.input_set.upper)])


@pytest.mark.parametrize("seed", range(6))
def test_folded_rows_satisfy_the_condensed_program(seed: int) -> None:
    """Rows that cancel, and rows whose offset is so large that taking it off is rounded by up to 1."""
    rng = np.random.default_rng(seed)
    x, weight, bias = rng.uniform(0.5, 1, 3), rng.normal(size=(8, 3)), 20 + rng.random(8)
    null = np.linalg.svd(np.hstack([weight, bias[:, None]]).T)[2][-1]
    build = GraphBuilder(1, 3)
    first = build.relu(build.linear(0, np.eye(3), np.full(3, 3.0)))
    last = np.stack([null, -null, null])
    build.linear(build.relu(build.linear(first, weight, bias)), last, np.array([0.0, 0.0, 0.5 + rng.random()]))
    rows = targets_of([[row] for row in np.eye(3)[[0, 1, 2, 2]]], [[0.0], [0.0], [1e16], [-1e16]])
    root = rooted(box_problem(build.finish(), x, x, rows))
    assert_in_condensed(root, *bounds_of(root), [exact(x)])


@pytest.mark.parametrize("seed", range(6))
def test_awkward_networks_satisfy_the_condensed_program(seed: int) -> None:
    root = rooted(box_problem(awkward_graph(seed), -0.7, 1.0))
    points = [exact(np.full(3, v)) for v in (-0.7, 0.2, 1.0)]
    assert_in_condensed(root, *bounds_of(root), points)
