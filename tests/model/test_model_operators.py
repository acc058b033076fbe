"""Every operator against onnxruntime, and every affine op against the matrix that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from op_cases import CASES
from torch import Tensor

from netproof.model.evaluate import evaluate
from netproof.model.graph import Node
from netproof.model.moves import Concat, Pad
from netproof.model.ops import Affine
from netproof.model.origin.cross_check import cross_check


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", CASES)
def test_forward_equals_onnxruntime(name: str) -> None:
    network = CASES[name]().network()
    points = normal(4, *network.input_shape).float().double()
    values, _ = evaluate(network.graph, points)
    for point, value in zip(points, values, strict=True):
        answer = torch.from_numpy(network.replay(point.numpy()).astype(np.float64))
        assert answer.shape == value.shape
        assert torch.allclose(answer, value, rtol=1e-5, atol=1e-5)
    cross_check(network, points)


@pytest.mark.parametrize("name", CASES)
def test_affine_ops_are_the_matrix_they_stand_for(name: str) -> None:
    graph = CASES[name]().network().graph
    for node in graph.nodes:
        if isinstance(node.op, Affine):
            check_affine(node.op, [graph.nodes[i] for i in node.inputs], node)
            if node.op.radius is not None:
                check_affine(node.op.radius, [graph.nodes[i] for i in node.inputs], node)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_that_of_automatic_differentiation(name: str) -> None:
    graph = CASES[name]().network().graph
    x = normal(3, *graph.input.shape).requires_grad_(True)
    y = graph.forward(x)
    coef = normal(*y.shape, seed=2)
    expected = torch.autograd.grad((coef * y).sum(), x)[0] if y.requires_grad else torch.zeros_like(x)
    with torch.no_grad():
        found = graph.gradient(graph.values(x), coef)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


def columns(op: Affine, inputs: list[Node]) -> Tensor:
    """The op's matrix, (all inputs, output), from its linear part on unit vectors."""
    total = sum(n.size for n in inputs)
    units = torch.eye(total, dtype=torch.float64)
    parts = torch.split(units, [n.size for n in inputs], dim=1)
    xs = [part.reshape(total, *n.shape) for part, n in zip(parts, inputs, strict=True)]
    return op.forward(*xs).reshape(total, -1)


def check_affine(op: Affine, inputs: list[Node], node: Node) -> None:
    matrix = columns(op.linear(), inputs)
    units = torch.eye(node.size, dtype=torch.float64).reshape(node.size, *node.shape)
    adjoint = torch.cat([a.reshape(node.size, -1) for a in op.adjoint(units)], dim=1)
    assert torch.equal(adjoint, matrix.T)  # one product a sum: nothing rounds
    zeros = [torch.zeros(1, *n.shape, dtype=torch.float64) for n in inputs]
    offset = op.offset()
    at_zero = op.forward(*zeros)[0]
    assert torch.equal(at_zero, torch.zeros(node.shape).double() if offset is None else offset.expand(node.shape))
    assert torch.equal(columns(op.absolute().linear(), inputs), matrix.abs())
    assert torch.equal(op.absolute().forward(*zeros)[0], at_zero.abs())
    check_fan(op, matrix, offset)
    check_inner_product(op, inputs, node)
    check_batches(op, inputs, node)


def check_fan(op: Affine, matrix: Tensor, offset: Tensor | None) -> None:
    """γ_fan must cover the roundings of the longest sum: n products make n, n bare terms n − 1."""
    terms = (matrix != 0).double()
    added = offset is not None and not isinstance(op, Pad | Concat)  # these two add nothing: they place it
    longest = max(int(terms.sum(0).max()) + added, int(terms.sum(1).max()))
    products = not set(matrix.unique().tolist()) <= {-1.0, 0.0, 1.0}
    assert op.fan >= longest - (not products)
    if op.fan == 0:
        assert matrix.min() >= 0.0


def check_inner_product(op: Affine, inputs: list[Node], node: Node) -> None:
    xs = [normal(3, *n.shape, seed=i) for i, n in enumerate(inputs)]
    coef = normal(3, *node.shape, seed=9)
    left = (coef * op.linear().forward(*xs)).reshape(3, -1).sum(1)
    pairs = zip(op.adjoint(coef), xs, strict=True)
    right = sum((a * x).reshape(3, -1).sum(1) for a, x in pairs)
    assert torch.allclose(left, right, rtol=1e-12, atol=1e-12)


def check_batches(op: Affine, inputs: list[Node], node: Node) -> None:
    empty = [torch.zeros(0, *n.shape, dtype=torch.float64) for n in inputs]
    assert op.forward(*empty).shape == (0, *node.shape)
    back = op.adjoint(torch.zeros(0, *node.shape, dtype=torch.float64))
    assert [tuple(a.shape) for a in back] == [(0, *n.shape) for n in inputs]
    single = op.to(torch.device("cpu"), torch.float32)
    xs = [normal(2, *n.shape) for n in inputs]
    narrow = single.forward(*(x.float() for x in xs))
    assert narrow.dtype == torch.float32
    assert torch.allclose(narrow.double(), op.forward(*xs), rtol=1e-4, atol=1e-4)
    coef = normal(2, *node.shape)
    for a, b in zip(single.adjoint(coef.float()), op.adjoint(coef), strict=True):
        assert a.shape == b.shape
        assert torch.allclose(a.double(), b, rtol=1e-4, atol=1e-4)
