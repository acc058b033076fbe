"""Nodes of constants that have no folding of their own: computed as their converters write them, with a radius."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from mpmath import MPContext
from onnx_models import Model, ints

from netproof.errors import UnsupportedOp
from netproof.model.affine import Scale
from netproof.model.network import Network
from netproof.model.nonlinear import Relu
from netproof.model.ops import Nonlinear
from netproof.model.origin.cross_check import cross_check

mp = MPContext()  # of its own: its precision is nobody else's
mp.dps = 40
K = np.float32([[0.3, -1.7, 2.1]])
W = np.float32([[0.1, -0.7, 0.4], [1.3, 0.2, -0.9], [0.5, 0.6, 1.1]])


def exact(values: np.ndarray) -> list[Fraction]:
    return [Fraction(float(value)) for value in values.flatten()]


def digits(function: Callable[[object], object]) -> list[Fraction]:
    """A function of each entry of K, to many digits."""
    found = [function(mp.mpf(float(value))) for value in K.flatten()]
    return [Fraction(int(value.man)) * Fraction(2) ** int(value.exp) * (-1 if value < 0 else 1) for value in found]  # type: ignore[attr-defined]


def product() -> list[Fraction]:
    columns = [exact(W[:, j]) for j in range(3)]
    bias = exact(np.float32([0.1, 0.2, 0.3]))
    return [sum((a * b for a, b in zip(exact(K), column, strict=True)), bias[j]) for j, column in enumerate(columns)]


def thirds() -> list[Fraction]:
    """K / 3, clipped: a constant with a radius is clipped."""
    return [min(max(value / 3, Fraction(-1, 2)), Fraction(1, 2)) for value in exact(K)]


CASES: dict[str, tuple[Callable[[Model], Model], Callable[[], list[Fraction]]]] = {
    "Tanh": (lambda m: m.add("Tanh", K, out="k"), lambda: digits(mp.tanh)),
    "Exp": (lambda m: m.add("Exp", K, out="k"), lambda: digits(mp.exp)),
    "Gemm": (lambda m: m.add("Gemm", K, W, np.float32([0.1, 0.2, 0.3]), out="k"), product),
    "ReduceSumSquare": (
        lambda m: m.add("ReduceSumSquare", K, axes=[1], out="k"),
        lambda: [sum((value * value for value in exact(K)), Fraction(0))] * 3,
    ),
    "Clip of a quotient": (
        lambda m: m.add("Div", K, np.float32(3), out="t").add("Clip", "t", np.float32(-0.5), np.float32(0.5), out="k"),
        thirds,
    ),
    "Concat of quotients": (
        lambda m: m.add("Div", K, np.float32(3), out="t").add("Concat", "t", K, axis=1, out="b").add(
            "Slice", "b", ints(0), ints(3), ints(1), out="k"
        ),
        lambda: [value / 3 for value in exact(K)],
    ),
}  # fmt: skip


def added(network: Network) -> Scale:
    """The one node that adds the constant."""
    (found,) = [node.op for node in network.graph.nodes if isinstance(node.op, Scale)]
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_exact_constant_lies_within_its_radius(name: str) -> None:
    build, expected = CASES[name]
    network = build(Model((1, 3))).add("Add", "x", "k").network()
    assert not any(isinstance(node.op, Nonlinear) for node in network.graph.nodes)
    op = added(network)
    assert op.add is not None
    assert op.radius is not None
    radius = op.radius.offset()
    assert radius is not None
    for value, width, number in zip(
        op.add.expand(1, 3).flatten().tolist(), radius.expand(1, 3).flatten().tolist(), expected(), strict=True
    ):
        assert abs(Fraction(value) - number) <= Fraction(width) <= Fraction(1, 10**13)
    cross_check(network, torch.randn(3, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))


def test_weights_that_are_normalised_stay_weights() -> None:
    """As F.linear(x, F.normalize(w)) is exported: a matrix of constants, not a product of variables."""
    model = Model((1, 3)).add("ReduceL2", W, axes=[1], keepdims=1, out="n")
    model = model.add("Clip", "n", np.float32(1e-12), out="c").add("Expand", "c", ints(3, 3), out="e")
    model = model.add("Div", W, "e", out="u").add("Transpose", "u", perm=[1, 0], out="t").add("MatMul", "x", "t")
    network = model.network()
    assert [type(node.op).__name__ for node in network.graph.nodes] == ["Input", "Linear"]
    cross_check(network, torch.randn(3, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))


def test_a_cell_that_begins_with_zeros_is_read() -> None:
    """As torch exports a cell: the product of a state of zeros is a constant."""
    model = Model((1, 3)).add("Gemm", np.zeros((1, 3), np.float32), W, np.float32([0.1, 0.2, 0.3]), out="s")
    network = model.add("Sigmoid", "s", out="g").add("Relu", "x", out="r").add("Mul", "g", "r").network()
    assert [type(node.op) for node in network.graph.nodes if isinstance(node.op, Nonlinear)] == [Relu]


@pytest.mark.parametrize("op", ["ArgMax", "Log"])
def test_what_has_no_float_result_is_refused(op: str) -> None:
    model = Model((1, 3)).add(op, K, out="k", **({"axis": 1} if op == "ArgMax" else {}))
    with pytest.raises(UnsupportedOp, match="fold"):
        model.add("Cast", "k", to=1, out="f").add("Add", "x", "f").network()
