"""Rows of products as one quadratic form on a box: below the exact values, and tight where they cancel."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from netproof.bounds.boxes import bounder as bounder_module
from netproof.bounds.boxes.bounder import BoxBounder
from netproof.bounds.boxes.quadratic import Operands, Remainder, _by_eigenvectors, last_products
from netproof.bounds.linear.region import BoxRegion
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval, LinearForm
from netproof.model.affine import Linear
from netproof.model.graph import Graph, Node
from netproof.model.moves import Concat, Reshape, SumAxes
from netproof.model.nonlinear import Product, Relu
from netproof.model.ops import Input, Op
from netproof.problem.problem import InputSet, Rows
from support.rational import exact

CPU = torch.device("cpu")


def random(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def quadratic_net(seed: int, hidden: int = 5, products: int = 3, inputs: int = 3) -> Graph:
    """relu, then products of two affine forms of the input and of what relu gives, added up."""
    nodes = [Node(0, Input(), (), (inputs,), "x")]

    def add(op: Op, *at: int) -> int:
        shape = tuple(op.forward(*(torch.zeros(0, *nodes[i].shape, dtype=torch.float64) for i in at)).shape[1:])
        nodes.append(Node(len(nodes), op, at, shape, "n"))
        return len(nodes) - 1

    relu = add(Relu(), add(Linear(random(seed, hidden, inputs), 0.5 * random(seed + 1, hidden)), 0))
    both = add(Concat(0, (inputs, hidden), (None, None)), 0, relu)
    operands = add(Linear(random(seed + 2, 2 * products, inputs + hidden), random(seed + 3, 2 * products)), both)
    product = add(Product(), add(Reshape((2 * products,), (2, products)), operands))
    add(SumAxes((products,), (0,)), product)
    return Graph(tuple(nodes))


def both_signs(outputs: int = 1) -> Rows:
    coef = torch.tensor([[[1.0]], [[-1.0]]], dtype=torch.float64).expand(2, 1, outputs)
    none, all_ = torch.zeros(2, 1, dtype=torch.bool), torch.ones(2, 1, dtype=torch.bool)
    return Rows(coef, torch.zeros(2, 1, dtype=torch.float64), none, all_)


def bounds_on(graph: Graph, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Least and largest of the output on boxes (n, input)."""
    hull = InputSet(lower.amin(0), upper.amax(0))
    boxes, count = BoxBounder(graph, both_signs(), hull, CPU), len(lower)
    target = torch.arange(2).repeat_interleave(count)
    found = boxes.bound(lower.repeat(2, 1), upper.repeat(2, 1), target, boxes.unknown(2 * count), Deadline())
    return found.bound[:count], -found.bound[count:]


@pytest.mark.parametrize("width", [2.0, 0.5, 1e-3, 1e-9])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_at_exact_points(seed: int, width: float) -> None:
    graph, count = quadratic_net(seed), 12
    centre = random(seed + 9, count, 3)
    radius = width * random(seed + 10, count, 3).abs()
    radius[0] = 0.0
    radius[1, 1] = 0.0
    lower, upper = centre - radius, centre + radius
    least, most = bounds_on(graph, lower, upper)
    for i in range(count):
        corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 3)
        share = torch.cat([torch.rand(20, 3, dtype=torch.float64), corners])
        points = (lower[i] + share * (upper[i] - lower[i])).maximum(lower[i]).minimum(upper[i])
        for x in points:
            value = _exact_value(graph, x)
            assert Fraction(float(least[i])) <= value <= Fraction(float(most[i]))


def _exact_value(graph: Graph, x: Tensor) -> Fraction:
    """The output in rational arithmetic."""

    def affine(op: Linear, z: list[Fraction]) -> list[Fraction]:
        assert op.bias is not None
        rows = zip(op.weight, exact(op.bias), strict=True)
        return [sum((w * v for w, v in zip(exact(row), z, strict=True)), b) for row, b in rows]

    first, second = (node.op for node in graph.nodes if isinstance(node.op, Linear))
    inputs = list(exact(x))
    relu = [max(v, Fraction(0)) for v in affine(first, inputs)]
    operands = affine(second, inputs + relu)
    half = len(operands) // 2
    return sum((a * b for a, b in zip(operands[:half], operands[half:], strict=True)), Fraction(0))


@pytest.mark.parametrize("seed", range(6))
def test_a_form_is_above_its_bound_everywhere(seed: int) -> None:
    n = 2 + seed % 3
    form, slope = random(seed, 40, n, n), 3.0 * random(seed + 1, 40, n)
    form = form / 2 + form.mT / 2
    form[:10] = form[:10] @ form[:10]  # not negative
    form[10:20] = -(form[10:20] @ form[10:20])
    form[20] = 0.0
    tilt, loss = _by_eigenvectors(form, slope)
    for corner in itertools.product((-1.0, -0.4, 0.0, 0.7, 1.0), repeat=n):
        u = torch.tensor(corner, dtype=torch.float64)
        for i in range(len(form)):
            exactly = sum(
                (exact(form[i, j, k].reshape(1))[0] * Fraction(corner[j]) * Fraction(corner[k])
                 for j in range(n) for k in range(n)), Fraction(0)
            )  # fmt: skip
            below = sum((Fraction(float(tilt[i, j])) * Fraction(float(u[j])) for j in range(n)), Fraction(0))
            assert exactly >= below - Fraction(float(loss[i]))
    assert float(loss[:10].max()) <= float((form[:10].abs().sum((1, 2)) + slope[:10].abs().sum(1)).max())


def test_a_convex_row_is_bounded_by_its_least_value() -> None:
    """(x + y)² + (x − 2y)² as products: the least on a box is found, where planes of each product are far below."""
    weight = torch.tensor([[1.0, 1.0], [1.0, -2.0], [1.0, 1.0], [1.0, -2.0]], dtype=torch.float64)
    nodes = [
        Node(0, Input(), (), (2,), "x"),
        Node(1, Linear(weight, torch.zeros(4, dtype=torch.float64)), (0,), (4,), "h"),
        Node(2, Reshape((4,), (2, 2)), (1,), (2, 2), "o"),
        Node(3, Product(), (2,), (2,), "p"),
        Node(4, SumAxes((2,), (0,)), (3,), (1,), "y"),
    ]
    graph = Graph(tuple(nodes))
    lower, upper = torch.tensor([[0.5, -1.0]], dtype=torch.float64), torch.tensor([[2.5, 1.0]], dtype=torch.float64)
    least, _ = bounds_on(graph, lower, upper)
    grid = torch.cartesian_prod(torch.linspace(0.5, 2.5, 201), torch.linspace(-1, 1, 201)).double()
    true = float(graph.forward(grid).min())
    assert true - 1e-4 * abs(true) <= float(least[0]) + 1e-3
    assert float(least[0]) <= true


def test_it_never_loses_against_planes_and_mostly_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = quadratic_net(3)
    lower = random(5, 30, 3)
    upper = lower + 0.2
    least, most = bounds_on(graph, lower, upper)
    monkeypatch.setattr(bounder_module, "last_products", lambda graph: ())
    worse, above = bounds_on(graph, lower, upper)
    assert bool((least >= worse).all())
    assert bool((most <= above).all())
    assert float(((most - least) / (above - worse)).median()) < 0.9


def test_only_products_at_the_end_are_taken() -> None:
    graph = quadratic_net(0)
    product = next(node.index for node in graph.nodes if isinstance(node.op, Product))
    assert last_products(graph) == (product,)
    nodes = [*graph.nodes, Node(len(graph.nodes), Relu(), (graph.output.index,), graph.output.shape, "more")]
    assert last_products(Graph(tuple(nodes))) == ()
    assert last_products(quadratic_net(0, inputs=17)) == ()


@pytest.mark.parametrize("seed", range(4))
def test_operands_lie_where_their_lines_say(seed: int) -> None:
    boxes, slots, inputs = 3, 4, 2
    lower, radius = random(seed, boxes, inputs), random(seed + 1, boxes, inputs).abs()
    region = BoxRegion.of(lower, lower + 2 * radius)
    coef, const = random(seed + 2, 2, boxes * slots, inputs), -random(seed + 3, 2, boxes * slots).abs() - 3.0
    coef[1] = -coef[0] + 0.1 * coef[1]
    box, slot = torch.arange(boxes).repeat_interleave(slots), torch.arange(slots).repeat(boxes)
    wide = torch.full((boxes, slots), 50.0, dtype=torch.float64)
    found = Operands.of(Interval(-wide, wide), region, (box, slot), (coef, const))
    for share in itertools.product((0.0, 0.3, 1.0), repeat=inputs):
        x = lower + torch.tensor(share, dtype=torch.float64) * 2 * radius
        least, most = (coef[0] * x[box]).sum(1) + const[0], -((coef[1] * x[box]).sum(1) + const[1])
        line = (found.slope.flatten(1, 2)[box, slot] * (x - region.centre)[box]).sum(1)
        middle, off = found.middle.flatten(1)[box, slot], found.off.flatten(1)[box, slot]
        assert bool((line + middle - off <= least + 1e-12).all())
        assert bool((line + middle + off >= most - 1e-12).all())


def test_a_remainder_of_two_nodes_is_the_sum_of_both() -> None:
    coef, region = random(0, 2, 1, 3), BoxRegion.of(random(1, 2, 2), random(1, 2, 2) + 1.0)
    operands = [Operands(random(k, 2, 2, 3, 2), random(k + 1, 2, 2, 3), random(k + 2, 2, 2, 3).abs()) for k in (3, 7)]
    one, other = (Remainder.of(coef, each, region.radius) for each in operands)
    both = one.plus(other)
    planes = LinearForm(torch.zeros(2, 1, 2, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64))
    form, loss = both.joined_to(planes, region)
    assert form.coef.shape == (2, 1, 2)
    assert loss.shape == (2, 1)
    assert torch.allclose(both.form, one.form + other.form)
    assert bool((loss >= 0).all())
