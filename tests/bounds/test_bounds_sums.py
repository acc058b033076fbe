"""Intervals of scaled nodes, of sums of two, and of maxima: sound in exact arithmetic, and tight."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.core.forms import Interval
from netproof.model.affine import Linear, Scale, Sum
from netproof.model.graph import Graph, Node
from netproof.model.moves import Index, Reshape
from netproof.model.nonlinear import Relu
from netproof.model.ops import Input
from netproof.problem.problem import InputSet
from support.awkward import awkward_numbers
from support.rational import exact

CPU = torch.device("cpu")


def intervals(graph: Graph, low: list[float], high: list[float]) -> list[Interval]:
    box = InputSet(*(torch.tensor(side, dtype=torch.float64) for side in (low, high)))
    return interval_bounds(graph, Region.of(box, CPU, torch.float64)).of


def chain(*nodes: Node) -> Graph:
    return Graph((Node(0, Input(), (), (3,), "x"), *nodes))


def extreme(kind: str) -> Graph:
    """max(x, w·x) as the reader writes it, or min."""
    weights = torch.tensor(awkward_numbers(np.random.default_rng(0))(3), dtype=torch.float64)
    first = Node(1, Scale(weights, weights / 7), (0,), (3,), "b")
    between = (0, 1) if kind == "max" else (1, 0)
    hinge = Node(3, Relu(), (2,), (3,), "r")
    last = Node(4, Sum((1, 1) if kind == "max" else (1, -1)), (1, 3), (3,), "y")
    return chain(first, Node(2, Sum((1, -1)), between, (3,), "d"), hinge, last)


def exactly(graph: Graph, x: list[Fraction]) -> list[list[Fraction]]:
    """All nodes of scales, sums and ReLUs at a point, in rationals."""
    values: list[list[Fraction]] = [x]
    for node in graph.nodes[1:]:
        xs = [values[i] for i in node.inputs]
        if isinstance(node.op, Scale):
            mult = [Fraction(1)] * 3 if node.op.mult is None else exact(node.op.mult.expand(3))
            add = [Fraction(0)] * 3 if node.op.add is None else exact(node.op.add.expand(3))
            values.append([m * v + a for m, v, a in zip(mult, xs[0], add, strict=True)])
        elif isinstance(node.op, Sum):
            signs = node.op.signs
            values.append(
                [
                    sum((s * v for s, v in zip(signs, entry, strict=True)), Fraction(0))
                    for entry in zip(*xs, strict=True)
                ]
            )
        else:
            values.append([max(v, Fraction(0)) for v in xs[0]])
    return values


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("seed", range(20))
def test_exact_values_lie_between(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    centre, width = awkward_numbers(rng)(3), rng.random(3) * 10.0 ** rng.integers(-12, 3)
    low, high = (centre - width).tolist(), (centre + width).tolist()
    graph = extreme(kind)
    found = intervals(graph, low, high)
    for share in (Fraction(0), Fraction(1), Fraction(1, 3)):
        x = [Fraction(a) + (Fraction(b) - Fraction(a)) * share for a, b in zip(low, high, strict=True)]
        for bounds, values in zip(found, exactly(graph, x), strict=True):
            for lower, upper, value in zip(exact(bounds.lower), exact(bounds.upper), values, strict=True):
                assert lower <= value <= upper


@pytest.mark.parametrize("kind", ["max", "min"])
def test_an_extreme_is_no_wider_than_its_parts(kind: str) -> None:
    pick = torch.maximum if kind == "max" else torch.minimum
    found = intervals(extreme(kind), [-1.0, 0.5, 2.0], [1.0, 0.75, 5.0])
    assert torch.equal(found[4].lower, pick(found[0].lower, found[1].lower))
    assert torch.equal(found[4].upper, pick(found[0].upper, found[1].upper))


def test_what_is_zero_stays_zero() -> None:
    """Behind a ReLU that is off, differences, negatives and moves are 0, without a hair beside it."""
    off = Node(1, Scale(None, torch.tensor(-10.0, dtype=torch.float64)), (0,), (3,), "o")
    relu, negative = (
        Node(2, Relu(), (1,), (3,), "r"),
        Node(3, Scale(torch.tensor(-1.0, dtype=torch.float64)), (2,), (3,), "n"),
    )
    moved = Node(4, Index(0, torch.tensor([2, 0, 1]), 3), (2,), (3,), "m")
    shaped, difference = Node(5, Reshape((3,), (3,)), (4,), (3,), "s"), Node(6, Sum((1, -1)), (5, 3), (3,), "d")
    found = intervals(chain(off, relu, negative, moved, shaped, difference), [-1.0] * 3, [1.0] * 3)
    for bounds in found[2:]:
        assert not bool(bounds.lower.any())
        assert not bool(bounds.upper.any())


def test_a_radius_is_not_forgotten() -> None:
    """A factor that is off by up to 0.5 widens the bounds: only exact factors are taken by their ends."""
    half = torch.tensor(0.5, dtype=torch.float64)
    scaled = Node(1, Scale(torch.tensor(1.0, dtype=torch.float64), None, Scale(half)), (0,), (3,), "s")
    found = intervals(chain(scaled), [1.0] * 3, [2.0] * 3)[1]
    assert bool((found.lower <= 0.5).all())
    assert bool((found.upper >= 3.0).all())


def test_a_sum_that_is_no_maximum_is_taken_for_none() -> None:
    """b + relu(a − c) is not max(a, b)."""
    other = Node(1, Linear(torch.eye(3, dtype=torch.float64) * 5), (0,), (3,), "c")
    difference, hinge = Node(2, Sum((1, -1)), (0, 1), (3,), "d"), Node(3, Relu(), (2,), (3,), "r")
    found = intervals(chain(other, difference, hinge, Node(4, Sum((1, 1)), (0, 3), (3,), "y")), [-1.0] * 3, [1.0] * 3)
    assert bool((found[4].upper >= 3.0).all())  # at x = −1: −1 + relu(−1 + 5)
