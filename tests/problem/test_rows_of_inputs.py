"""Rows that read inputs: their columns, the graph that has these inputs after its output, and witnesses."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.errors import SpecError
from netproof.model.evaluate import evaluate
from netproof.model.graph import Graph, Node
from netproof.model.ops import Input
from netproof.problem.extend import with_inputs
from netproof.problem.property import Box, Disjunct, Property, Row
from netproof.problem.reduce import reduce
from netproof.problem.vnnlib.reader import parse_property
from netproof.problem.witness import confirm, confirmed, rounding_gaps, violated
from netproof.run.case import _plain
from support.random_graphs import random_network, seeded

ONE, ZERO = Fraction(1), Fraction(0)
HEAD = "".join(f"(declare-const {n} Real)" for n in ("X_0", "X_1", "X_2", "Y_0", "Y_1"))
CUBE = "".join(f"(assert (<= 0 X_{i} 1))" for i in range(3))
WEIGHT = [[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]]


# --- the graph ---


def input_alone(*shape: int) -> Graph:
    return Graph((Node(0, Input(), (), shape, "x"),))


@pytest.mark.parametrize("graph", [input_alone(4), input_alone(1, 2, 2)], ids=["flat", "image"])
@pytest.mark.parametrize("read", [(2,), (0, 1, 2, 3), (1, 3)])
def test_a_graph_whose_output_is_its_input(graph: Graph, read: tuple[int, ...]) -> None:
    x = torch.arange(8.0, dtype=torch.float64).view(2, *graph.input.shape)
    extended = with_inputs(graph, read)
    assert torch.equal(extended.forward(x), torch.cat([x.flatten(1), x.flatten(1)[:, list(read)]], 1))
    assert extended.output.shape == (4 + len(read),)
    coef = torch.arange(1.0, 5.0 + len(read), dtype=torch.float64).expand(2, -1)
    gradient = coef[:, :4].clone()
    gradient[:, list(read)] += coef[:, 4:]
    assert torch.equal(extended.gradient(extended.values(x), coef).flatten(1), gradient)


@pytest.mark.parametrize("seed", range(8))
def test_inputs_after_the_output_are_exact(seed: int) -> None:
    graph = random_network(seeded(seed)).graph
    read = tuple(range(graph.input.size))[::2]
    extended = with_inputs(graph, read)
    assert extended.nodes[: len(graph.nodes)] == graph.nodes
    assert [node.index for node in extended.nodes] == list(range(len(extended.nodes)))
    assert len({node.name for node in extended.nodes}) == len(extended.nodes)
    x = torch.rand(3, *graph.input.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    value, error = evaluate(extended, x)
    alone, its_error = evaluate(graph, x)
    outputs = graph.output.size
    assert torch.equal(value, torch.cat([alone.flatten(1), x.flatten(1)[:, list(read)]], 1))
    assert torch.equal(error[:, :outputs], its_error.flatten(1))
    assert not error[:, outputs:].any()


# --- problems ---


def test_rows_get_a_column_for_each_input_that_any_of_them_reads(affine) -> None:
    text = """(assert (or (and (<= X_0 0.5) (<= (+ X_0 (* 3 X_2)) 1) (< Y_0 0.25)) (<= (- Y_1 (* 2 X_2)) 0.1)
                            (and (<= X_0 0.5) (<= Y_0 Y_1))))"""
    network = affine(WEIGHT)
    first, second = reduce(network, parse_property(HEAD + CUBE + text))
    assert (first.disjuncts, second.disjuncts) == ((0, 2), (1,))
    assert first.graph is second.graph
    assert first.graph is not network.graph
    assert first.rows.coef.tolist() == [
        [[0.0, 0.0, 1.0, 3.0], [1.0, 0.0, 0.0, 0.0]],  # Y_0, Y_1, X_0, X_2
        [[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]],
    ]
    assert first.rows.offset.tolist() == [[1.0, 0.25], [0.0, 0.0]]
    assert first.rows.strict.tolist() == [[False, True], [False, False]]
    assert first.rows.valid.tolist() == [[True, True], [True, False]]
    assert second.rows.coef.tolist() == [[[0.0, 1.0, 0.0, -2.0]]]
    assert Fraction(second.rows.offset.item()) >= Fraction(1, 10)
    x = torch.tensor([[[0.25, 0.5, 0.75]]], dtype=torch.float64)
    assert first.graph.forward(x).tolist() == [[1.25, -0.25, 0.25, 0.75]]


def test_without_such_rows_the_graph_is_the_networks(affine) -> None:
    network = affine(WEIGHT)
    (problem,) = reduce(network, parse_property(HEAD + CUBE + "(assert (<= X_0 0.5)) (assert (<= Y_0 Y_1))"))
    assert problem.graph is network.graph
    assert problem.rows.coef.shape == (1, 1, 2)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("(<= (+ X_0 X_1) 2)", False),
        ("(<= (+ X_0 X_1) 1.9999)", True),
        ("(< (+ X_0 X_1) 2)", True),
        ("(< (- X_0 X_1) 1.0001)", False),
        ("(>= (- X_0 X_1) -1)", False),
        ("(>= (- X_0 X_1) 0)", True),
        ("(>= (+ X_0 X_1) 3)", True),  # it never holds, which is for the search to prove
        ("(<= (+ X_0 X_1 (* 0.1 Y_0)) 1000)", True),
    ],
)
def test_rows_that_the_box_implies_are_left_out(affine, text: str, kept: bool) -> None:
    network = affine(WEIGHT)
    (problem,) = reduce(network, parse_property(HEAD + CUBE + f"(assert {text}) (assert (<= Y_0 0))"))
    assert int(problem.rows.valid.sum()) == 1 + kept
    assert (problem.graph is network.graph) == (not kept)


def test_where_the_box_implies_every_row_all_is_a_violation(affine) -> None:
    (problem,) = reduce(affine(WEIGHT), parse_property(HEAD + CUBE + "(assert (<= (+ X_0 X_1) 2))"))
    assert (problem.rows.coef.abs().sum(), problem.rows.offset.tolist()) == (0, [[0.0]])


def test_rows_are_dropped_and_sets_kept(affine) -> None:
    spec = parse_property(HEAD + CUBE + "(assert (<= X_0 X_1)) (assert (<= Y_0 0))")
    network = affine(WEIGHT)
    (problem,) = reduce(network, spec.without_rows())
    assert problem.graph is network.graph
    assert spec.without_rows().disjuncts == (Disjunct(spec.disjuncts[0].box, ()),)


def unit(*rows: Row) -> Property:
    return Property((Disjunct(Box((ZERO,) * 3, (ONE,) * 3), rows),), 3, 2, "unit")


@pytest.mark.parametrize("index", [3, -1])
def test_an_input_that_there_is_not(affine, index: int) -> None:
    with pytest.raises(SpecError, match=rf"a row reads input {index} of 3"):
        reduce(affine(WEIGHT), unit(Row({0: ONE}, ZERO, inputs={index: ONE})))


@pytest.mark.parametrize("c", [Fraction(10) ** 200, Fraction(1, 10**200)])
def test_a_coefficient_of_an_input_beyond_the_format(affine, c: Fraction) -> None:
    with pytest.raises(SpecError, match="a coefficient of a constraint is beyond"):
        reduce(affine(WEIGHT), unit(Row({}, ZERO, inputs={0: c, 1: ONE})))


def test_a_kept_case_shows_what_rows_read() -> None:
    row = Row({1: Fraction(1, 3)}, Fraction(2), inputs={2: Fraction(-1, 10)})
    (plain,) = _plain(unit(row).disjuncts[0])["rows"]
    assert plain == {"coefficients": {"1": "1/3"}, "inputs": {"2": "-1/10"}, "limit": "2", "strict": False}


# --- witnesses ---


def point(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_a_row_is_checked_at_the_float32_point_with_no_tolerance() -> None:
    # float32(0.1) is above 0.1, and float32(0.3) above 0.3.
    row = Row({}, Fraction(1, 10), inputs={0: ONE})
    y = point(0.0, 0.0)
    assert violated(unit(row), point(0.1, 0.0, 0.0), y) is None
    assert violated(unit(row), np.nextafter(point(0.1, 0.0, 0.0), point(0.0, 0.0, 0.0)), y) == 0
    both = Row({}, Fraction(3, 10), inputs={0: ONE, 1: ONE})
    assert violated(unit(both), point(0.1, 0.2, 0.0), y) is None  # their float32 sum, rounded, is float32(0.3)
    assert violated(unit(both), point(0.1, 0.19999999, 0.0), y) == 0


def test_strictness_is_kept_at_the_point() -> None:
    row = Row({}, Fraction(3, 4), inputs={0: ONE, 2: ONE})
    at = point(0.25, 0.0, 0.5)
    assert violated(unit(row), at, point(0.0, 0.0)) == 0
    assert violated(unit(replace(row, strict=True)), at, point(0.0, 0.0)) is None


def test_a_mixed_row_takes_both_sides() -> None:
    row = Row({1: Fraction(2)}, Fraction(1), inputs={0: Fraction(-1)})  # 2·y_1 − x_0 <= 1
    assert violated(unit(row), point(0.5, 0.0, 0.0), point(9.0, 0.75)) == 0
    assert violated(unit(row), point(0.5, 0.0, 0.0), point(9.0, 0.7500001)) is None
    assert violated(unit(row), point(0.25, 0.0, 0.0), point(9.0, 0.75)) is None


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_point_that_is_no_number_violates_nothing(value: float) -> None:
    row = Row({}, Fraction(5), inputs={0: ONE})
    assert violated(unit(row), point(value, 0.0, 0.0), point(0.0, 0.0)) is None


def test_a_candidate_is_replayed_and_held_against_its_own_point(affine) -> None:
    spec = parse_property(HEAD + CUBE + "(assert (<= Y_0 (* 2 X_1)))")  # y_0 = x_0 + 2 x_1, so only where x_0 = 0
    assert confirm(affine(WEIGHT), spec, 0, np.array([1e-3, 0.5, 0.5])) is None
    witness = confirm(affine(WEIGHT), spec, 0, np.array([-1.0, 0.5, 0.5]))
    assert witness is not None
    assert witness.input.tolist() == [[0.0, 0.5, 0.5]]


def test_only_outputs_are_known_within_rounding(affine) -> None:
    network = affine(WEIGHT)
    spec = unit(Row({}, ZERO, inputs={0: Fraction(1, 3), 1: Fraction(-1, 3)}), Row({0: ONE}, ONE, inputs={2: -ONE}))
    ((low, high),) = rounding_gaps(network.graph, spec.disjuncts, point(0.1, 0.2, 0.3))
    x = [Fraction(float(v)) for v in point(0.1, 0.2, 0.3)]
    exact = [(x[0] - x[1]) / 3, x[0] + 2 * x[1] - x[2] - 1]
    for lo, value, hi in zip(low, exact, high, strict=True):
        assert Fraction(lo) <= value <= Fraction(hi)
    assert high[0] == np.nextafter(low[0], np.inf)  # the exact quotient lies between two neighbours
    assert confirmed(spec.disjuncts[0], high)


def test_equality_of_inputs_is_exact_for_the_gap_too(affine) -> None:
    spec = parse_property(HEAD + CUBE + "(assert (= X_0 X_1))")
    ((low, high),) = rounding_gaps(affine(WEIGHT).graph, spec.disjuncts, point(0.1, 0.1, 0.0))
    assert low == high == (0.0, 0.0)
    assert confirmed(spec.disjuncts[0], high)
