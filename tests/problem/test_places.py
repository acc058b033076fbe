"""Questions about a last ArgMax or ArgMin, asked of the scores: the same points violate, ties included."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto

import netproof
from model.onnx_models import Model
from netproof.model.load import load_network
from netproof.model.network import Network
from netproof.problem.last.order import before_last_map
from netproof.problem.last.places import by_place, places_at
from netproof.problem.property import Box, Disjunct, Property, Row

WEIGHTS = np.float32([[1, -1, 2, 0], [0, 1, -1, 1], [1, 1, 0, -1]])  # whole, so that scores are exact and ties are many


def network(tmp_path: Path, op: str, *, softmax: bool = False, **attributes: int) -> Network:
    """(2, 3) -> places of the extremes of (2, 4) scores."""
    model = Model((2, 3)).add("MatMul", "x", WEIGHTS, out="s")
    if softmax:
        model.add("Softmax", "s", axis=1, out="t")
    proto = model.add(op, "t" if softmax else "s", **attributes).proto()
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return load_network(path)


def asking(outputs: int, *disjuncts: list[Row]) -> Property:
    box = Box((Fraction(-3),) * 6, (Fraction(3),) * 6)
    return Property(tuple(Disjunct(box, tuple(rows)) for rows in disjuncts), 6, outputs)


def row(coefs: dict[int, int], rhs: float, *, strict: bool = False) -> Row:
    return Row({i: Fraction(c) for i, c in coefs.items()}, Fraction(rhs), strict)


FORMS = [
    ("ArgMax", {"axis": 1, "keepdims": 0}),
    ("ArgMax", {"axis": 1, "keepdims": 1, "select_last_index": 1}),
    ("ArgMin", {"axis": 1, "keepdims": 0}),
    ("ArgMin", {"axis": -1, "keepdims": 0, "select_last_index": 1}),
    ("ArgMax", {"axis": 0, "keepdims": 0}),
    ("ArgMax", {"axis": 0, "keepdims": 1, "select_last_index": 1}),
]


@pytest.mark.parametrize(("op", "attributes"), FORMS)
def test_the_same_points_violate(op: str, attributes: dict[str, int], tmp_path: Path) -> None:
    net = network(tmp_path, op, **attributes)
    outputs = net.graph.output.size
    properties = [
        asking(outputs, [row({0: 1}, 2), row({0: -1}, -2)]),
        asking(outputs, [row({0: 1}, 1)], [row({1: -1}, -0.5)]),
        asking(outputs, [row({0: 1}, 3, strict=True), row({0: -1}, 0, strict=True), row({1: 2}, 1)]),
        asking(outputs, [row({0: -1}, -7)]),
    ]
    random = np.random.default_rng(0)
    points = random.integers(-2, 3, size=(300, 2, 3)).astype(np.float32)
    ties = 0
    for property in properties:
        graph, asked = before_last_map(net, by_place(net, property))
        whole = [d for d in asked.disjuncts if not d.rows]  # satisfied by every place: there is nothing to ask
        assert whole or asked.outputs == 8 or not asked.disjuncts, "the scores are asked"
        for point in points:
            answer = [Fraction(int(v)) for v in net.replay(point).reshape(-1)]
            scores = graph.forward(torch.from_numpy(point.astype(np.float64))[None])[0].reshape(-1)
            ties += len(set(scores.tolist())) < 8
            exact = [Fraction(v) for v in scores.tolist()]
            broken = any(all(r.holds({}, answer) for r in d.rows) for d in property.disjuncts)
            assert broken == any(all(r.holds({}, exact) for r in d.rows) for d in asked.disjuncts)
    assert ties > 100


def test_what_asks_for_more_than_places_stays_as_it_is(tmp_path: Path) -> None:
    net = network(tmp_path, "ArgMax", axis=1, keepdims=0)
    for rows in ([row({0: 1, 1: -1}, 0)], [Row({0: Fraction(1)}, Fraction(1), inputs={0: Fraction(1)})]):
        property = asking(2, rows)
        assert by_place(net, property) is property
        assert before_last_map(net, property)[0] is net.graph


@pytest.mark.parametrize("softmax", [False, True])
def test_decided_both_ways(softmax: bool, tmp_path: Path) -> None:
    net = network(tmp_path, "ArgMax", softmax=softmax, axis=1, keepdims=0)
    # Row 0 is near (1, 0, 0), whose scores are (1, -1, 2, 0); row 1 may be anything.
    lower, upper = [0.8, -0.1, -0.1, -1, -1, -1], [1.2, 0.1, 0.1, 1, 1, 1]
    lines = [f"(declare-const X_{i} Real)\n(declare-const Y_{i} Real)" for i in range(2)]
    lines += [f"(declare-const X_{i} Real)" for i in range(2, 6)]
    lines += [
        f"(assert (>= X_{i} {a}))\n(assert (<= X_{i} {b}))" for i, (a, b) in enumerate(zip(lower, upper, strict=True))
    ]
    for violation, expected in (
        ("(or (< Y_0 2) (> Y_0 2))", "unsat"),
        ("(= Y_0 3)", "unsat"),
        ("(= Y_0 2)", "sat"),
        ("(and (= Y_0 2) (= Y_1 1))", "sat"),
        ("(>= Y_1 4)", "unsat"),
    ):
        spec = tmp_path / "spec.vnnlib"
        spec.write_text("\n".join([*lines, f"(assert {violation})"]))
        verdict = netproof.verify(net, spec, device="cpu", timeout=60)
        assert str(verdict.status) == expected, violation


# --- what an answer says ---


def constant_place(tmp_path: Path) -> Network:
    """Place 2 everywhere where both inputs are positive: of a, b and a + b."""
    weights = np.float32([[1, 0, 1], [0, 1, 1]])
    proto = Model((1, 2)).add("MatMul", "x", weights, out="s").add("ArgMax", "s", axis=1, keepdims=0).proto()
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    path = tmp_path / "constant.onnx"
    path.write_bytes(proto.SerializeToString())
    return load_network(path)


POSITIVE = netproof.box([[0.125, 0.125]], [[1, 1]])


@pytest.mark.parametrize(
    ("ask", "margin"),
    [
        (lambda x, y: y > "1.99997", Fraction("0.00003")),
        (lambda x, y: 10 * y > 19, 1),
        (lambda x, y: (y > 1) & (y < 5), 1),
        (lambda x, y: (y >= 2) | (y < 0), 0),
        (lambda x, y: y == 2, 0),
        (lambda x, y: y != 1, 1),
        (lambda x, y: netproof.when(x.flat[0] + x.flat[1] <= 1, y > 1), None),  # rows of inputs are in no unit with it
    ],
)
def test_the_margin_is_of_the_place_in_the_units_as_written(ask: Any, margin: Any, tmp_path: Path) -> None:
    net = constant_place(tmp_path)
    x, y = netproof.variables(net)
    verdict = netproof.verify(net, POSITIVE, ask(x, y.flat[0]), device="cpu", threads=1)
    assert verdict.proved
    if margin is None:
        assert verdict.lower_bound is None
    else:
        assert verdict.lower_bound is not None
        assert verdict.lower_bound == pytest.approx(float(margin))
        assert Fraction(verdict.lower_bound) <= margin


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_no_margin_is_above_what_a_point_shows(op: str, tmp_path: Path) -> None:
    """Of places that the region has, by the rows as written: the largest of a disjunct is at least the margin."""
    net = network(tmp_path, op, axis=1, keepdims=0)
    rng = np.random.default_rng(3)
    proved = 0
    for _ in range(60):
        centre = rng.integers(-2, 3, 6)
        box = Box(tuple(Fraction(int(c)) - Fraction(1, 8) for c in centre), tuple(map(Fraction, centre.tolist())))
        rows = [
            row({int(rng.integers(2)): int(rng.choice([-3, -1, 1, 2]))}, float(rng.integers(-12, 12)) / 4)
            for _ in range(int(rng.integers(1, 3)))
        ]
        property = Property((Disjunct(box, tuple(rows)),), 6, 2)
        verdict = netproof.verify(net, property, device="cpu", threads=1, timeout=20)
        for _ in range(20):
            x = (centre - rng.integers(0, 9, 6) / 64).reshape(net.input_shape)
            y = [Fraction(int(v)) for v in net.replay(x).reshape(-1)]
            shown = max(r.value({}, y) - r.rhs for r in rows)
            assert verdict.lower_bound is None or Fraction(verdict.lower_bound) <= shown
        if verdict.witness is not None:
            y = [Fraction(int(v)) for v in verdict.witness.output.reshape(-1)]
            assert verdict.upper_bound is not None
            if verdict.arithmetic == "real":
                assert Fraction(verdict.upper_bound) == max(r.value({}, y) - r.rhs for r in rows)
        proved += verdict.proved and verdict.lower_bound is not None
    assert proved > 10


def test_a_place_that_is_certain_is_a_violation_in_real_arithmetic(tmp_path: Path) -> None:
    """The place is a sum of steps, whose rounding touches no place; a tie of the others does not either."""
    net = constant_place(tmp_path)
    _, y = netproof.variables(net)
    for holds in (y.flat[0] != 2, y.flat[0] <= 1):
        verdict = netproof.verify(net, POSITIVE, holds, device="cpu", threads=1)
        assert (verdict.status, verdict.reason, verdict.arithmetic) == ("sat", "", "real")


def test_a_place_that_ties_is_known_within_rounding_alone(tmp_path: Path) -> None:
    net = network(tmp_path, "ArgMax", axis=1, keepdims=0)
    at = [Fraction(1), Fraction(1), Fraction(0)] * 2  # scores 1, 0, 1, 1
    tied = Property((Disjunct(Box(tuple(at), tuple(at)), (row({0: 1}, 0),)),), 6, 2)
    assert places_at(net, np.array(at, dtype=np.float32)) == [(0, 3), (0, 3)]
    verdict = netproof.verify(net, tied, device="cpu", threads=1)
    assert (verdict.status, verdict.reason, verdict.arithmetic) == ("sat", "within rounding", "float32")
