"""Products of variables: exact at points, enclosed in bounds, decided by the search."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import netproof
from netproof.model.evaluate import evaluate
from netproof.model.load import read_network
from netproof.problem.derived import Form, Product, derived_spreads, derived_values
from netproof.problem.extend import extended
from netproof.problem.reduce import reduce
from netproof.problem.vnnlib.reader import parse_property
from support.asking import dense, gaussian
from support.queries import VERSION, network, reading, save_text

F = Fraction
IDENTITY = dense(([[1, 0], [0, 1]], [0, 0]))  # y = x


def asked(*assertions: str, low: str = "-1.0", high: str = "1.0") -> str:
    box = "".join(f"(assert (and (>= X[0,{i}] {low}) (<= X[0,{i}] {high})))" for i in (0, 1))
    return VERSION + network("f", {"X": "[1,2]"}, {"Y": "[1,2]"}) + box + "".join(f"(assert {a})" for a in assertions)


def test_products_are_values_of_their_own_and_shared() -> None:
    property = reading("(<= (* Y[0] Y[1]) 0.5)", "(or (<= (* 2.0 Y[1] (* 3.0 Y[0])) 1.0) (<= (* Y[0] Y[0]) X[0]))")
    one, two = Form(((("y", 0), 1),)), Form(((("y", 1), 1),))
    assert set(property.derived) == {Product(one, two), Product(one, one)}
    assert [p.is_square for p in property.derived] == [False, True]


def test_factors_have_whole_coefficients() -> None:
    (product,) = reading("(<= (* (+ X[0] (* 0.1 Y[0]) 0.25) Y[1]) 1.0)").derived
    assert {product.left.constant, product.right.constant} == {5, 0}
    assert {product.left.terms, product.right.terms} == {((("x", 0), 20), (("y", 0), 2)), ((("y", 1), 1),)}


@pytest.mark.parametrize("seed", range(30))
def test_values_are_those_of_the_polynomial(seed: int) -> None:
    """A random polynomial, evaluated as it is written and as it was read."""
    rng = random.Random(seed)

    def term(depth: int) -> tuple[str, str]:
        kind = rng.randint(0, 5 if depth else 1)
        if kind == 0:
            value = rng.randint(-8, 8) / 4
            return f"{value}", f"F('{value}')"
        if kind == 1:
            letter, i = rng.choice("XY"), rng.randint(0, 1)
            return f"{letter}[{i}]", f"{letter}[{i}]"
        word = "+-*"[min(kind - 2, 2)]
        parts = [term(depth - 1) for _ in range(rng.randint(2, 3))]
        return f"({word} {' '.join(p for p, _ in parts)})", "(" + f" {word} ".join(q for _, q in parts) + ")"

    text, python = term(4)
    property = reading(f"(<= {text} 0.375)")
    for _ in range(20):
        X, Y = ([F(rng.randint(-4, 4), 4) for _ in range(2)] for _ in range(2))
        value = eval(python, {"F": F, "X": X, "Y": Y})
        assert property.violated(X, Y) == (value <= F(3, 8))


@pytest.mark.parametrize("seed", range(10))
def test_the_graph_encloses_the_exact_products(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    net = read_network(gaussian(seed, (2, 4, 2)).save(tmp_path / "f.onnx"))
    text = "(<= (+ (* Y[0] Y[0]) (* X[0] Y[1] (+ X[1] Y[0])) (* (- Y[0] X[1]) (- Y[0] X[1])) X[0]) 1.0)"
    property = reading(text)
    graph = extended(net.graph, property.derived, (0,))
    x = rng.uniform(-1, 1, size=2).astype(np.float32).astype(np.float64)
    value, error = evaluate(graph, torch.from_numpy(x)[None].reshape(1, *net.input_shape))
    y, off = (t.flatten().tolist() for t in evaluate(net.graph, torch.from_numpy(x).reshape(1, *net.input_shape)))
    exact_x = [F(v) for v in x.tolist()]
    exact = derived_values(property.derived, exact_x, [F(v) for v in y])
    assert graph.output.size == 2 + len(property.derived) + 1
    found, around = value.flatten().tolist(), error.flatten().tolist()
    spreads = derived_spreads(property.derived, exact_x, [F(v) for v in y], [F(v) for v in off], exact)
    for k, (centre, spread) in enumerate(zip(exact, spreads, strict=True)):
        assert abs(F(found[2 + k]) - centre) <= F(around[2 + k]) + spread
        assert spread >= 0
    assert found[-1] == x[0]


@pytest.mark.parametrize("seed", range(20))
def test_spreads_hold_at_every_corner(seed: int) -> None:
    rng = random.Random(seed)
    property = reading("(<= (* Y[0] Y[1] (- Y[0] X[0]) (- Y[0] X[0])) 1.0)")
    x = [F(rng.randint(-9, 9), 7) for _ in range(2)]
    y, off = [F(rng.randint(-9, 9), 5) for _ in range(2)], [F(rng.randint(0, 3), 10) for _ in range(2)]
    middle = derived_values(property.derived, x, y)
    spread = derived_spreads(property.derived, x, y, off, middle)
    for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        moved = derived_values(property.derived, x, [v + s * e for v, s, e in zip(y, signs, off, strict=True)])
        assert all(abs(a - b) <= e for a, b, e in zip(moved, middle, spread, strict=True))


@pytest.mark.parametrize(
    ("assertions", "status"),
    [
        (("(>= (* Y[0,0] Y[0,1]) 1.01)",), "unsat"),
        (("(>= (* Y[0,0] Y[0,1]) 0.99)",), "sat"),
        (("(<= (+ (* Y[0,0] Y[0,0]) (* Y[0,1] Y[0,1])) -0.01)",), "unsat"),
        (("(<= (+ (* X[0,0] X[0,0]) (* X[0,1] X[0,1])) 0.25)", "(>= (+ Y[0,0] Y[0,1]) 0.72)"), "unsat"),
        (("(<= (+ (* X[0,0] X[0,0]) (* X[0,1] X[0,1])) 0.25)", "(>= (+ Y[0,0] Y[0,1]) 0.7)"), "sat"),
        (("(>= (* X[0,0] X[0,0] X[0,0]) 0.5)", "(<= Y[0,0] 0.79)"), "unsat"),
        (("(>= (* X[0,0] X[0,0] X[0,0]) 0.5)", "(<= Y[0,0] 0.8)"), "sat"),
        (("(< (* (- X[0,0] Y[0,0]) (- X[0,0] Y[0,0])) -0.001)",), "unsat"),
        (("(!= (* X[0,0] Y[0,1]) 0.25)", "(<= X[0,0] -0.5)"), "sat"),
    ],
)
def test_polynomial_questions_are_decided(assertions: tuple[str, ...], status: str, tmp_path: Path) -> None:
    path = IDENTITY.save(tmp_path / "f.onnx")
    verdict = netproof.verify(path, save_text(tmp_path, asked(*assertions)), timeout=60, device="cpu")
    assert verdict.status == status


def test_on_a_network_with_neurons_both_ways(tmp_path: Path) -> None:
    """|x₀| · |x₁| <= (|x₀|² + |x₁|²) / 2, with little room, and not with less."""
    absolute = dense(([[1, 0], [-1, 0], [0, 1], [0, -1]], [0] * 4), ([[1, 1, 0, 0], [0, 0, 1, 1]], [0, 0]))
    path = absolute.save(tmp_path / "f.onnx")
    squares = "(+ (* Y[0,0] Y[0,0]) (* Y[0,1] Y[0,1]))"
    for room, status in (("0.02", "unsat"), ("-0.02", "sat")):
        text = asked(f"(>= (* 2.0 Y[0,0] Y[0,1]) (+ {squares} {room}))")
        assert netproof.verify(path, save_text(tmp_path, text), timeout=60, device="cpu").status == status


def test_problems_have_a_column_for_each_product(tmp_path: Path) -> None:
    net = read_network(IDENTITY.save(tmp_path / "f.onnx"))
    (problem,) = reduce(net, parse_property(asked("(<= (+ (* Y[0,0] Y[0,1]) X[0,1]) 0.0)")))
    assert problem.rows.coef.tolist() == [[[0.0, 0.0, 1.0, 1.0]]]
    point = torch.tensor([[0.5, -0.25]], dtype=torch.float64).reshape(1, *net.input_shape)
    assert problem.graph.forward(point).tolist() == [[0.5, -0.25, -0.125, -0.25]]
