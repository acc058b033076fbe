"""Constraints among inputs and between inputs and outputs, end to end: each is one more row with its multiplier."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import netproof
from netproof.core.verdict import Status
from netproof.problem.property import Ball, Disjunct, Property, Row
from netproof.problem.vnnlib.reader import parse_property
from support.asking import ask, dense, gaussian, sharpened, whole_box
from support.exact import decide, milp_minimum, rows_of
from support.random_graphs import Pick, Question, random_question, seeded

METHODS = ("auto", "beta", "lirpa", "input-split", "babsr-lp", "mip", "bdd")
every_method = pytest.mark.parametrize("method", METHODS)
MARGIN = Fraction(1, 50)
COUNT = 6  # problems each way


# --- random problems that need the multiplier ---


def some(pick: Pick, count: int) -> dict[int, Fraction]:
    """Coefficients of some of `count` variables."""
    return {i: Fraction(c, 2) for i in range(count) if (c := pick(-4, 4))} or {pick(0, count - 1): Fraction(1)}


def related(seed: int) -> Question:
    """A row of outputs, one or two of inputs, and every other time one of both, on a box of two or three inputs."""
    pick = seeded(seed)
    inputs = pick(2, 3)
    rows = [Row(some(pick, 2), Fraction(0))]
    rows += [Row({}, Fraction(pick(-2, 2), 4), inputs=some(pick, inputs)) for _ in range(pick(1, 2))]
    if pick(0, 1):
        rows.append(Row(some(pick, 2), Fraction(0), inputs=some(pick, inputs)))
    disjunct = Disjunct(whole_box([-1] * inputs, [1] * inputs), tuple(rows))
    return Question(gaussian(seed, (inputs, 5, 3, 2)), Property((disjunct,), inputs, 2, "related"))


def outputs_alone(question: Question) -> Question:
    """Without the rows that read inputs."""
    (disjunct,) = question.property.disjuncts
    kept = replace(disjunct, rows=tuple(row for row in disjunct.rows if not row.inputs))
    return replace(question, property=replace(question.property, disjuncts=(kept,)))


def least_value(question: Question) -> float:
    (disjunct,) = question.property.disjuncts
    return milp_minimum(question.graph, *question.box, *rows_of(disjunct, question.graph.output.size)).value


@cache
def problems(margin: Fraction) -> tuple[Question, ...]:
    """Those whose least value is `margin`, where the rows of outputs alone would be violated by far."""

    def search() -> Iterator[Question]:
        for seed in itertools.count():
            question = sharpened(related(seed), [margin])
            if least_value(outputs_alone(question)) < -2 * MARGIN:
                yield question

    return tuple(itertools.islice(search(), COUNT))


@every_method
def test_what_holds_only_with_the_constraint_is_proved(method: str, tmp_path: Path) -> None:
    for question in problems(MARGIN):
        assert ask(question.network, question.property, tmp_path, method=method).status == Status.UNSAT


@every_method
def test_what_fails_within_the_constraint_has_a_witness(method: str, tmp_path: Path) -> None:
    for question in problems(-MARGIN):
        assert ask(question.network, question.property, tmp_path, method=method).status == Status.SAT


@pytest.mark.parametrize("method", ["auto", "beta", "lirpa", "babsr-lp"])
def test_the_search_finds_witnesses_without_an_attack(method: str, tmp_path: Path) -> None:
    for question in problems(-MARGIN)[:4]:
        verdict = ask(question.network, question.property, tmp_path, method=method, attack=False)
        assert verdict.status == Status.SAT


def test_without_the_constraint_they_fail(tmp_path: Path) -> None:
    for question in map(outputs_alone, problems(MARGIN)):
        assert ask(question.network, question.property, tmp_path).status == Status.SAT


# --- any network and any rows: never a wrong answer ---


def crossed(seed: int) -> Question:
    """A random network of any kind of node, and random disjuncts with rows of inputs and of both among theirs."""
    question = random_question(seeded(seed), neurons=8, inputs=3)
    pick = seeded(seed + 1000)
    inputs, outputs = question.graph.input.size, question.graph.output.size

    def row() -> Row:
        coefs = some(pick, outputs) if pick(0, 2) == 0 else {}
        return Row(coefs, Fraction(pick(-6, 6), 4), bool(pick(0, 1)), some(pick, inputs))

    disjuncts = tuple(
        replace(d, rows=(*d.rows, *(row() for _ in range(pick(0, 2))))) for d in question.property.disjuncts
    )
    return replace(question, property=replace(question.property, disjuncts=disjuncts))


@every_method
def test_the_verdict_agrees_with_an_oracle(method: str, tmp_path: Path) -> None:
    decided = 0
    for seed in range(20):
        question = crossed(seed)
        expected = decide(question.graph, question.property.disjuncts)
        if expected == "tie":
            continue
        verdict = ask(question.network, question.property, tmp_path, method=method)
        assert verdict.status == expected, seed
        decided += 1
    assert decided >= 15


# --- equations ---


def on_a_line(seed: int, margin: float) -> Question:
    """x_0 − c·x_1 = 1/4 on two inputs, and a row of outputs whose least value there is `margin`, to within a grid."""
    pick, network = seeded(seed), gaussian(seed, (2, 5, 3, 2))
    coefs, c = some(pick, 2), Fraction(pick(1, 3), 2)
    second = np.linspace(-1, 1, 20001)
    x = np.stack([0.25 + float(c) * second, second], 1)
    points = torch.from_numpy(x[np.abs(x[:, 0]) <= 1])[:, None]
    y = network.graph.forward(points).flatten(1)
    least = min(sum(float(c) * y[:, i] for i, c in coefs.items()).tolist())
    line = {0: Fraction(1), 1: -c}
    rows = (
        Row(coefs, Fraction(least - margin).limit_denominator(1 << 20)),
        Row({}, Fraction(1, 4), inputs=line),
        Row({}, Fraction(-1, 4), inputs={i: -v for i, v in line.items()}),
    )
    return Question(network, Property((Disjunct(whole_box([-1, -1], [1, 1]), rows),), 2, 2, "line"))


@every_method
def test_what_holds_on_a_line_is_proved(method: str, tmp_path: Path) -> None:
    for seed in range(4):
        question = on_a_line(seed, 0.03)
        assert ask(question.network, question.property, tmp_path, method=method).status == Status.UNSAT


@every_method
def test_what_fails_on_a_line_is_never_proved(method: str, tmp_path: Path) -> None:
    for seed in range(4):
        question = on_a_line(seed, -0.03)
        verdict = ask(question.network, question.property, tmp_path, method=method, timeout=5)
        assert verdict.status in (Status.SAT, Status.UNKNOWN, Status.TIMEOUT)


HEAD = "".join(f"(declare-const {kind}_{i} Real)" for kind in "XY" for i in range(2))
SQUARE = "(assert (<= 0 X_0 1)) (assert (<= 0 X_1 1))"


def spec(text: str) -> Property:
    return parse_property(HEAD + SQUARE + text)


@every_method
def test_an_equation_that_no_float32_satisfies_is_not_decided(method: str, tmp_path: Path) -> None:
    """Real numbers with x_0 + x_1 = 0.3 break it, and no float32 do: neither answer would be true."""
    property = spec("(assert (= (+ X_0 X_1) 0.3)) (assert (<= Y_0 1000))")
    verdict = ask(gaussian(3, (2, 4, 3, 2)), property, tmp_path, method=method, timeout=2)
    assert verdict.status in (Status.UNKNOWN, Status.TIMEOUT)


@every_method
def test_equal_inputs_are_found(method: str, tmp_path: Path) -> None:
    property = spec("(assert (= X_0 X_1)) (assert (<= Y_0 1000))")
    assert ask(gaussian(3, (2, 4, 3, 2)), property, tmp_path, method=method).status == Status.SAT


# --- rows of inputs alone ---


@every_method
@pytest.mark.parametrize("attack", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "(assert (>= (+ X_0 X_1) 5))",
        "(assert (>= (+ X_0 X_1) 5)) (assert (<= Y_0 1000))",
        "(assert (>= (+ X_0 X_1) 1.2)) (assert (<= (+ X_0 X_1) 1.1)) (assert (<= Y_0 1000))",
        "(assert (>= (+ X_0 X_1) 1.2)) (assert (<= (- X_0 X_1) -0.9)) (assert (>= (- X_0 (* 3 X_1)) -2.5))",
        "(assert (or (and (= X_0 X_1) (> (- X_0 X_1) 0.1)) (and (<= X_0 0.5) (>= (+ X_0 X_1) 1.6))))",
    ],
)
def test_an_empty_polytope_is_violated_by_nothing(text: str, method: str, attack: bool, tmp_path: Path) -> None:
    verdict = ask(gaussian(3, (2, 5, 3, 2)), spec(text), tmp_path, method=method, attack=attack)
    assert verdict.status == Status.UNSAT


@every_method
@pytest.mark.parametrize("attack", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "(assert (>= (+ X_0 X_1) 1.9))",
        "(assert (>= (+ X_0 X_1) 2))",
        "(assert (>= (+ X_0 X_1) 1.2)) (assert (<= (+ X_0 X_1) 1.2001)) (assert (<= (- X_0 X_1) -0.7))",
        "(assert (or (> (- X_0 X_1) 1) (and (<= X_0 0.5) (< 1.4 (+ X_0 X_1)))))",
    ],
)
def test_a_polytope_is_violated_by_its_points(text: str, method: str, attack: bool, tmp_path: Path) -> None:
    verdict = ask(gaussian(3, (2, 5, 3, 2)), spec(text), tmp_path, method=method, attack=attack)
    assert verdict.status == Status.SAT


@pytest.mark.parametrize("method", ["beta", "lirpa", "bdd"])
def test_a_row_that_the_box_implies_costs_nothing(method: str, tmp_path: Path) -> None:
    """Its value is −1000 wherever the others are small: a search that had to weigh it would split for long."""
    question = problems(MARGIN)[1]
    (disjunct,) = question.property.disjuncts
    idle = Row({}, Fraction(1000), inputs={0: Fraction(1), 1: Fraction(1)})
    more = replace(question.property, disjuncts=(replace(disjunct, rows=(*disjunct.rows, idle)),))
    plain, other = (ask(question.network, p, tmp_path, method=method) for p in (question.property, more))
    assert plain.status == other.status == Status.UNSAT
    assert 0 < plain.stats.domains == other.stats.domains


# --- networks of other shapes, balls, ranges ---


@every_method
def test_a_network_whose_output_is_its_input(method: str, tmp_path: Path) -> None:
    network = dense((np.eye(2), np.zeros(2)))
    for text, expected in (
        ("(assert (>= (- Y_0 X_0) 0.001))", Status.UNSAT),
        ("(assert (>= (+ Y_0 X_1) 2.001))", Status.UNSAT),
        ("(assert (>= (+ Y_0 X_1) 1.999))", Status.SAT),
    ):
        assert ask(network, spec(text), tmp_path, method=method).status == expected


def test_a_model_that_only_renames_its_input(tmp_path: Path) -> None:
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", sides[:1], sides[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "same.onnx")
    network = netproof.load_network(tmp_path / "same.onnx")
    assert netproof.verify(network, spec("(assert (> Y_0 (+ X_0 0.001)))"), device="cpu").status == Status.UNSAT
    assert netproof.verify(network, spec("(assert (>= Y_0 X_0))"), device="cpu").status == Status.SAT


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("method", ["auto", "lirpa", "babsr-lp", "mip", "bdd"])
def test_a_constraint_cuts_a_ball(method: str, p: int, tmp_path: Path) -> None:
    """x_0 + x_1 is at most 1 (ℓ1) or √2 (ℓ2) on the unit ball; near to that y_0 = |x_0| can be 0.25, and never 0.9."""
    network = dense(([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    ball = Ball((Fraction(0), Fraction(0)), Fraction(1), p)
    most = {1: Fraction(19, 20), 2: Fraction(7, 5)}[p]
    above = Row({}, -most, inputs={0: Fraction(-1), 1: Fraction(-1)})  # x_0 + x_1 >= most
    level = Row({}, Fraction(0), inputs={0: Fraction(1), 1: Fraction(-1)})  # x_0 <= x_1
    for limit, expected in ((Fraction(9, 10), Status.UNSAT), (Fraction(1, 4), Status.SAT)):
        rows = (above, level, Row({0: Fraction(-1)}, -limit))  # y_0 >= limit
        property = Property((Disjunct(whole_box([-1, -1], [1, 1]), rows, ball),), 2, 1, "ball")
        assert ask(network, property, tmp_path, method=method).status == expected


def test_ranges_are_over_the_box(tmp_path: Path) -> None:
    path = gaussian(3, (2, 4, 3, 2)).save(tmp_path / "network.onnx")
    found = [
        netproof.bounds(path, spec(text), method="exact", device="cpu", threads=1)
        for text in ("", "(assert (<= X_0 X_1))", "(assert (<= X_0 Y_1))")
    ]
    for one in found[1:]:
        assert one.lower.tolist() == found[0].lower.tolist()
        assert one.upper.tolist() == found[0].upper.tolist()
        assert one.lower.shape == (1, 2)
    assert [one.exact for one in found] == [True, False, True]
    assert [one.reason for one in found] == ["", "constraints among inputs play no part", ""]


# --- pinned inputs ---


PINNED = "(assert (= X_0 {0}))(assert (= X_1 {0}))(assert (<= Y_0 1000))"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PINNED.format(0.7) + "(assert (< (+ X_0 X_1) 1.4))", {Status.UNSAT, Status.UNKNOWN, Status.TIMEOUT}),
        (PINNED.format(0.1) + "(assert (> (+ X_0 X_1) 0.2))", {Status.UNSAT, Status.UNKNOWN, Status.TIMEOUT}),
        (PINNED.format(0.7) + "(assert (>= (+ X_0 X_1) 1.4))", {Status.SAT}),
        (PINNED.format(0.1) + "(assert (<= (+ X_0 X_1) 0.2))", {Status.SAT}),
        (
            "(assert (= X_0 0.7))(assert (<= 0 X_1 1))(assert (<= Y_0 1000))(assert (> (- X_1 X_0) 0.3))",
            {Status.UNSAT, Status.UNKNOWN, Status.TIMEOUT},
        ),
    ],
)
@pytest.mark.parametrize("method", ["auto", "lirpa"])
def test_the_float32_in_a_pinned_input_does_not_decide_a_row(
    method: str, text: str, expected: set[Status], tmp_path: Path
) -> None:
    """A row is held against the number as written: the nearest float32 lies on the other side of it."""
    path = gaussian(3, (2, 4, 3, 2)).save(tmp_path / "network.onnx")
    found = netproof.verify(path, parse_property(HEAD + text), method=method, device="cpu", threads=1, timeout=2)
    assert found.status in expected
